"""The one place the version is written; importing it costs nothing."""

__version__ = "0.1.0"
