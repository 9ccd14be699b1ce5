"""Dispatch of commands to devices: nine stages, permits, channels, outcomes."""
