"""Devices, their links and tools, and the contract of each tool."""
