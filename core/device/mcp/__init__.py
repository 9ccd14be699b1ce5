"""Hosts MCP servers and offers their tools as tools of this device.

`config` reads `mcpServers`, `host` manages the servers and offers their tools, `server` keeps a server
running, `session` sends requests, `stdio_transport` and `http_transport` carry messages, `server_log` logs
other output, `tool_listing` checks tool definitions, `tool_call` runs a call, `results` converts its answer.
The SDK takes half a second to import, so it is imported only when a server is configured.
"""
