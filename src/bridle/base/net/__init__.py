"""Networking: HTTP, server-sent events, WebSockets, JSON-RPC, addresses."""
