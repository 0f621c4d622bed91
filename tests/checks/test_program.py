"""Which `fleet` an agent's shell would find, without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_fleet_checks.program import Program

OURS = "/opt/venv/bin/python"


def found(directory: Path | str, interpreter: str = OURS) -> tuple[str, str]:
    (finding,) = Program(str(directory), interpreter).run("/")
    return finding.level, finding.text


def program(directory: Path, text: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "fleet"
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "level", "says"),
    [
        (f"#!{OURS}\nfrom agent_fleet.cli import main\n", "ok", "is this one"),
        (
            f"#!/bin/sh\n'''exec' \"{OURS}\" \"$0\" \"$@\"\n' '''\nfrom agent_fleet.cli import main\n",
            "ok",
            "is this one",
        ),
        ("#!/else/python\nfrom agent_fleet.cli import main\n", "warning", "another installation of agent-fleet"),
        ("#!/bin/sh\ntouch ran\n", "fault", "another program"),
    ],
)
def test_the_first_on_the_path_is_judged_by_what_it_starts(tmp_path: Path, text: str, level: str, says: str) -> None:
    path = program(tmp_path, text)
    assert found(tmp_path)[0] == level
    assert says in found(tmp_path)[1]
    assert found(tmp_path)[1].endswith(str(path))
    assert not (tmp_path / "ran").exists()


def test_one_beside_our_interpreter_and_none_at_all(tmp_path: Path) -> None:
    program(tmp_path / "bin", "a trampoline of an installer")
    assert found(tmp_path / "bin", str(tmp_path / "bin" / "python"))[0] == "ok"
    assert found(tmp_path)[0] == "warning"
