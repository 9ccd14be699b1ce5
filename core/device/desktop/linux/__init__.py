"""The Linux desktop implementation: AT-SPI for controls, X11 with XTEST for pointer, keys and windows."""
