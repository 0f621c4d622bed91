"""The lanes that come with Agent Fleet: ways to run a worker's process."""

NAMES = ("api", "headless", "serial", "subagent", "terminal")
