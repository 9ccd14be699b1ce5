"""The built-in tools, one file for each group. Each group's `offer` says what it can serve here."""
