"""The way of a command: nine stages, permits, channels, outcomes."""
