"""The gateway: an MCP server through which agents ask for commands. A client of the control socket."""
