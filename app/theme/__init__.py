"""The design language: tokens, theme, icons and painted glyphs. Colours and sizes come from here only."""
