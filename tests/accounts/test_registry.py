"""The person's registry: what of the older program's loads, what can never stand, and what survives a save."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.accounts import editing
from agent_fleet.accounts.registrar import Registrar
from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError

OLDER = """\
version = 1

[settings]
state_dir = "{root}/state"
share_dir = "{root}/share"
quota_binary = "/opt/q/bin/quota-axi"
quota_binary_sha256 = "{digest}"
quota_node_binary = "/opt/q/runtime/node"
quota_node_sha256 = "{digest}"
quota_release_tree_sha256 = "{digest}"
quota_stale_seconds = 300
quota_verification_grace_seconds = 86400
lease_grace_seconds = 30
active_lease_penalty = 8
lock_stale_seconds = 30

[providers.claude]
binary = "/opt/claude"
base_home = "{root}/own"
desktop_identity_file = false
shared_entries = ["CLAUDE.md"]
trusted_projects = ["/src/app"]

[providers.codex]
binary = "/opt/codex"

[profiles."codex-blue"]
provider = "codex"
pools = ["codex-crew"]

[profiles."claude-red"]
provider = "claude"
pools = ["claude-crew", "claude-manual"]
enabled = false
safety_policy = "manual_only"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "accounts.toml"
    path.parent.mkdir(mode=0o755)
    path.write_text(OLDER.format(root=tmp_path, digest="0" * 64))
    path.chmod(0o600)
    return path


def registrar(file: Path) -> Registrar:
    return Registrar(str(file), {})


def test_a_registry_of_the_older_program_loads_from_a_directory_that_others_may_read(
    file: Path, tmp_path: Path
) -> None:
    found = registrar(file).load()
    assert list(found.profiles) == ["claude-red", "codex-blue"]
    blue = found.profile("codex-blue")
    assert blue.home == f"{tmp_path}/share/accounts/codex/codex-blue"
    assert (blue.weight, blue.max_concurrent, blue.reserve_percent, blue.enabled) == (1, 2, 15, False)
    assert found.profile("claude-red").pools == ("claude-manual",)
    assert found.rules.lease_grace_seconds == 30
    assert found.rules.quota_policy == "strict"
    with pytest.raises(FleetError, match="unknown profile: x"):
        found.profile("x")


def test_what_a_person_wrote_survives_a_save(file: Path) -> None:
    extra = '# my accounts\n\n[mine]\nkey = 1 # kept\n\n[profiles."codex-blue".notes]\ntext = "x"\n'
    file.write_text(file.read_text() + extra)
    before = file.read_text()
    vault = Vault(registrar(file).load().rules.state_dir)
    changed = registrar(file).change(
        vault, lambda document, _: editing.set_profile(document, "codex-blue", enabled=True, weight=3)
    )
    assert (changed.profile("codex-blue").enabled, changed.profile("codex-blue").weight) == (True, 3)
    assert changed.profile("codex-blue").options["notes"] == {"text": "x"}
    after = file.read_text()
    assert set(before.splitlines()) <= set(after.splitlines())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    registrar(file).change(vault, lambda document, _: editing.remove_profile(document, "codex-blue"))
    assert "[mine]\nkey = 1 # kept" in file.read_text()
    assert "codex-blue" not in registrar(file).load().profiles


