"""Approvals: the queue of requests that wait for an operator, and the card that answers one of them."""
