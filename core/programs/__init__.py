"""The programs that the console knows: one record for each, with its options and its effects."""
