"""Files of the device: reached without races, read, written whole, listed."""
