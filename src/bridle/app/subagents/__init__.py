"""Runs of subagents."""
