"""What a shell line would do: read as a shell reads it, judged program by program."""
