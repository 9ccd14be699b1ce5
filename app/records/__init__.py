"""Views and texts of what several screens show: devices, runs, rejected connections."""
