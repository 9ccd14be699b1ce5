"""The design language: tokens, theme, icons and painted glyphs. Colours and sizes come from here only."""

from app.overrides import guard_overrides

# Before any class of ours is made: all of them are made of what is here.
guard_overrides()
