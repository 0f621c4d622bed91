"""Which program runs: links and second names are usual, a program that somebody else could exchange is not."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from agent_fleet.accounts import binaries
from agent_fleet.accounts.binaries import behind, check, locate, pin_from, pinned
from agent_fleet.errors import FleetError
from agent_fleet_providers._codex_account import SPEC as CODEX
from support import claude_cli, codex_cli


@pytest.fixture(autouse=True)
def private(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)


def program(path: Path, text: str = "#!/bin/sh\necho one\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def npm(tmp_path: Path) -> Path:
    """npm's way: a program under two names, and a launcher that is a link to a link."""
    real = program(tmp_path / "lib" / "node_modules" / "x-linux" / "cli")
    second = tmp_path / "lib" / "node_modules" / "x" / "cli.exe"
    second.parent.mkdir()
    os.link(real, second)
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib" / "hop").symlink_to("node_modules/x/cli.exe")
    (tmp_path / "bin" / "cli").symlink_to("../lib/hop")
    return tmp_path / "bin" / "cli"


def test_npms_links_and_names_are_accepted(npm: Path) -> None:
    pin = pinned(str(npm))
    assert pin.path == str(npm)
    assert pin.real == str(npm.resolve())
    assert pin.digest == hashlib.sha256(npm.read_bytes()).hexdigest()
    assert check(pin, str(npm), "refuse").state == "same"
    assert pin_from(json.loads(json.dumps(pin.as_json()))) == pin


def test_an_unchanged_program_is_not_read_again(npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin = pinned(str(npm))
    monkeypatch.setattr(binaries, "_digest", lambda path: pytest.fail(f"{path} was read"))
    assert check(pin, str(npm), "refuse").pin == pin


def test_the_same_bytes_elsewhere_are_the_same_program(npm: Path) -> None:
    pin = pinned(str(npm))
    fresh = program(npm.parent / "fresh")
    os.replace(fresh, npm)
    found = check(pin, str(npm), "refuse")
    assert found.state == "same"
    assert found.pin is not None
    assert found.pin.marks != pin.marks


def test_another_program_is_refused_or_followed(npm: Path) -> None:
    pin = pinned(str(npm))
    program(npm.resolve(), "#!/bin/sh\necho two\n")
    refused, followed = check(pin, str(npm), "refuse"), check(pin, str(npm), "follow")
    assert (refused.state, refused.pin) == ("changed", None)
    assert "another program" in refused.words
    assert followed.pin is not None
    assert followed.pin.digest == hashlib.sha256(npm.read_bytes()).hexdigest()
    assert check(followed.pin, str(npm), "refuse").state == "same"


def test_a_change_that_keeps_size_and_time_is_seen(npm: Path) -> None:
    pin = pinned(str(npm))
    before = npm.stat()
    program(npm.resolve(), "#!/bin/sh\necho two\n".replace("two", "eno"))
    os.utime(npm, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert check(pin, str(npm), "refuse").state == "changed"


@pytest.mark.parametrize("policy", ["refuse", "follow"])
@pytest.mark.parametrize("where", ["program", "folder", "hop"])
def test_a_program_that_others_could_exchange_runs_under_no_policy(npm: Path, policy: str, where: str) -> None:
    pin = pinned(str(npm))
    place = {"program": npm.resolve(), "folder": npm.resolve().parent, "hop": npm.parent.parent / "lib"}[where]
    place.chmod(0o777)
    with pytest.raises(FleetError, match="may change"):
        pinned(str(npm))
    program(npm.parent / "new", "#!/bin/sh\n")
    if where == "program":
        assert check(pin, str(npm), policy).state == "unsafe"  # type: ignore[arg-type]
    npm.resolve().write_text("#!/bin/sh\nevil\n")
    assert check(pin, str(npm), policy).pin is None  # type: ignore[arg-type]


def test_what_is_gone_or_none_is_told(npm: Path, tmp_path: Path) -> None:
    pin = pinned(str(npm))
    shutil.rmtree(tmp_path / "lib")
    assert check(pin, str(npm), "follow").state == "unsafe"
    with pytest.raises(FleetError):
        pinned(str(tmp_path))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(FleetError):
        pinned(str(tmp_path / "loop"))
    (tmp_path / "plain").write_text("x")
    with pytest.raises(FleetError, match="no program"):
        pinned(str(tmp_path / "plain"))


def test_a_name_is_found_on_the_path_alone(npm: Path) -> None:
    assert locate("cli", str(npm.parent)) == str(npm)
    assert locate(str(npm), "") == str(npm)
    with pytest.raises(FleetError) as caught:
        locate("cli", "/nowhere")
    assert caught.value.code == "not_found"


@pytest.mark.parametrize("stored", [{}, {"path": 1}, {"path": "/x", "evil": 1}])
def test_a_pin_that_was_damaged_is_none(stored: dict[str, object]) -> None:
    assert pin_from(stored) is None


@pytest.mark.real_cli
def test_the_real_program_is_pinned_by_its_content() -> None:
    path = claude_cli.binary()
    pin = pinned(path)
    assert len(pin.digest) == 64
    assert check(pin, path, "refuse").state == "same"


@pytest.mark.parametrize("packages", ["", "codex/node_modules/@openai/"])
def test_the_program_behind_a_launcher_of_npm_is_found_in_both_of_its_layouts(tmp_path: Path, packages: str) -> None:
    modules = tmp_path / "v1.2 [x]" / "node_modules" / "@openai"
    launcher = tmp_path / "bin" / "codex"
    launcher.parent.mkdir()
    launcher.symlink_to(program(modules / "codex" / "bin" / "codex.js"))
    assert behind(str(launcher), CODEX.behind) == str(launcher)
    real = program(modules / f"{packages}codex-linux-x64" / "vendor" / "x86_64" / "bin" / "codex")
    assert behind(str(launcher), CODEX.behind) == str(real)
    assert behind(str(real), CODEX.behind) == str(real)
    program(modules / f"{packages}codex-linux-arm64" / "vendor" / "aarch64" / "bin" / "codex")
    assert behind(str(launcher), CODEX.behind) == str(launcher)  # which of the two it is, only the launcher knows


@pytest.mark.real_cli
def test_the_program_behind_the_real_launcher_of_codex_is_the_one_that_ships_with_it() -> None:
    real = codex_cli.binary()
    launcher = real.partition("/@openai/")[0] + "/.bin/codex"
    if not os.path.exists(launcher):
        pytest.skip("this Codex was not installed by npm")
    assert os.path.samefile(behind(launcher, CODEX.behind), real)
