"""The file of a note: found, read, and replaced whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agent_fleet.checklist import page
from agent_fleet.errors import FleetError


def found(root: Path, *, named: str | None = None, configured: str = "") -> str:
    return page.find(str(root), named=named, configured=configured).file


def test_the_first_of_the_usual_names_counts_and_a_configured_one_before_them(tmp_path: Path) -> None:
    with pytest.raises(FleetError) as missing:
        found(tmp_path)
    assert missing.value.code == "not_found"
    for name in reversed(page.NAMES):
        (tmp_path / name).write_text("")
        assert found(tmp_path) == name
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "plan.md").write_text("")
    assert found(tmp_path, configured="docs/plan.md") == "docs/plan.md"
    assert found(tmp_path, named=str(tmp_path / "docs" / "plan.md"), configured="x") == "docs/plan.md"
    with pytest.raises(FleetError, match="nowhere"):
        found(tmp_path, configured="nowhere.md")


def test_a_note_outside_the_project_has_its_whole_path_as_name(tmp_path: Path) -> None:
    outside = tmp_path / "mine.md"
    outside.write_text("")
    (tmp_path / "project").mkdir()
    assert found(tmp_path / "project", named=str(outside)) == str(outside)


@pytest.mark.parametrize("kind", ["directory", "pipe", "missing", "utf-16", "dangling"])
def test_what_is_no_text_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "TASKS.md"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "utf-16":
        path.write_text("- [ ] a", encoding="utf-16")
    elif kind == "dangling":
        path.symlink_to("gone.md")
    with pytest.raises(FleetError) as refused:
        page.read(page.find(str(tmp_path), named=str(path), configured=""))
    assert refused.value.code in ("bad_input", "not_found")


def test_the_mode_and_a_link_stay_and_nothing_else_is_left(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "list.md"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link = tmp_path / "TASKS.md"
    link.symlink_to("real/list.md")
    note = page.find(str(tmp_path), named=None, configured="")
    page.change(note, lambda data: data + b" new")
    assert (os.readlink(link), real.read_bytes(), stat.S_IMODE(real.stat().st_mode)) == (
        "real/list.md",
        b"old new",
        0o640,
    )
    assert sorted(os.listdir(tmp_path)) == ["TASKS.md", "real"]
    assert os.listdir(tmp_path / "real") == ["list.md"]


def test_an_edit_by_somebody_else_meanwhile_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "TASKS.md"
    path.write_bytes(b"0")
    seen: list[bytes] = []

    def edit(data: bytes) -> bytes:
        seen.append(data)
        if len(seen) < 4:
            path.write_bytes(data + b"%d" % len(seen))
        return data + b"!"

    page.change(page.find(str(tmp_path), named=None, configured=""), edit)
    assert path.read_bytes() == b"0123!"
    assert os.listdir(tmp_path) == ["TASKS.md"]


def test_a_note_that_never_rests_is_left_to_the_other(tmp_path: Path) -> None:
    path = tmp_path / "TASKS.md"
    path.write_bytes(b"")

    def edit(data: bytes) -> bytes:
        path.write_bytes(data + b"x")
        return data + b"!"

    with pytest.raises(FleetError) as refused:
        page.change(page.find(str(tmp_path), named=None, configured=""), edit)
    assert refused.value.code == "busy"
    assert b"!" not in path.read_bytes()
    assert os.listdir(tmp_path) == ["TASKS.md"]


def test_no_change_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "TASKS.md"
    path.write_bytes(b"a")
    before = path.stat()
    page.change(page.find(str(tmp_path), named=None, configured=""), lambda data: data)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_starter_never_replaces_anything(tmp_path: Path) -> None:
    path = tmp_path / "TASKS.md"
    page.start(str(path))
    assert path.read_text() == page.STARTER
    with pytest.raises(FileExistsError):
        page.start(str(path))
