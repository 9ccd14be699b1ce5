"""Analyses a shell line: read as a shell reads it, judged program by program."""
