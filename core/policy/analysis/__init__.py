"""Analysis of a call's arguments: finds what they would do and how risky it is. It decides nothing."""
