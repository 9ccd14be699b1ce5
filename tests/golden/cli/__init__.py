"""What each command prints: its text, its colours, its JSON and its exit code, for each case of a table."""
