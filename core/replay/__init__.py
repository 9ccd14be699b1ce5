"""Replay of the journal: time line, frames, and the changes between two frames."""
