"""A project's `.vscode/tasks.json` takes one task of ours and gets every byte back, whatever happens in between."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_fleet.api import FleetError
from agent_fleet_lanes._jsonc import parse, plain
from agent_fleet_lanes._tasks_file import LABEL, TasksFile
from support.project import git

TASK = {"label": LABEL, "type": "process", "command": "/a b/\u00e9", "args": ["-I", "it's"]}

THEIRS = """\
// See https://go.microsoft.com/fwlink/?LinkId=733558
{
\t"version": "2.0.0", /* "tasks": [ */
\t"inputs": [{ "id": "tasks", "type": "promptString" }],
\t"tasks": [
\t\t// ours: builds "everything", and more,
\t\t{ "label": "build // all", "type": "shell", "command": "make \\"all\\"", "group": "build", },
\t],
}
"""

WHOLE = [
    THEIRS,
    THEIRS.replace("\n", "\r\n"),
    "\ufeff" + THEIRS,
    THEIRS.rstrip("\n"),
    "{}",
    "{ // nothing\n}",
    '{"tasks":[]}',
    '{"tasks" : [ /* none */ ] , "version":"2.0.0"}',
    '{"version": "2.0.0"}',
    '{"x": {"tasks": [1]}, "tasks": [{"label": "a"}]}',
]


def tasks_file(root: Path) -> TasksFile:
    return TasksFile(str(root), str(root / ".agents" / "lanes" / "editor"))


def write(root: Path, text: str) -> Path:
    path = root / ".vscode" / "tasks.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def everything(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in root.rglob("*")
        if path.is_file() and ".git" not in path.parts and ".agents" not in path.parts
    }


@pytest.mark.parametrize("text", WHOLE, ids=range(len(WHOLE)))
def test_our_task_is_first_and_theirs_are_kept_and_every_byte_comes_back(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    path.chmod(0o640)
    before = everything(tmp_path)
    theirs = parse(text).get("tasks", [])
    file = tasks_file(tmp_path)

    assert file.put(TASK)
    assert parse(path.read_text(encoding="utf-8"))["tasks"] == [TASK, *theirs]
    assert not file.put(TASK), "it is there already"
    found = file.take_out()
    assert found is not None and found.level == "ok"
    assert everything(tmp_path) == before
    assert file.take_out() is None
    assert not (tmp_path / ".agents" / "lanes" / "editor").exists()


def test_git_sees_nothing_of_a_file_that_was_not_there(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".git" / "info" / "exclude").write_text("/.agents/\n")
    file = tasks_file(tmp_path)
    file.put(TASK)
    assert parse((tmp_path / ".vscode" / "tasks.json").read_text())["tasks"] == [TASK]
    assert git(tmp_path, "status", "--porcelain", "--untracked-files=all") == ""
    file.take_out()
    assert not (tmp_path / ".vscode").exists()
    assert git(tmp_path, "status", "--porcelain", "--untracked-files=all") == ""


@pytest.mark.parametrize("step", ["record", "written"])
def test_after_a_crash_somebody_else_restores_it(tmp_path: Path, step: str) -> None:
    path = write(tmp_path, THEIRS)
    before = everything(tmp_path)
    crash = (
        "os.replace = lambda a, b: os._exit(9) if b.endswith('tasks.json') else was(a, b)" if step == "record" else ""
    )
    code = (
        "import os, sys; was = os.replace\n"
        f"{crash}\n"
        "from agent_fleet_lanes._tasks_file import TasksFile\n"
        f"TasksFile({str(tmp_path)!r}, {str(tmp_path / '.agents/lanes/editor')!r}).put({TASK!r})\n"
        "os._exit(9)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False, timeout=60).returncode == 9
    assert (LABEL in path.read_text()) == (step == "written")
    tasks_file(tmp_path).take_out()
    assert everything(tmp_path) == before


def test_an_edit_of_the_person_is_kept_and_only_our_task_goes(tmp_path: Path) -> None:
    path = write(tmp_path, THEIRS)
    file = tasks_file(tmp_path)
    file.put(TASK)
    path.write_text(path.read_text().replace("build // all", "build // most"))
    file.take_out()
    assert path.read_text() == THEIRS.replace("build // all", "build // most")


def test_a_task_of_ours_that_the_person_changed_is_left_and_said(tmp_path: Path) -> None:
    path = write(tmp_path, THEIRS)
    file = tasks_file(tmp_path)
    file.put(TASK)
    path.write_text(text := path.read_text().replace("it's", "it is"))
    found = file.take_out()
    assert found is not None and found.level == "warning" and LABEL in found.text
    assert path.read_text() == text


def test_a_run_that_still_needs_it_keeps_it(tmp_path: Path) -> None:
    path = write(tmp_path, THEIRS)
    other = (
        "import sys\nfrom agent_fleet_lanes._tasks_file import TasksFile\n"
        f"TasksFile({str(tmp_path)!r}, {str(tmp_path / '.agents/lanes/editor')!r}).put({TASK!r})\n"
        "print('put', flush=True); sys.stdin.read()"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", other], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"put\n"
        file = tasks_file(tmp_path)
        file.put(TASK)
        file.take_out()
        assert LABEL in path.read_text()
        child.communicate()
    file.take_out()
    assert path.read_text() == THEIRS


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"tasks": [', "cannot be read"),
        ('{"tasks": {}}', "another form"),
        ("[]", "another form"),
        ("\x00\xff", "cannot be read"),
        ('{"tasks": [{"group": {"kind": "build", "isDefault": true}}]}', "default build task"),
    ],
)
def test_what_cannot_be_merged_is_left_alone(tmp_path: Path, text: str, why: str) -> None:
    path = write(tmp_path, text)
    file = tasks_file(tmp_path)
    assert why in file.obstacle()
    with pytest.raises(FleetError):
        file.put(TASK)
    assert path.read_bytes() == text.encode()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(THEIRS)
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode" / "tasks.json").symlink_to(tmp_path / "elsewhere")
    assert "cannot be read" in tasks_file(tmp_path).obstacle()
    assert (tmp_path / "elsewhere").read_text() == THEIRS


texts = st.text(alphabet=st.sampled_from('ab"\\/*,:[]{} \n\u00e9'), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
gaps = st.sampled_from(["", " ", "\n", '// a comma, and "tasks": [\n', "/* } ] */", "\r\n\t"])


def dressed(value: Any, draw: Callable[[Any], Any]) -> str:
    """JSON of a value with comments between its parts and commas before its brackets."""
    if isinstance(value, dict):
        inner = [
            f"{draw(gaps)}{json.dumps(key)}{draw(gaps)}:{draw(gaps)}{dressed(each, draw)}"
            for key, each in value.items()
        ]
        brackets = "{}"
    elif isinstance(value, list):
        inner, brackets = [draw(gaps) + dressed(each, draw) for each in value], "[]"
    else:
        return json.dumps(value)
    end = draw(gaps) + ("," if inner and draw(st.booleans()) else "") + draw(gaps)
    return str(brackets[0] + ",".join(inner) + end + brackets[1])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_file_is_read_and_given_back(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    tasks = st.lists(st.dictionaries(texts, texts, max_size=2), max_size=2)
    value: dict[str, Any] = data.draw(st.dictionaries(texts, values, max_size=3))
    if data.draw(st.booleans()):
        value["tasks"] = data.draw(tasks)
    else:
        value.pop("tasks", None)
    text = data.draw(gaps) + dressed(value, data.draw) + data.draw(gaps)
    assert json.loads(plain(text)) == value and len(plain(text)) == len(text)
    root = tmp_path_factory.mktemp("project")
    path = write(root, text)
    file = tasks_file(root)
    file.put(TASK)
    assert parse(path.read_bytes().decode()) == {**value, "tasks": [TASK, *value.get("tasks", [])]}
    file.take_out()
    assert path.read_bytes() == text.encode()
