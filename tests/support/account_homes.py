"""Homes of accounts in tests: provisioned as fleet does it, with logins that are no real ones."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_fleet.accounts.arguments import Command
from agent_fleet.accounts.environment import Person, environment
from agent_fleet.accounts.provisioning import Hooks, hooks, owned, provision
from agent_fleet.accounts.spec import AccountSpec
from support import claude_cli, codex_cli

WHO = Person("somebody", "/home/somebody")

# Takes note of how it was called, and ends as badly as a program can: with the status that a session takes for an order.
RECORDER = """\
#!/bin/sh
here='{place}'
mkdir "$here/.$$"
for word in "$@"; do printf '%s\\n' "$word"; done > "$here/.$$/arguments"
cat > "$here/.$$/payload"
mv "$here/.$$" "$here/$(date +%s%N).$$"
exit 2
"""


class Calls:
    """A stand-in for the command `fleet` that records each call."""

    def __init__(self, place: Path) -> None:
        self._place = place / "calls"
        self._place.mkdir(parents=True)
        self.program = place / "it's fleet"
        self.program.write_text(RECORDER.format(place=self._place))
        self.program.chmod(0o755)

    @property
    def hooks(self) -> Hooks:
        return hooks((str(self.program),))

    def all(self) -> list[tuple[list[str], bytes]]:
        """Each call so far: its arguments, and what it read."""
        found = []
        for each in sorted(path for path in self._place.iterdir() if not path.name.startswith(".")):
            found.append(((each / "arguments").read_text().splitlines(), (each / "payload").read_bytes()))
        return found


def ready(spec: AccountSpec, home: Path, calls: Calls, *roots: Path) -> tuple[str, ...]:
    """Provision the home for these projects."""
    return provision(str(home), owned(spec, map(str, roots), calls.hooks))


def claude_login(home: Path, *, token: str = "sk-ant-oat01-DUMMY", who: str = "0b1c") -> None:
    login = {
        "accessToken": token,
        "refreshToken": "sk-ant-ort01-DUMMY",
        "expiresAt": int((time.time() + 86400) * 1000),
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
        "rateLimitTier": "default_claude_max_5x",
    }
    private(home / ".credentials.json", json.dumps({"claudeAiOauth": login}))
    state = home / ".claude.json"
    known = json.loads(state.read_text()) if state.exists() else {}
    known["oauthAccount"] = {"accountUuid": who, "organizationUuid": "org-1", "emailAddress": "a@example.invalid"}
    private(state, json.dumps(known))


def codex_login(home: Path, *, token: str = "DUMMY", account: str = "acc-1") -> None:
    claims = {"https://api.openai.com/auth": {"chatgpt_plan_type": "plus", "chatgpt_account_id": account}}
    login = {
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": None,
        "tokens": {
            "id_token": jwt({"email": "a@example.invalid", **claims}),
            "access_token": jwt({"exp": int(time.time()) + 86400, "note": token}),
            "refresh_token": token,
            "account_id": account,
        },
        "last_refresh": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    private(home / "auth.json", json.dumps(login))


def jwt(claims: Mapping[str, Any]) -> str:
    """A token that nobody signed."""
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    words = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*words, "c2ln"])


def private(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(text)
    path.chmod(0o600)
    return path


def claude_environment(root: Path, spec: AccountSpec, home: Path, url: str) -> dict[str, str]:
    """What fleet makes of a person's environment that points to this server. All else that the program asks for goes nowhere."""
    ambient = claude_cli.environment(root, url)
    return _made(spec, home, {**ambient, "IS_SANDBOX": "1", **NOWHERE}, ("ANTHROPIC_BASE_URL", "CLAUDE_CODE_*"))


def codex_environment(root: Path, spec: AccountSpec, home: Path, url: str, *, login: bool = False) -> dict[str, str]:
    """The same for Codex, whose settings name the server; with `login` the usage endpoint too."""
    ambient = codex_cli.environment(root, url)
    settings = (root / "codex" / "config.toml").read_text()
    base = f'chatgpt_base_url = "{url}/backend-api/"\n' if login else ""
    private(home / "config.toml", f"# mine\n{base}{settings}")
    return _made(spec, home, {**ambient, **NOWHERE}, ())


NOWHERE = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}


def _made(spec: AccountSpec, home: Path, ambient: Mapping[str, str], allow: tuple[str, ...]) -> dict[str, str]:
    who = Person("somebody", ambient["HOME"])
    return environment(spec, str(home), ambient, who, path=ambient["PATH"], allow=(*allow, *NOWHERE))


def words(program: str, command: Command) -> list[str]:
    return [program, *command.arguments]
