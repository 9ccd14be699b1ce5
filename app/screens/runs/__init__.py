"""Runs: what is running and what ran, cell by cell."""
