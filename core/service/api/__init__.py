"""The console API: declarations of its methods, its models, and its implementation in the service."""
