"""Fleet: which devices there are, how they are, and what each of them can do."""
