"""Faults put by hand into the parts that keep people safe, to see that tests notice each of them."""
