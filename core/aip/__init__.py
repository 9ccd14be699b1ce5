"""Microsoft UFO's Agent Interaction Protocol (AIP) over WebSocket: links between console and devices."""
