"""Questions to the user: their forms, cards and answers."""
