"""Judging commands: risk, profiles, decisions, operators and approvals."""
