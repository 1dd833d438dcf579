"""Bridle as a client of MCP servers: connect, discover, supervise, and present what they offer as tools.

Owns: the settings of a server (`server_definitions`), its tools and their kept list (`tool_lists`), its pins
(`launch_pins`, `server_pins`, `pin_gate`), one run of it (`server_run`), the server that sessions share
(`shared_server`, `server_pool`), the servers of a session (`session_servers`) and their calls (`server_calls`). Start
with `session_servers`.

May import `engine`, `protocol` and `base`. It is imported if settings name a server, and the `mcp` package with the
first connection. Everything a server says is untrusted: wrapped for the model, never obeyed.

It is not the server that other agents drive: that is `control`.
"""
