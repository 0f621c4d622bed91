"""Who an account is, what its hooks say, and that no secret of it gets anywhere."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.accounts.arguments import build, parse
from agent_fleet.accounts.assets import share
from agent_fleet.accounts.credentials import credential, handed_over
from agent_fleet.accounts.environment import Person, environment
from agent_fleet.accounts.keychain import Keychain, service_of
from agent_fleet.accounts.provisioning import faults, hooks, owned, provision
from agent_fleet.accounts.readers import read_quota, sources
from agent_fleet.api import Account, FleetError, HookSaid
from agent_fleet_providers import _claude_account, _codex_account
from agent_fleet_providers.apikey import ApiKey
from agent_fleet_providers.claude import Claude
from agent_fleet_providers.codex import Codex
from support.account_homes import claude_login, codex_login, jwt, private
from support.jobs import job, settings
from support.keychain import Security

WHO = Person("somebody", "/home/somebody")
SID = "01a22e7d-a664-72d1-9a91-b4ba4b7358e0"


def account(home: Path, **more: Any) -> Account:
    return Account(**{"profile": "p-1", "provider": "p", "home": str(home), **more})


# ---------------------------------------------------------------------------------------------------- identity


def test_the_same_account_in_two_homes_is_the_same_and_another_is_not(tmp_path: Path) -> None:
    for login, identity in ((claude_login, _claude_account.identity), (codex_login, _codex_account.identity)):
        names = ("who", "account") if login is claude_login else ("account", "who")
        found = []
        for number, who in enumerate(("acc-1", "ACC-1 ", "acc-2")):
            home = tmp_path / f"{names[0]}{number}"
            login(home, **{names[0]: who})
            found.append(identity(account(home)))
        assert found[0] == found[1] != found[2]
        assert None not in found


def test_the_persons_own_login_is_named_as_an_account_is(tmp_path: Path) -> None:
    own = tmp_path / ".claude"
    assert list(Claude(settings(tmp_path)).own_accounts(str(own), str(tmp_path / "none"))) == []
    claude_login(own, who="me")
    named = [_claude_account.identity(account(own))]
    assert list(Claude(settings(tmp_path)).own_accounts(str(own), "")) == named
    (own / ".claude.json").rename(tmp_path / ".claude.json")  # where it lies without CLAUDE_CONFIG_DIR
    assert list(Claude(settings(tmp_path)).own_accounts(str(own), "")) == named
    desktop = private(tmp_path / "config.json", json.dumps({"lastKnownAccountUuid": " UUID-1 "}))
    assert list(Claude(settings(tmp_path)).own_accounts("", str(desktop))) == ["account:uuid-1:"]
    for text in ("{", "[]", json.dumps({"lastKnownAccountUuid": 7})):
        private(desktop, text)
        assert list(Claude(settings(tmp_path)).own_accounts("", str(desktop))) == []
    codex_login(tmp_path / ".codex", account="me")
    assert list(Codex(settings(tmp_path)).own_accounts(str(tmp_path / ".codex"), "")) == [
        _codex_account.identity(account(tmp_path / ".codex"))
    ]
    assert list(Codex(settings(tmp_path)).own_accounts("", "")) == []


def test_a_key_is_known_by_its_digest(tmp_path: Path) -> None:
    provider = ApiKey(settings(tmp_path))
    one, same, other = (
        provider.identity(account(tmp_path, environ={"ANTHROPIC_API_KEY": key}), 1)
        for key in ("sk-1", " sk-1\n", "sk-2")
    )
    assert one == same != other
    assert one is not None
    assert "sk-1" not in one
    assert provider.identity(account(tmp_path), 1) is None
    private(tmp_path / "h" / "auth.json", json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": "sk-1"}))
    assert _codex_account.identity(account(tmp_path / "h")) == one


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"oauthAccount": 1}', '{"oauthAccount": {"accountUuid": " "}}', "[" * 99999]
)
def test_without_a_name_claude_codes_account_is_unknown(tmp_path: Path, text: str) -> None:
    private(tmp_path / ".claude.json", text)
    assert _claude_account.identity(account(tmp_path)) is None


@pytest.mark.parametrize(
    "tokens",
    [
        {},
        {"id_token": "x"},
        {"id_token": "a.b.c"},
        {"id_token": jwt({"https://api.openai.com/auth": [1]})},
        {"account_id": 7},
    ],
)
def test_without_a_name_codex_account_is_unknown(tmp_path: Path, tokens: dict[str, Any]) -> None:
    private(tmp_path / "auth.json", json.dumps({"tokens": tokens, "OPENAI_API_KEY": None}))
    assert _codex_account.identity(account(tmp_path)) is None


def test_a_file_that_others_could_have_written_names_nobody(tmp_path: Path) -> None:
    claude_login(tmp_path)
    (tmp_path / ".claude.json").chmod(0o666)
    assert _claude_account.identity(account(tmp_path)) is None
    (tmp_path / ".claude.json").rename(tmp_path / "real")
    (tmp_path / "real").chmod(0o600)
    (tmp_path / ".claude.json").symlink_to(tmp_path / "real")
    assert _claude_account.identity(account(tmp_path)) is None


# ------------------------------------------------------------------------------------------------------- hooks


@pytest.mark.parametrize(
    ("event", "arguments", "payload", "said"),
    [
        ("session-start", [], {"session_id": SID, "source": "startup"}, HookSaid(kind="session", session=SID)),
        ("session-start", ["more", "--x"], {"sessionId": "s-1"}, HookSaid(kind="session", session="s-1")),
        ("session-start", [], {"a": [{"session_id": SID}], "session_id": SID}, HookSaid(kind="session", session=SID)),
        ("turn-end", [], {"session_id": SID, "hook_event_name": "Stop"}, HookSaid(kind="turn_end", session=SID)),
        (
            "turn-end",
            [json.dumps({"type": "agent-turn-complete", "thread-id": SID})],
            None,
            HookSaid(kind="turn_end", session=SID),
        ),
        ("other", [], {"session_id": SID}, None),
    ],
)
@pytest.mark.parametrize("provider", [Claude, Codex])
def test_what_a_hook_says(
    provider: Callable[..., Any], tmp_path: Path, event: str, arguments: list[str], payload: Any, said: HookSaid | None
) -> None:
    given = b"" if payload is None else json.dumps(payload).encode()
    assert provider(settings(tmp_path)).hook_event(event, arguments, given) == said


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"{", b"[]", b"\xff\xfe", b'{"session_id": 7}', b'{"session_id": "a b"}', b'{"session_id": "../x"}'),
        *(
            b'{"session_id": ""}',
            b'{"session_id": "a", "x": {"session_id": "b"}}',
            b'{"session_id": "a", "sessionId": "b"}',
        ),
        *(b"[" * 99999, b"x" * (5 << 20)),
    ],
    ids=range(12),
)
def test_a_hook_that_names_none_or_two_is_not_to_be_understood(tmp_path: Path, payload: bytes) -> None:
    with pytest.raises(FleetError) as caught:
        Claude(settings(tmp_path)).hook_event("session-start", [], payload)
    assert caught.value.code == "bad_input"
    assert len(str(caught.value)) < 200


# ------------------------------------------------------------------------------------------------------- apikey


def test_a_worker_on_a_key_has_nothing_of_the_persons_own(tmp_path: Path) -> None:
    launch = ApiKey(settings(tmp_path)).launch(job(tmp_path))
    assert launch.argv[1] == "--bare"


# ------------------------------------------------------------------------------------------------------ secrets

PLANTED = ("sk-ant-oat01-PLANTED-a1b2c3", "sk-ant-ort01-PLANTED-d4e5f6", "PLANTED_KEY_g7h8i9", "PLANTED.claim.j0k1l2")

LOUD = """\
#!/bin/sh
echo '{all}' >&2
window='{{"id": "{first}", "kind": "{first}", "percentUsed": 3}}'
claude='{{"provider": "claude", "source": "{all}", "windows": ['$window'], "state": {{"status": "stale", "error": "{all}"}}}}'
codex='{{"provider": "codex", "windows": ['$window'], "state": {{"status": "{all}"}}}}'
case "$1" in
  app-server) read line; read line; read line; echo '{{"id": 2, "error": {{"message": "{all}"}}}}' ;;
  *) echo '{{"providers": ['"$claude, $codex"']}}' ;;
