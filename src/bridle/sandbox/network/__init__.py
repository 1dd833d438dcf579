"""The network proxy of sandboxed commands."""
