"""Approval of requests by operators: the queue, the rules for answers, grants, operators and their keys."""
