"""The components all screens are made of. They show state and emit wishes; none of them knows the core."""
