"""A command as values: its request, checked arguments, permit, result, and the channel that takes it."""
