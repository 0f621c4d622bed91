"""Accounts of Claude Code 2.1: where a login lives, what fleet keeps in its home, and which command lines it may be given."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_fleet.api import Account, AccountSpec, CredentialPlace, Grammar, Option, OwnedKey, Surroundings
from agent_fleet_providers._figures import table
from agent_fleet_providers._private import read_private
from agent_fleet_providers._vendors import AMBIENT, LOGINS

HOME = "CLAUDE_CONFIG_DIR"
EFFORTS = ("low", "medium", "high", "xhigh", "max")
AUTONOMY = "--dangerously-skip-permissions"
STATE = ".claude.json"  # Claude Code's own; it lies in the home as soon as that has a name

USER = ("--setting-sources", "user")
_CHOICES = ("<model>", "<effort>")

GRAMMAR = Grammar(
    options=(
        Option(name="autonomy", words=(AUTONOMY,), required=True),
        Option(name="model", words=("--model", "{}")),
        Option(name="effort", words=("--effort", "{}"), values=EFFORTS),
    ),
    start=("<autonomy>", *USER, *_CHOICES, "<prompt>"),
    resume=("--resume", "<session>", "<autonomy>", *USER, *_CHOICES),
    piped=("-p", "<autonomy>", *USER, *_CHOICES),
)


def _hook(place: str, *, matcher: str = "") -> dict[str, object]:
    hook = {"type": "command", "command": place}
    return {"matcher": matcher, "hooks": [hook]} if matcher else {"hooks": [hook]}


SPEC = AccountSpec(
    binary="claude",
    homes=(HOME,),
    surroundings=Surroundings(
        scrub=AMBIENT,
        secret=LOGINS,
        sets={
            "DISABLE_LOGIN_COMMAND": "1",
            "DISABLE_LOGOUT_COMMAND": "1",
            "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
        },
    ),
    owned=(
        OwnedKey(
            file="settings.json",
            path=("hooks", "SessionStart"),
            value=_hook("{session_start}", matcher="startup|resume|clear|compact"),
            mark="hook session-start",
        ),
        OwnedKey(file="settings.json", path=("hooks", "Stop"), value=_hook("{turn_end}"), mark="hook turn-end"),
        OwnedKey(file=STATE, path=("hasCompletedOnboarding",), value=True),
        OwnedKey(file=STATE, path=("projects", "{root}", "hasTrustDialogAccepted"), value=True),
    ),
    shared=("CLAUDE.md", "skills"),
    credentials=(
        CredentialPlace(
            store="file",
            name=".credentials.json",
            kind="subscription",
            tokens=(("claudeAiOauth", "accessToken"), ("claudeAiOauth", "access_token")),
            refresh=("claudeAiOauth", "refreshToken"),
            expires=("claudeAiOauth", "expiresAt"),
            clock="milliseconds",
        ),
        CredentialPlace(store="keychain", name="Claude Code-credentials-{digest}", kind="subscription"),
    ),
    controls=(".mcp.json", ".claude/settings*.json"),
    login=("auth", "login"),
    grammar=GRAMMAR,
    efforts=EFFORTS,
    capabilities=frozenset({"resume", "session_hook", "turn_end_hook", "quota", "login"}),
)

KEYED = replace(
    SPEC,
    homes=(),
    owned=(),
    shared=(),
    login=(),
    credentials=(CredentialPlace(store="named", name="ANTHROPIC_API_KEY", kind="api_key"),),
    grammar=replace(
        GRAMMAR,
        start=("--bare", *GRAMMAR.start),
        resume=("--bare", *GRAMMAR.resume),
        piped=("--bare", *GRAMMAR.piped),
    ),
    capabilities=frozenset({"resume"}),
)


def identity(account: Account) -> str | None:
    """The account that Claude Code itself wrote down at its login; None if it did not, or if that cannot be read."""
    return _written(os.path.join(account.home, STATE))


def own_accounts(base_home: str, desktop_file: str) -> list[str]:
    """Who the person's own Claude Code and Claude Desktop say is logged in. The desktop names no organization."""
    found = []
    if base_home:
        # without CLAUDE_CONFIG_DIR the file lies beside ~/.claude, with it inside of what that names
        found = [_written(os.path.join(where, STATE)) for where in (base_home, os.path.dirname(base_home))]
    who = _document(desktop_file).get("lastKnownAccountUuid") if desktop_file else None
    if isinstance(who, str) and who.strip():
        found.append(f"account:{who.strip().lower()}:")
    return [each for each in found if each]


def _document(path: str) -> Mapping[str, Any]:
    try:
        return table(json.loads(read_private(path)))
    except (OSError, ValueError, RecursionError):
        return {}


def _written(path: str) -> str | None:
    login = table(_document(path).get("oauthAccount"))
    who, organization = login.get("accountUuid"), login.get("organizationUuid")
    if not isinstance(who, str) or not who.strip():
        return None
    return f"account:{who.strip().lower()}:{organization.strip().lower() if isinstance(organization, str) else ''}"
