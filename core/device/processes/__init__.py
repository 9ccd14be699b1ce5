"""Child processes of the device client: started, limited, and ended with everything that they started."""
