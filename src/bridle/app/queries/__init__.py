"""Answers to queries of clients that need no running engine."""
