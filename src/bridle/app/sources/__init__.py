"""Where agents, skills, plugins, hooks and rules of a session come from."""
