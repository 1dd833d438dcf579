"""Bridle as a tool of other agents: sessions over the Model Context Protocol.

Owns      what an outer agent may call (`agent_tools`), read (`agent_resources`) and follow (`event_watch`), over one
          `Connection`; and that put on the official SDK (`sdk_server`, `stdio_streams`, `http_mount`), which is loaded
          where one of these is.
Imports   `protocol`, `base` and `clients.interaction`; it is a client like any other.
Start at  `agent_door.py`.
Is not    a place for authority: the client behind it is an agent, and the engine refuses what agents may not do.
"""
