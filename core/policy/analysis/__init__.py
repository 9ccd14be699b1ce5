"""What a call's arguments would do, found by reading them; nothing here decides."""
