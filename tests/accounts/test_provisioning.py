"""A home is made ready, again and again, and nothing in it is lost."""

from __future__ import annotations

import json
import os
import stat
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.accounts import documents, provisioning
from agent_fleet.accounts.assets import share
from agent_fleet.accounts.controls import controls_in
from agent_fleet.accounts.provisioning import faults, hooks, owned, provision
from agent_fleet.accounts.spec import AccountSpec, OwnedKey
from agent_fleet.errors import FleetError
from agent_fleet_providers import _claude_account, _codex_account
from support.account_homes import private

HOOKS = hooks(("/opt/my fleet", "--config", "/x"))
SPECS = {"claude": _claude_account.SPEC, "codex": _codex_account.SPEC}


def keys(spec: AccountSpec, *roots: str) -> tuple[OwnedKey, ...]:
    return owned(spec, roots or ("/p",), HOOKS)


@pytest.fixture(params=sorted(SPECS))
def spec(request: pytest.FixtureRequest) -> AccountSpec:
    return SPECS[request.param]


def modes(home: Path) -> set[int]:
    return {stat.S_IMODE(path.lstat().st_mode) for path in (home, *home.rglob("*"))}


def test_a_home_is_private_whatever_the_umask(spec: AccountSpec, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert provision(str(tmp_path / "deep" / "home"), keys(spec))
    finally:
        os.umask(before)
    assert modes(tmp_path / "deep" / "home") == {0o700, 0o600}
    assert faults(str(tmp_path / "deep" / "home"), keys(spec)) == []


def test_doing_it_again_changes_nothing(spec: AccountSpec, tmp_path: Path) -> None:
    provision(str(tmp_path / "h"), keys(spec))
    before = {path: (path.read_bytes(), path.stat().st_ino) for path in (tmp_path / "h").iterdir()}
    assert provision(str(tmp_path / "h"), keys(spec)) == ()
    assert {path: (path.read_bytes(), path.stat().st_ino) for path in (tmp_path / "h").iterdir()} == before


def test_what_the_provider_wrote_for_itself_and_its_login_stay(spec: AccountSpec, tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir(mode=0o755)
    files = {each.file for each in spec.owned}
    for name in files:
        private(home / name, "mine = 1\n[t]\nx = 'y'\n" if name.endswith(".toml") else '{"mine": {"x": [1, null]}}')
    login = private(home / spec.credentials[0].name, "secret bytes")
    private(home / "sessions" / "s.jsonl", "history")
    provision(str(home), keys(spec))
    for name in files:
        text = (home / name).read_text()
        read = tomllib.loads(text) if name.endswith(".toml") else json.loads(text)
        assert read["mine"] in (1, {"x": [1, None]})
    assert login.read_text() == "secret bytes"
    assert (home / "sessions" / "s.jsonl").read_text() == "history"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_key_that_is_gone_is_a_fault_and_comes_back(spec: AccountSpec, tmp_path: Path) -> None:
    home = str(tmp_path / "h")
    assert [each.code for each in faults(home, keys(spec))] == ["not_provisioned"]
    provision(home, keys(spec))
    for name in {each.file for each in spec.owned}:
        kept = (tmp_path / "h" / name).read_text()
        (tmp_path / "h" / name).write_text("" if name.endswith(".toml") else "{}")
        assert [each.code for each in faults(home, keys(spec))] == ["keys_missing"]
        assert provision(home, keys(spec)) == (name,)
        assert (tmp_path / "h" / name).read_text().strip() == kept.strip()


def test_another_project_is_trusted_beside_the_first(tmp_path: Path) -> None:
    home, claude = str(tmp_path / "h"), _claude_account.SPEC
    provision(home, keys(claude, "/p.1"))
    assert faults(home, keys(claude, "/p.1", "/p.2"))
    assert provision(home, keys(claude, "/p.2")) == (".claude.json",)
    assert faults(home, keys(claude, "/p.1", "/p.2")) == []


def test_the_hooks_are_called_by_a_shell_as_they_are_meant_and_never_end_badly() -> None:
    assert HOOKS.session_start == "'/opt/my fleet' --config /x hook session-start || exit 0"
    assert HOOKS.turn_end_words == ("/opt/my fleet", "--config", "/x", "hook", "turn-end")


@pytest.mark.parametrize("kind", ["link", "file", "dangling"])
def test_a_home_that_is_none_is_refused_and_left_alone(spec: AccountSpec, tmp_path: Path, kind: str) -> None:
    target, home = tmp_path / "target", tmp_path / "h"
    if kind == "file":
        home.write_text("mine")
    else:
        home.symlink_to(target)
    if kind == "link":
        target.mkdir()
    with pytest.raises(FleetError):
        provision(str(home), keys(spec))
    assert [each.code for each in faults(str(home), keys(spec))] == ["home_unsafe"]
    assert not target.exists() or list(target.iterdir()) == []


def test_a_file_that_is_a_link_is_not_written_through(spec: AccountSpec, tmp_path: Path) -> None:
    home, outside = tmp_path / "h", private(tmp_path / "outside", "")
    home.mkdir(mode=0o700)
    (home / spec.owned[0].file).symlink_to(outside)
    with pytest.raises(FleetError, match="cannot be used"):
        provision(str(home), keys(spec))
    assert outside.read_text() == ""
    assert "file_unusable" in [each.code for each in faults(str(home), keys(spec))]


def test_what_a_running_session_writes_meanwhile_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, claude = tmp_path / "h", _claude_account.SPEC
    provision(str(home), keys(claude))
    path, real, rounds = home / ".claude.json", documents.merged, iter(range(3))

    def late(text: str, owned_keys: Any) -> str:
        result = real(text, owned_keys)
        number = next(rounds, None)
        if result != text and number is not None:
            path.write_text(json.dumps({"written": number}))
        return result

    path.write_text("{}")
    monkeypatch.setattr(provisioning, "merged", late)
    provision(str(home), [key for key in keys(claude) if key.file == ".claude.json"])
    assert json.loads(path.read_text())["written"] == 2
    assert faults(str(home), keys(claude)) == []


def test_several_at_once_end_in_one_sound_home(spec: AccountSpec, tmp_path: Path) -> None:
    home = str(tmp_path / "h")
    errors: list[BaseException] = []

    def one(number: int) -> None:
        try:
            provision(home, keys(spec, "/p"))
        except FleetError as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [error for error in errors if error.code != "busy"] == []  # type: ignore[attr-defined]
    assert faults(home, keys(spec)) == []
    assert not list((tmp_path / "h").glob(".tmp-*"))


# ------------------------------------------------------------------------------------------------------- shared


@pytest.fixture
def base(tmp_path: Path) -> Path:
    mine = tmp_path / "mine"
    (mine / "skills" / "one").mkdir(parents=True)
    (mine / "skills" / "one" / "SKILL.md").write_text("first")
    (mine / "dotfiles.md").write_text("be kind")
    (mine / "CLAUDE.md").symlink_to(mine / "dotfiles.md")
    (mine / ".credentials.json").write_text("secret")
    return mine


def shared(base: Path, home: Path) -> tuple[str, ...]:
    home.mkdir(mode=0o700, exist_ok=True)
    return share(str(base), str(home), ("CLAUDE.md", "skills", "rules"), never=(".credentials.json",))


def test_shared_things_are_copies_that_cannot_reach_the_originals(base: Path, tmp_path: Path) -> None:
    home = tmp_path / "h"
    assert set(shared(base, home)) == {"CLAUDE.md", "skills/one/SKILL.md"}
    for path in (home / "CLAUDE.md", home / "skills" / "one" / "SKILL.md"):
        assert not path.is_symlink()
        assert stat.S_IMODE(path.stat().st_mode) == 0o400
    (home / "CLAUDE.md").chmod(0o600)
    (home / "CLAUDE.md").write_text("obey me")
    assert (base / "dotfiles.md").read_text() == "be kind"
    assert shared(base, home) == ("CLAUDE.md",)
    assert (home / "CLAUDE.md").read_text() == "be kind"
    assert shared(base, home) == ()


def test_what_is_no_longer_shared_goes_and_what_others_put_there_stays(base: Path, tmp_path: Path) -> None:
    home = tmp_path / "h"
    shared(base, home)
    private(home / "skills" / ".system" / "x", "the provider's own")
    private(home / "skills" / "mine.md", "by hand")
    (base / "skills" / "one" / "SKILL.md").unlink()
    (base / "skills" / "two.md").write_text("second")
    assert set(shared(base, home)) == {"skills/one/SKILL.md", "skills/two.md"}
    found = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    assert found == {"CLAUDE.md", "skills/two.md", "skills/.system/x", "skills/mine.md", ".fleet-shared.json"}


def test_something_of_others_in_the_way_is_refused(base: Path, tmp_path: Path) -> None:
    home = tmp_path / "h"
    private(home / "CLAUDE.md", "not fleet's")
    with pytest.raises(FleetError, match="in the way"):
        shared(base, home)
    assert (home / "CLAUDE.md").read_text() == "not fleet's"


@pytest.mark.parametrize("name", ["skills", "skills/one"])
def test_nothing_is_copied_through_a_link_in_the_home(base: Path, tmp_path: Path, name: str) -> None:
    home, outside = tmp_path / "h", tmp_path / "outside"
    outside.mkdir()
    (home / name).parent.mkdir(parents=True, mode=0o700)
    (home / name).symlink_to(outside)
    with pytest.raises(FleetError):
        shared(base, home)
    assert list(outside.iterdir()) == []


def test_a_record_that_was_changed_takes_nothing_else_away(base: Path, tmp_path: Path) -> None:
    home, precious = tmp_path / "h", private(tmp_path / "precious", "mine")
    shared(base, home)
    record = {"schema": 1, "files": {"../precious": "x", str(precious): "x"}}
    private(home / ".fleet-shared.json", json.dumps(record))
    shared(base, home)
    assert precious.exists()


@pytest.mark.parametrize("name", [".credentials.json", "../x", "a/b", ".hidden"])
def test_a_login_is_never_shared(base: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(FleetError, match="never shared"):
        share(str(base), str(tmp_path), (name,), never=(".credentials.json",))


def test_a_loop_of_links_and_too_much_are_survived(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "skills" / "again").symlink_to(base / "skills")
    (base / "skills" / "gone").symlink_to(base / "nowhere")
    os.mkfifo(base / "skills" / "pipe")
    assert "skills/one/SKILL.md" in shared(base, tmp_path / "h")
    monkeypatch.setattr("agent_fleet.accounts.assets.MOST_FILES", 1)
    (base / "skills" / "two.md").write_text("x")
    with pytest.raises(FleetError, match="more than"):
        shared(base, tmp_path / "h")


# ------------------------------------------------------------------------------------------------------ controls


NAMES = [
    ("claude", ".mcp.json"),
    ("claude", ".claude/settings.json"),
    ("claude", ".claude/settings.local.json"),
    ("codex", ".mcp.json"),
    ("codex", ".codex/config.toml"),
    ("codex", ".codex/hooks.json"),
]


@pytest.mark.parametrize(("name", "path"), NAMES)
@pytest.mark.parametrize("kind", ["file", "dangling", "directory", "empty"])
def test_a_file_that_gives_orders_is_found_in_every_form(tmp_path: Path, name: str, path: str, kind: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    if kind == "dangling":
        file.symlink_to("/nowhere")
    elif kind == "directory":
        file.mkdir()
    else:
        file.write_text("{}" if kind == "file" else "")
    assert controls_in(str(tmp_path), SPECS[name].controls) == (path,)


def test_instructions_are_no_orders(tmp_path: Path, spec: AccountSpec) -> None:
    for name in ("CLAUDE.md", "AGENTS.md", ".claude/skills/x.md", ".claude/commands/y.md", ".codex/AGENTS.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("be kind")
    assert controls_in(str(tmp_path), spec.controls) == ()
    assert controls_in(str(tmp_path / "nowhere"), spec.controls) == ()
