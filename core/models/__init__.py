"""The vocabulary of the console: tools with their contracts, and devices, as every package speaks of them."""
