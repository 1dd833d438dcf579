"""Bridle: a local-first coding-agent harness. Nothing is imported here."""
