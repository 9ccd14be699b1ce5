"""What the program writes and says, kept: journal entries, frames of the control socket, frames of devices.

A move of code must not change any of it. `python -m tests.golden` plays a story against a real service and
real devices and compares; `python -m tests.golden --write` keeps what is said now, where a change is meant.
"""
