"""The wire: Microsoft UFO's Agent Interaction Protocol (AIP) over WebSocket."""
