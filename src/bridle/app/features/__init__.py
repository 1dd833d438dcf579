"""The features of a session."""
