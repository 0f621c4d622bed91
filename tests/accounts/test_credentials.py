"""What is known of a login: that it is there, of which kind, until when. Never what it is."""

from __future__ import annotations

import hashlib
import json
import os
import time
import unicodedata
from pathlib import Path

import pytest

from agent_fleet.accounts.credentials import credential, handed_over
from agent_fleet.accounts.environment import Person
from agent_fleet.accounts.keychain import Keychain, service_of
from agent_fleet.errors import FleetError
from agent_fleet_providers import _claude_account, _codex_account
from support.account_homes import claude_login, codex_login, jwt, private
from support.keychain import Security

WHO = Person("somebody", "/home/somebody")
CLAUDE, CODEX, KEYED = _claude_account.SPEC, _codex_account.SPEC, _claude_account.KEYED
SECRET = "sk-planted-0123456789"


def test_a_login_in_a_file_is_known_by_its_kind_and_end(tmp_path: Path) -> None:
    claude_login(tmp_path, token=SECRET)
    found = credential(CLAUDE, str(tmp_path), WHO)
    assert (found.state, found.store, found.kind, found.renewable) == ("present", "file", "subscription", True)
    assert found.expires is not None
    assert abs(found.expires - time.time() - 86400) < 60
    assert SECRET not in repr(found)
    codex_login(tmp_path, token=SECRET)
    found = credential(CODEX, str(tmp_path), WHO)
    assert (found.state, found.renewable) == ("present", True)
    assert found.expires is not None
    assert abs(found.expires - time.time() - 86400) < 60
    assert SECRET not in repr(found)


def test_a_key_in_codex_own_file_is_a_login_without_end(tmp_path: Path) -> None:
    private(tmp_path / "auth.json", json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": SECRET}))
    found = credential(CODEX, str(tmp_path), WHO)
    assert (found.state, found.expires, found.renewable) == ("present", None, False)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", '"x"', "{}", '{"claudeAiOauth": 1}', '{"claudeAiOauth": {"accessToken": ""}}'),
        *('{"claudeAiOauth": {"accessToken": 7}}', '{"claudeAiOauth": {"refreshToken": "x"}}', "\x00", "[" * 99999),
    ],
)
def test_a_file_that_holds_no_login_is_invalid(tmp_path: Path, text: str) -> None:
    private(tmp_path / ".credentials.json", text)
    assert credential(CLAUDE, str(tmp_path), WHO).state == "invalid"


@pytest.mark.parametrize("expires", [0, -1, 1e30, 10**400, "soon", True, None, [], float("inf")])
def test_an_end_that_is_none_is_unknown(tmp_path: Path, expires: object) -> None:
    private(
        tmp_path / ".credentials.json", json.dumps({"claudeAiOauth": {"accessToken": SECRET, "expiresAt": expires}})
    )
    found = credential(CLAUDE, str(tmp_path), WHO)
    assert (found.state, found.expires) == ("present", None)


@pytest.mark.parametrize("token", ["x", "a.b", "a.b.c", "..", "a.!!!.c", jwt({"exp": "x"}), jwt({})])
def test_a_token_without_an_end_is_one_all_the_same(tmp_path: Path, token: str) -> None:
    private(tmp_path / "auth.json", json.dumps({"tokens": {"access_token": token}}))
    assert (credential(CODEX, str(tmp_path), WHO).state, credential(CODEX, str(tmp_path), WHO).expires) == (
        "present",
        None,
    )


@pytest.mark.parametrize("how", ["readable", "link", "hard link", "directory", "pipe"])
def test_a_file_that_is_not_private_is_invalid_and_says_why(tmp_path: Path, how: str) -> None:
    home = tmp_path / "h"
    claude_login(home, token=SECRET)
    file = home / ".credentials.json"
    if how == "readable":
        file.chmod(0o644)
    elif how == "hard link":
        os.link(file, home / "again")
    else:
        file.rename(tmp_path / "real")
        if how == "link":
            file.symlink_to(tmp_path / "real")
        elif how == "directory":
            file.mkdir()
        else:
            os.mkfifo(file, 0o600)
    found = credential(CLAUDE, str(home), WHO)
    assert found.state == "invalid"
    assert found.note.startswith(".credentials.json: ")


def test_nothing_there_is_absent(tmp_path: Path) -> None:
    for spec in (CLAUDE, CODEX):
        assert credential(spec, str(tmp_path / "none"), WHO).state == "absent"


# ------------------------------------------------------------------------------------------------ keys by name


def test_a_key_is_named_by_a_variable_or_a_private_file(tmp_path: Path) -> None:
    ambient = {"WORK_KEY": f" {SECRET}\n"}
    assert credential(KEYED, "", WHO, options={"key_env": "WORK_KEY"}, ambient=ambient).state == "present"
    assert handed_over(KEYED, {"key_env": "WORK_KEY"}, ambient) == {"ANTHROPIC_API_KEY": SECRET}
    file = private(tmp_path / "key", SECRET + "\n")
    assert handed_over(KEYED, {"key_file": str(file)}, {}) == {"ANTHROPIC_API_KEY": SECRET}
    assert handed_over(CLAUDE, {}, {}) == {}


