"""Widgets that all screens are made of. They show state and emit signals, and do not know the console API."""
