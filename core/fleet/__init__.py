"""Devices, their tools, and what the console holds to be true of each tool."""
