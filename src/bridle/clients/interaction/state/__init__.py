"""State of a session and its engine, folded from events."""
