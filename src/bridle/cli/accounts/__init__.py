"""Verbs for providers, models, credentials and tokens."""
