"""Replay: what happened, step by step, with the pictures that were known then."""
