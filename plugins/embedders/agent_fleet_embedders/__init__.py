"""Vectors of texts, for finding the same finding told in other words. `NAMES` are the modules that offer one."""

NAMES = ("wordllama",)
