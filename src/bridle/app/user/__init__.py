"""Settings, trust and stored keys of the user."""
