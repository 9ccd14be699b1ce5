"""Batches, plans and runs."""
