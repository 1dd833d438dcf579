"""Bridle as a client of MCP servers: connect, discover, supervise, and present what they offer as tools.

Owns: what settings say of a server (`server_definitions`), what it offers and how long that is kept (`tool_lists`),
how it is (`server_state`), one run of it (`server_run`) and its life (`shared_server`), and the servers of a session:
what the first request needs of them (`session_servers`), and the rest (`running_servers`). Start with
`server_definitions`.

May import `engine`, `protocol` and `base`. Nothing of it is loaded where no server is configured, what runs them not
before the first request has left, and the `mcp` package not before the first connection. Everything a server says is
from outside: wrapped for the model, never obeyed.

It is not the server that other agents drive: that is `control`.
"""
