"""The console API over a socket: protocol, server, client, and who may connect."""
