"""Batch: steps for many devices, built, judged before anything is sent, and run."""
