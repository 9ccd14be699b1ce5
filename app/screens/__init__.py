"""The screens of the window, one folder each; `screen` says what a screen is."""
