"""The real Codex in tests: where it is, and an environment that keeps it on loopback and in a temporary place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

PLACE = "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"

SETTINGS = """\
model = "scripted"
model_provider = "scripted"
allow_login_shell = false
check_for_update_on_startup = false
cli_auth_credentials_store = "file"

[analytics]
enabled = false

[features]
plugins = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = {retries}
stream_max_retries = {retries}
"""


def binary() -> str:
    """The path of the CLI; the test is skipped if there is none, or fails where FLEET_REQUIRE_CLIS is set."""
    here = Path(__file__).resolve().parents[2] / ".clis" / PLACE
    named = os.environ.get("FLEET_TEST_CODEX", "")
    found = named or (str(here) if here.exists() else shutil.which("codex") or "")
    if found and os.access(found, os.X_OK):
        return found
    if os.environ.get("FLEET_REQUIRE_CLIS") == "1":
        pytest.fail("Codex is not installed, and FLEET_REQUIRE_CLIS=1 wants it")
    pytest.skip("Codex is not installed")


def environment(home: Path, url: str, *, retries: int = 1) -> dict[str, str]:
    """A whole environment: nothing of this process's own gets in.

    The temporary directory lies beside the one for the program's home, not above it: a home below a temporary
    directory makes Codex go without the helper that its sandbox needs.
    """
    for name in ("home", "codex", "tmp"):
        (home / name).mkdir(parents=True, exist_ok=True)
    (home / "codex" / "config.toml").write_text(SETTINGS.format(url=url, retries=retries), encoding="utf-8")
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home / "home"),
        "CODEX_HOME": str(home / "codex"),
        "TMPDIR": str(home / "tmp"),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "SCRIPTED_KEY": "test-key",
    }
