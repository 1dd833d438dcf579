"""Processes: start, watch and end them."""
