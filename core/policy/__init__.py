"""Policy: decides on commands by rules, profiles, contracts and grants."""
