"""The decomposers that come with fleet."""

NAMES = ("files", "items", "llm")
