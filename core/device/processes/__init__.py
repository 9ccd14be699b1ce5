"""Programs that the device starts: run, bounded, and ended with everything they started."""
