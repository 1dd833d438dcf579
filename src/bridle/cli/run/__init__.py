"""`bridle run` and other verbs for scripts."""
