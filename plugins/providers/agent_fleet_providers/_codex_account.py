"""Accounts of Codex 0.171: where a login lives, what fleet keeps in its home, and which command lines it may be given."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from agent_fleet.api import Account, AccountSpec, CredentialPlace, Grammar, Option, OwnedKey, Surroundings
from agent_fleet_providers._figures import table
from agent_fleet_providers._private import read_private
from agent_fleet_providers._vendors import AMBIENT, LOGINS

EFFORTS = ("low", "medium", "high", "xhigh")
AUTONOMY = "--dangerously-bypass-approvals-and-sandbox"
LOGIN = "auth.json"
CLAIMS = "https://api.openai.com/auth"

# A dotted key would be split at the dots of a path, so the trusted project is the key of an inline table. Hooks run only if they
# are trusted, and the ones in the home are fleet's own.
OURS = (
    *("--disable", "plugins", "--disable", "plugin_sharing"),
    *("-c", 'projects={{root}={trust_level="trusted"}}', "--dangerously-bypass-hook-trust"),
)
_CHOICES = ("<model>", "<effort>", "<autonomy>", "<notify>")

GRAMMAR = Grammar(
    options=(
        Option(name="model", words=("--model", "{}")),
        Option(name="effort", words=("-c", 'model_reasoning_effort="{}"'), values=EFFORTS),
        Option(name="autonomy", words=(AUTONOMY,), required=True),
        Option(name="notify", words=("-c", "notify={}"), longest=8192),
    ),
    start=(*OURS, *_CHOICES, "<prompt>"),
    resume=("resume", *OURS, "<session>", *_CHOICES),
    piped=("exec", *OURS, *_CHOICES, "-"),
    notify="notify",
)

SPEC = AccountSpec(
    binary="codex",
    behind=tuple(
        f"{packages}/codex-*/vendor/*/bin/codex" for packages in ("../..", "../node_modules/@openai")
    ),  # npm's two layouts
    homes=("CODEX_HOME", "CODEX_SQLITE_HOME"),
    surroundings=Surroundings(scrub=AMBIENT, secret=LOGINS),
    owned=(
        OwnedKey(file="config.toml", format="toml", path=("cli_auth_credentials_store",), value="file"),
        OwnedKey(file="config.toml", format="toml", path=("notify",), value="{turn_end_words}"),
        OwnedKey(file="config.toml", format="toml", path=("features", "hooks"), value=True),
        OwnedKey(file="config.toml", format="toml", path=("features", "plugins"), value=False),
        OwnedKey(
            file="hooks.json",
            path=("hooks", "SessionStart"),
            value={"hooks": [{"type": "command", "command": "{session_start}"}]},
            mark="hook session-start",
        ),
    ),
    shared=("AGENTS.md", "skills", "rules"),
    credentials=(
        CredentialPlace(
            store="file",
            name=LOGIN,
            kind="subscription",
            tokens=(("tokens", "access_token"), ("OPENAI_API_KEY",)),
            refresh=("tokens", "refresh_token"),
            expires=("tokens", "access_token"),
            clock="jwt",
        ),
    ),
    controls=(".mcp.json", ".codex/config.toml", ".codex/hooks.json"),
    login=("login",),
    grammar=GRAMMAR,
    efforts=EFFORTS,
    capabilities=frozenset({"resume", "session_hook", "turn_end_hook", "quota", "login"}),
)


def ours(root: str) -> list[str]:
    """What every session under an account is started with, for this project."""
    text = json.dumps(root, ensure_ascii=False).replace("\x7f", "\\u007f")  # a TOML string is one of JSON, but for that
    return [word.replace("{root}", text) for word in OURS]


def identity(account: Account) -> str | None:
    """The account that the login itself names: that of its token, or a digest of an API key; None if neither can be read."""
    return _named_in(account.home)


def own_accounts(base_home: str) -> list[str]:
    """Who the person's own Codex is logged in as."""
    found = _named_in(base_home) if base_home else None
    return [found] if found else []


def _named_in(home: str) -> str | None:
    try:
        login = table(json.loads(read_private(os.path.join(home, LOGIN))))
    except (OSError, ValueError, RecursionError):
        return None
    tokens = table(login.get("tokens"))
    claims = table(_claims(tokens.get("id_token")).get(CLAIMS))
    who = claims.get("chatgpt_account_id") or tokens.get("account_id")
    if isinstance(who, str) and who.strip():
        user = claims.get("chatgpt_user_id") or claims.get("user_id")
        return f"account:{who.strip().lower()}:{user.strip().lower() if isinstance(user, str) else ''}"
    key = login.get("OPENAI_API_KEY")
    return keyed(key) if isinstance(key, str) else None


def keyed(key: str) -> str | None:
    """What an API key is called: its digest, which says nothing of the key."""
    return f"key:{hashlib.sha256(key.strip().encode()).hexdigest()}" if key.strip() else None


def _claims(token: object) -> Mapping[str, Any]:
    parts = token.split(".") if isinstance(token, str) else []
    if len(parts) != 3:
        return {}
    try:
        return table(json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))))
    except (ValueError, binascii.Error, RecursionError):
        return {}
