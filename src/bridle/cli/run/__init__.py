"""`bridle`, `bridle run`, `attach` and `demo`: verbs that work in a session."""
