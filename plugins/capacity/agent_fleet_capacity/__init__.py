"""Capacity probes: ways to read what this machine can spare, one a module."""

from __future__ import annotations

NAMES = ("cgroup1", "cgroup2", "macos", "procfs")