def test_a_key_that_cannot_be_used_is_told_without_it(tmp_path: Path) -> None:
    open_ = private(tmp_path / "open", SECRET)
    open_.chmod(0o644)
    two = private(tmp_path / "two", f"{SECRET} {SECRET}")
    wrong: list[tuple[dict[str, str], dict[str, str], str]] = [
        ({}, {}, "invalid"),
        ({"key_env": "A", "key_file": "/x"}, {"A": SECRET}, "invalid"),
        ({"key_env": "A"}, {}, "absent"),
        ({"key_env": "A"}, {"A": "  "}, "absent"),
        ({"key_env": "A"}, {"A": f"{SECRET}\n{SECRET}"}, "invalid"),
        ({"key_file": str(tmp_path / "none")}, {}, "absent"),
        ({"key_file": str(open_)}, {}, "invalid"),
        ({"key_file": str(two)}, {}, "invalid"),
    ]
    for options, ambient, state in wrong:
        found = credential(KEYED, "", WHO, options=options, ambient=ambient)
        assert found.state == state, options
        assert SECRET not in repr(found)
        with pytest.raises(FleetError) as caught:
            handed_over(KEYED, options, ambient)
        assert SECRET not in str(caught.value)


# ---------------------------------------------------------------------------------------------------- keychain


@pytest.fixture
def security(tmp_path: Path) -> Security:
    return Security(tmp_path)


def test_the_item_has_exactly_the_name_that_claude_code_gives_it() -> None:
    name = CLAUDE.credentials[1].name
    assert service_of(name, "/Users/test/.claude-work") == "Claude Code-credentials-03abf0ee"
    assert service_of(name, "/Users/test/.claude-work/") == "Claude Code-credentials-8bd6f0f5"
    composed, apart = unicodedata.normalize("NFC", "/é"), unicodedata.normalize("NFD", "/é")
    assert composed != apart
    assert service_of(name, composed) == service_of(name, apart)
    assert service_of(name, "/h").endswith(hashlib.sha256(b"/h").hexdigest()[:8])


@pytest.mark.parametrize(
    "value", [b'{"a":{"accessToken":"sk-planted"}}', '{"é":"\n"}'.encode(), b"x", b"deadbeef", b"{\xff}"]
)
def test_a_value_goes_in_and_out_by_a_pipe_alone(security: Security, value: bytes) -> None:
    keychain = Keychain(security.program)
    assert keychain.state("s", "a") == "absent"
    keychain.write("s", "a", value, replace=False)
    assert keychain.state("s", "a") == "present"
    assert keychain.read("s", "a") == value
    assert keychain.state("s", "b") == keychain.state("t", "a") == "absent"
    with pytest.raises(FleetError) as caught:
        keychain.write("s", "a", b"other", replace=False)
    assert caught.value.code == "wrong_state"
    assert keychain.read("s", "a") == value
    keychain.write("s", "a", b"other", replace=True)
    assert keychain.read("s", "a") == b"other"
    assert keychain.remove("s", "a")
    assert not keychain.remove("s", "a")
    with pytest.raises(FleetError) as caught:
        keychain.read("s", "a")
    assert caught.value.code == "not_found"
    for told in (value.hex(), "sk-planted", "other"):
        assert len(told) < 4 or told not in security.calls


def test_looking_asks_for_no_value(security: Security) -> None:
    Keychain(security.program).state("s", "a")
    assert json.loads(security.calls) == ["find-generic-password", "-s", "s", "-a", "a"]


@pytest.mark.parametrize("status", ["36", "1", "51", "127"])
def test_a_keychain_that_does_not_say_is_unknown(security: Security, status: str) -> None:
    security.behave(status)
    keychain = Keychain(security.program)
    assert keychain.state("s", "a") == "unknown"
    for call in (lambda: keychain.read("s", "a"), lambda: keychain.remove("s", "a")):
        with pytest.raises(FleetError) as caught:
            call()
        assert caught.value.code == "unavailable"
        assert "secret" not in str(caught.value)


def test_a_prompt_costs_its_deadline_and_leaves_nothing_behind(security: Security) -> None:
    security.behave("prompt")
    begun = time.monotonic()
    assert Keychain(security.program, deadline=1.0).state("s", "a") == "unknown"
    assert time.monotonic() - begun < 30
    assert not any(security.program in line for line in _command_lines())


def _command_lines() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_text())
        except OSError:
            continue
    return found


def test_without_the_program_it_is_unknown(tmp_path: Path) -> None:
    assert Keychain(str(tmp_path / "none")).state("s", "a") == "unknown"


def test_a_login_too_long_for_a_pipe_is_refused(security: Security) -> None:
    with pytest.raises(FleetError, match="too long"):
        Keychain(security.program).write("s", "a", b"x" * 4000, replace=True)
    assert security.calls == ""


def test_a_login_in_the_keychain_is_found_where_no_file_is(security: Security, tmp_path: Path) -> None:
    home = tmp_path / "h"
    keychain = Keychain(security.program)
    assert credential(CLAUDE, str(home), WHO, keychain=keychain).state == "absent"
    keychain.write(service_of(CLAUDE.credentials[1].name, str(home)), WHO.name, b"{}", replace=False)
    found = credential(CLAUDE, str(home), WHO, keychain=keychain)
    assert (found.state, found.store) == ("present", "keychain")
    assert credential(CLAUDE, str(home), WHO).state == "absent"
    security.behave("36")
    assert credential(CLAUDE, str(home), WHO, keychain=keychain).state == "unknown"
    claude_login(home)
    assert credential(CLAUDE, str(home), WHO, keychain=keychain).store == "file"
