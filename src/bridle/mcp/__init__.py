"""Bridle as a client of MCP servers: connect, discover, supervise, and present what they offer as tools.

Owns: what settings say of a server (`server_definitions`), what it offers and how long that is kept (`tool_lists`),
how it is (`server_state`), the connection, its life, and what a session sees of all servers. Start with
`server_definitions`.

May import `engine`, `protocol` and `base`. Nothing of it is loaded where no server is configured, and the `mcp` package
not before the first connection. Everything a server says is from outside: wrapped for the model, never obeyed.

It is not the server that other agents drive: that is `control`.
"""
