"""Agents: what one may see and do, which there are, what one hands over to another, and work towards a goal.

Owns definitions (`definition`), the agents Bridle brings (`builtin_agents`), the list of all that count
(`agent_registry`), whether one may send another (`delegation`), what it is told and leaves (`handoff`), and
the rounds of a goal (`session_goal`). May import `base`, `protocol` and `engine`. Start with `definition`. It is
not the run of a child, nor who runs a check: `app` puts both together from the parts of a session, so that nothing
here can give away what the session does not have.
"""
