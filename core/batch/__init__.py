"""Batches: files, dry runs (plans) and runs."""
