"""Repair and rekey the database."""
