"""The process that owns one home, and the one door to it."""
