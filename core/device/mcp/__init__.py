"""Hosts MCP servers: their tools become tools of this device.

`config` reads `mcpServers` as other hosts write it, `host` keeps the servers and offers their tools,
`server` keeps one of them running, `process`, `lines` and `web` carry its messages, `listing` and `names`
say what it offers, `results` turns its answers into ours. The SDK takes half a second to import, so nothing
here imports it before a server is configured.
"""
