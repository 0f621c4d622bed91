"""Variables by which the environment of one agent could lead another: which login, which server, which session they belong to."""

from __future__ import annotations

AMBIENT = ("ANTHROPIC_*", "CLAUDE_*", "OPENAI_*", "CODEX_*", "CLAUDECODE", "AI_AGENT")
LOGINS = (
    *(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_CUSTOM_HEADERS",
        "ANTHROPIC_PROFILE",
        "ANTHROPIC_CONFIG_DIR",
    ),
    *("CLAUDE_CONFIG_DIR", "CLAUDE_SECURESTORAGE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_*", "CLAUDE_CODE_API_KEY*"),
    *("CLAUDE_CODE_ACCOUNT_UUID", "CLAUDE_CODE_ORGANIZATION_UUID", "CLAUDE_CODE_SESSION_ACCESS_TOKEN"),
    *("OPENAI_API_KEY", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"),
    *("CODEX_HOME", "CODEX_SQLITE_HOME"),
)
