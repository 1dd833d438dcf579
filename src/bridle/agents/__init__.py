"""Agents: what one may see and do, which there are, and what one hands over to another.

Owns definitions (`definition`), the agents Bridle brings (`builtin_agents`), the list of all that count
(`agent_registry`) and what settings say of them (`agent_settings`). May import `base`, `protocol` and `engine`. Start
with `definition`. It is not the run of a child: `app` puts one together from the parts of its session, so that nothing
here can give away what the session does not have.
"""
