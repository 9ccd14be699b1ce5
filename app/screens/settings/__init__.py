"""Settings: appearance, operators, this computer, policy."""
