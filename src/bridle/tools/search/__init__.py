"""Search: ripgrep, folder walks and the repo map."""
