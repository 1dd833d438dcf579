"""Git: hardened calls that only read, repository facts, worktrees."""
