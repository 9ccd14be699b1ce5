"""The journal: what happened, found by a query, proved, and shown entry by entry."""