def test_a_change_that_cannot_stand_is_not_saved(file: Path) -> None:
    before = file.read_bytes()
    vault = Vault(registrar(file).load().rules.state_dir)
    with pytest.raises(FleetError):
        registrar(file).change(vault, lambda document, _: editing.set_profile(document, "codex-blue", weight=0))
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("version = 1", "version = 2", "version must be 1"),
        ("version = 1", "version = true", "version must be 1"),
        ('"codex-blue"]', '"me@example.com"]', "never an address"),
        ('provider = "codex"', 'provider = "gone"', "has no table"),
        ('pools = ["codex-crew"]', "pools = []", "at least one pool"),
        ('pools = ["codex-crew"]', 'pools = ["a@b"]', "at least one pool"),
        ('pools = ["codex-crew"]', 'pools = ["x"]\nweight = 0', "weight must be"),
        ('pools = ["codex-crew"]', 'pools = ["x"]\nweight = true', "weight must be"),
        ('pools = ["codex-crew"]', 'pools = ["x"]\nreserve_percent = 101', "reserve_percent must be"),
        ('pools = ["codex-crew"]', 'pools = ["x"]\nenabled = 1', "true or false"),
        ('pools = ["codex-crew"]', 'pools = ["x"]\nhome = "rel"', "absolute path"),
        ('pools = ["codex-crew"]', 'pools = ["x"]\nhome = "/x/$HOME"', "no plain path"),
        ('pools = ["codex-crew"]', 'pools = ["x"]\nhome = "{root}/state/x"', "overlaps the state directory"),
        ('pools = ["codex-crew"]', 'pools = ["x"]\nhome = "{root}"', "overlap"),
        ('pools = ["codex-crew"]', 'pools = ["x"]\nhome = "{root}/share/accounts/claude/claude-red/x"', "overlap"),
        ('pools = ["codex-crew"]', 'pools = ["x"]\nsafety_policy = "none"', "safety_policy must be one of"),
        ("enabled = false", "enabled = true", "can never be enabled"),
        ("desktop_identity_file = false", "desktop_identity_file = true", "a path or false"),
        ('["CLAUDE.md"]', '["a/b"]', "plain names"),
        ("active_lease_penalty = 8", "active_lease_penalty = -1", "active_lease_penalty must be"),
        ("active_lease_penalty = 8", 'quota_policy = "hard"', "quota_policy must be one of"),
        ("[providers.codex]\nbinary", "[providers]\ncodex = 1\nbinary", "TOML|must be a table"),
        ("[settings]", "[settings", "is not TOML"),
        ("active_lease_penalty = 8", f"active_lease_penalty = {'9' * 5000}", "is not TOML"),
        ("active_lease_penalty = 8", f"active_lease_penalty = {'9' * 400}", "active_lease_penalty must be"),
        (
            "[providers.codex]\nbinary",
            '[profiles.CLAUDE-red]\nprovider = "claude"\npools = ["x"]\n[providers.codex]\nbinary',
            "capitals",
        ),
    ],
)
def test_what_cannot_stand_is_named(file: Path, tmp_path: Path, old: str, new: str, words: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new.format(root=tmp_path) if "{root}" in new else new, 1))
    with pytest.raises(FleetError, match=words) as refusal:
        registrar(file).load()
    assert refusal.value.code == "bad_config"


def test_a_registry_that_others_can_write_or_exchange_is_refused(file: Path, tmp_path: Path) -> None:
    for mode in (0o620, 0o602, 0o644):
        file.chmod(mode)
        with pytest.raises(FleetError, match="0600 single-link regular file") as refusal:
            registrar(file).load()
        assert refusal.value.code == "registry_unsafe"
    file.chmod(0o600)
    registrar(file).load()
    file.parent.chmod(0o777)
    with pytest.raises(FleetError, match="another file in the place") as refusal:
        registrar(file).load()
    assert refusal.value.code == "registry_unsafe"
    file.parent.chmod(0o755)
    os.link(file, tmp_path / "twice")
    with pytest.raises(FleetError):
        registrar(file).load()


def test_a_home_of_a_reserve_is_not_even_looked_at(file: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    home = tmp_path / "share" / "accounts" / "claude" / "claude-red"
    home.parent.mkdir(parents=True)
    home.symlink_to(tmp_path / "elsewhere")
    assert registrar(file).load().profile("claude-red").home == str(home)


def test_nothing_is_written_over_by_a_second_beginning(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(FleetError):
        registrar(file).create("version = 1\n")
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "below", "meant"),
    [
        ("rotaton = true", "[settings]", "settings.rotaton; did you mean settings.rotation?"),
        ('binry = "/x"', "[providers.claude]", "providers.claude.binry; did you mean providers.claude.binary?"),
        ("enviroment_allow = []", "[providers.codex]", "did you mean providers.codex.environment_allow?"),
        ("reserve_precent = 40", '[profiles."codex-blue"]', "did you mean profiles.codex-blue.reserve_percent?"),
        ('safety_polcy = "manual_only"', '[profiles."codex-blue"]', "did you mean profiles.codex-blue.safety_policy?"),
        ("[profile.codex-red]", "", "there is no key profile; did you mean profiles?"),
        ("[rules]", "", "there is no key rules"),
    ],
)
def test_a_misspelt_key_is_told_of_since_what_it_was_to_set_is_not_in_force(
    file: Path, line: str, below: str, meant: str
) -> None:
    assert registrar(file).load().warnings == (), "what the older program knew is nobody's mistake"
    text = file.read_text()
    file.write_text(text.replace(below, f"{below}\n{line}", 1) if below else f"{text}\n{line}\n")
    (warning,) = registrar(file).load().warnings
    assert warning.startswith(f"{file}: there is no key ")
    assert meant in warning


def test_unknown_providers_and_their_keys_are_kept_for_them(file: Path) -> None:
    file.write_text(file.read_text() + '\n[providers.acme]\nregion = "x"\n[pools.work]\nprojects = ["/src/app"]\n')
    found = registrar(file).load()
    options: Any = found.providers["acme"].options
    assert options == {"region": "x"}
    assert found.warnings == ()
    assert found.pool_projects == {"work": ("/src/app",)}