esac
"""


def test_a_secret_that_is_planted_everywhere_is_found_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every credential and every answer of a provider holds one; all that fleet makes, says or writes is looked through."""
    caplog.set_level(logging.DEBUG)
    security, loud = Security(tmp_path), tmp_path / "loud"
    loud.write_text(LOUD.format(all=" ".join(PLANTED), first=PLANTED[0]))
    loud.chmod(0o755)
    said: list[object] = []
    written: dict[Path, bytes] = {}
    for provider in (Claude(settings(tmp_path)), Codex(settings(tmp_path))):
        spec, home = provider.account_spec(), tmp_path / provider.name
        claude_login(home, token=PLANTED[0])
        codex_login(home, token=PLANTED[2])
        log = private(home / "log", json.dumps({"type": "rate_limit_event", "rate_limit_info": {"status": PLANTED[0]}}))
        planted = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
        keychain = Keychain(security.program)
        keychain.write(service_of("s-{digest}", str(home)), WHO.name, PLANTED[1].encode(), replace=True)
        ambient = dict.fromkeys(
            ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY"), PLANTED[2]
        )
        env = environment(spec, str(home), {**ambient, "LANG": "C"}, WHO, path="/usr/bin:/bin", allow=("*",))
        mine = account(home, binary=str(loud), environ=env, tools={"quota-axi": str(loud)}, last_output=str(log))
        keys = owned(spec, [str(tmp_path)], hooks(("/opt/fleet",)))
        reading = read_quota(sources(provider, mine), mine, fresh_for=300, deadline=10)
        said += [env, mine, reading, provider.identity(mine, 5), credential(spec, str(home), WHO, keychain=keychain)]
        said += [provision(str(home), keys), faults(str(home), keys), share(str(home), str(home), spec.shared)]
        said += [build(spec.grammar, parse(spec.grammar, _start(provider.name), operation="start"), root=str(tmp_path))]
        written |= {
            path: path.read_bytes()
            for path in home.rglob("*")
            if path.is_file() and planted.get(path) != path.read_bytes()
        }
    keyed = private(tmp_path / "key", PLANTED[2])
    said.append(credential(_claude_account.KEYED, "", WHO, options={"key_file": str(keyed)}))
    with pytest.raises(FleetError) as caught:
        handed_over(_claude_account.KEYED, {"key_env": "A"}, {"A": f"{PLANTED[2]} {PLANTED[3]}"})
    security.behave("36")
    with pytest.raises(FleetError) as locked:
        Keychain(security.program).read("s", "a")
    said += [caught.value, locked.value, security.calls, caplog.text, *capfd.readouterr()]
    assert written  # what fleet wrote was looked at
    everything = "\n".join([repr(each) + str(each) for each in said] + [data.decode() for data in written.values()])
    for secret in PLANTED:
        assert secret not in everything
        assert secret.encode().hex() not in everything


def _start(name: str) -> list[str]:
    return ["--dangerously-skip-permissions", "do it"] if name == "claude" else [_codex_account.AUTONOMY, "do it"]


def test_a_reading_is_made_in_a_moment(tmp_path: Path) -> None:
    """What has to be read from files for a choice costs milliseconds."""
    claude_login(tmp_path)
    spec = _claude_account.SPEC
    keys = owned(spec, [str(tmp_path)], hooks(("/opt/fleet",)))
    provision(str(tmp_path), keys)
    begun = time.perf_counter()
    for _ in range(20):
        faults(str(tmp_path), keys)
        credential(spec, str(tmp_path), WHO)
        _claude_account.identity(account(tmp_path))
    assert (time.perf_counter() - begun) / 20 < 0.05
