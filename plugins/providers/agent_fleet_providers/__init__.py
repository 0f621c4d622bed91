"""The kinds of agents that come with Agent Fleet. Names that start with an underscore are parts that they share."""

NAMES = ("anthropic", "apikey", "claude", "codex", "command", "openai")
