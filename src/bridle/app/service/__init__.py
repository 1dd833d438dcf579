"""An engine that listens, or is embedded in another program."""
