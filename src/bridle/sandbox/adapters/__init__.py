"""Ways to confine a command: bubblewrap, Landlock, unshare, the macOS sandbox."""
