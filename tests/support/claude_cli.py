"""The real Claude Code in tests: where it is, and an environment that keeps it on loopback and in a temporary place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

PLACE = "node_modules/@anthropic-ai/claude-code-linux-x64/claude"


def binary() -> str:
    """The path of the CLI; the test is skipped if there is none, or fails where FLEET_REQUIRE_CLIS is set."""
    here = Path(__file__).resolve().parents[2] / ".clis" / PLACE
    named = os.environ.get("FLEET_TEST_CLAUDE", "")
    found = named or (str(here) if here.exists() else shutil.which("claude") or "")
    if found and os.access(found, os.X_OK):
        return found
    if os.environ.get("FLEET_REQUIRE_CLIS") == "1":
        pytest.fail("Claude Code is not installed, and FLEET_REQUIRE_CLIS=1 wants it")
    pytest.skip("Claude Code is not installed")


def environment(home: Path, url: str, *, retries: int = 1, subscription: bool = False) -> dict[str, str]:
    """A whole environment: nothing of this process's own gets in. `subscription` logs in with a token, not a key."""
    for name in ("home", "claude", "tmp"):
        (home / name).mkdir(parents=True, exist_ok=True)
    login = {"CLAUDE_CODE_OAUTH_TOKEN": "test-token"} if subscription else {"ANTHROPIC_API_KEY": "test-key"}
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home / "home"),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "TMPDIR": str(home / "tmp"),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CODE_MAX_RETRIES": str(retries),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        **login,
    }
