"""The gallery: every widget with content that stretches it, rendered to pictures."""
