"""Signing: the unlocked operator key, what presses count, and the dialog in which a change is signed."""
