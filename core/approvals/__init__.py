"""Requests that wait for operators: the queue, who may answer and how, grants, and operators' keys."""
