"""Agent Fleet: many coding-agent sessions on one shared task queue. Importing this package costs nothing."""

__version__ = "0.1.0"
