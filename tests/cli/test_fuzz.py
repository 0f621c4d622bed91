"""Any command line ends in an answer or a refusal in words."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_fleet import cli
from support.project import Project

STATUSES = (0, 1, 2, 3, 4, 5)
NAMES = [
    "init",
    "add",
    "blocked",
    "where",
    "add-batch",
    "status",
    "list",
    "show",
    "log",
    "unblock",
    "reset",
    "verify",
    "claim",
    "heartbeat",
    "done",
    "block",
    "fail",
    "version",
]
words = st.sampled_from(
    [
        "t1",
        "t2",
        "t3",
        "-",
        "--",
        "--json",
        "--force",
        "--final",
        "--all",
        "--result",
        "--reason",
        "--generation",
        "--agent",
        "--priority",
        "--needs",
        "--touches",
        "--budget",
        "--older-than",
        "--tail",
        "--limit",
        "--format",
        "toon",
        "--lane",
        "--need",
        "--writes",
        "--check",
        "--answer",
        "--title",
        "--note",
        "--host",
        "--untrusted",
        "--serial",
        "--owner",
        "0",
        "1",
        "-1",
        "1e9",
        "nan",
        "inf",
        "tokens=5",
        "tokens=nan",
        "../..",
        "**",
        "https://[::1",
        "https://x.example/",
        "\x1b[2J",
        "�",
        "/etc",
        "",
    ]
) | st.text(max_size=12).filter(lambda text: "\0" not in text and "--wait" not in text)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project(tmp_path_factory.mktemp("fuzz") / "project", home=tmp_path_factory.mktemp("home"))
    made.script(("init", "."), ("add", "one"), ("add", "two"), ("add", "three"), ("claim", "w"))
    before = Path.cwd()
    old = dict(os.environ)
    os.environ.update(made.environment(AGENT_ROOT=str(made.root)))
    os.chdir(made.root)
    yield made
    os.chdir(before)
    os.environ.clear()
    os.environ.update(old)


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(name=st.sampled_from(NAMES), arguments=st.lists(words, max_size=6), machine=st.booleans())
def test_no_command_line_ends_in_a_traceback(
    place: Project, capfd: pytest.CaptureFixture[str], name: str, arguments: list[str], machine: bool
) -> None:
    line = [*(("--json",) if machine else ()), name, *arguments]
    status = cli.run(line)
    out, err = capfd.readouterr()
    assert status in STATUSES, line
    assert "Traceback" not in out + err
    if machine and "--help" not in line and "-h" not in line and "--format" not in line:
        found = json.loads(out)
        assert found["ok"] is (status == 0), line
    if status:
        assert out or err.startswith(("error: ", "warning: ")), line
    assert "\x1b" not in out + err


def test_the_queue_is_whole_after_all_of_that(place: Project) -> None:
    assert cli.run(["verify"]) == 0
    shutil.rmtree(place.root)
