"""What a client knows of a session and its engine, folded from events."""
