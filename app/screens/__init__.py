"""The screens of the window, one folder each; `base` says what a screen is."""
