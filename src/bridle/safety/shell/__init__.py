"""Understanding shell commands without running them."""
