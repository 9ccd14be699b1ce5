"""The built-in tools, a module for each group. A group's `offer` returns the tools it can serve here."""
