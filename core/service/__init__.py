"""The service process that owns one home, and its console API."""
