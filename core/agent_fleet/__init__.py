"""Agent Fleet: many coding-agent sessions on one shared task queue. Importing this package costs nothing."""

from __future__ import annotations

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`Fleet`, loaded when it is asked for."""
    if name != "Fleet":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module("agent_fleet.library").Fleet
