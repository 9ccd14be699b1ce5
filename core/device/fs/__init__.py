"""File access of the device: resolves paths without races, reads, writes atomically and lists folders."""
