"""The console API over a socket: protocol, server, client, and transport with its access checks."""
