"""`fleet install-skill`: what it writes, what it leaves alone, and what it takes away."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from agent_fleet import __version__
from agent_fleet.skill import protocol, skill
from agent_fleet_checks.skills import Skills
from support.project import Project, git

SKILL = "skills/fleet-worker/SKILL.md"
AGENT = "agents/fleet-worker.md"
RECEIPT = "skills/fleet-worker/.agent-fleet.json"


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def install(project: Project, *arguments: str, status: int = 0) -> dict[str, Any]:
    return project.json("install-skill", *arguments, status=status)


def check(project: Project) -> list[tuple[str, str]]:
    return [(each.level, each.text) for each in Skills(project.environment(), str(project.home)).run(str(project.root))]


def test_it_writes_once_and_says_what_it_did(project: Project) -> None:
    claude = project.home / ".claude"
    did = install(project, "--claude")["files"]
    assert [step["did"] for step in did] == ["wrote", "wrote"]
    assert {*tree(claude)} == {SKILL, AGENT, RECEIPT}
    before = tree(claude)
    assert [step["did"] for step in install(project, "--claude")["files"]] == ["unchanged", "unchanged"]
    assert tree(claude) == before
    assert f'agent-fleet: "{__version__}"' in before[SKILL].decode()
    assert before[SKILL].decode().endswith(protocol())
    assert before[AGENT].decode().endswith(protocol())


def test_removal_leaves_the_place_as_it_was(project: Project) -> None:
    claude = project.home / ".claude"
    other = claude / "skills" / "mine" / "SKILL.md"
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    install(project, "--claude", "--codex")
    assert {step["did"] for step in install(project, "--claude", "--codex", "--remove")["files"]} == {"removed"}
    assert tree(project.home) == {".claude/skills/mine/SKILL.md": b"mine"}
    assert not (claude / "agents").exists()
    assert not (project.home / ".codex").exists()
    assert install(project, "--claude", "--remove")["files"] == []


def test_a_file_that_somebody_wrote_or_changed_is_never_written_over_nor_removed(project: Project) -> None:
    claude = project.home / ".claude"
    (claude / "agents").mkdir(parents=True)
    (claude / AGENT).write_text("my own agent")
    assert install(project, "--claude", status=2)["details"] == [str(claude / AGENT)]
    assert {*tree(claude)} == {AGENT}
    install(project, "--claude", "--force")
    (claude / SKILL).write_text("changed")
    assert install(project, "--claude", status=2)["code"] == "refused"
    assert check(project) == [("warning", f"Claude Code, for you: somebody changed {SKILL}")]
    did = {step["path"]: step["did"] for step in install(project, "--claude", "--remove")["files"]}
    assert did == {str(claude / SKILL): "left", str(claude / AGENT): "removed"}
    assert tree(claude) == {SKILL: b"changed"}


@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_what_is_no_plain_file_is_not_ours(project: Project, tmp_path: Path, kind: str) -> None:
    place = project.home / ".claude" / AGENT
    place.parent.mkdir(parents=True)
    secret = tmp_path / "elsewhere"
    secret.write_text("a person's own")
    if kind == "link":
        place.symlink_to(secret)
    elif kind == "directory":
        place.mkdir()
    else:
        os.mkfifo(place)
    assert install(project, "--claude", status=2)["details"] == [str(place)]
    install(project, "--claude", "--remove")
    assert os.path.lexists(place)
    assert secret.read_text() == "a person's own"


def test_what_an_older_version_wrote_is_named_renewed_and_removed(project: Project) -> None:
    claude = project.home / ".claude"
    install(project, "--claude")
    assert [level for level, _ in check(project)] == ["ok"]
    old = (claude / SKILL).read_bytes() + b"a sentence of an older version\n"
    (claude / SKILL).write_bytes(old)
    receipt = json.loads((claude / RECEIPT).read_text())
    import hashlib

    receipt |= {"version": "0.0.9", "files": receipt["files"] | {SKILL: hashlib.sha256(old).hexdigest()}}
    (claude / RECEIPT).write_text(json.dumps(receipt))
    ((level, text),) = check(project)
    assert level == "warning"
    assert "0.0.9" in text
    assert [step["did"] for step in install(project, "--claude")["files"]] == ["renewed", "unchanged"]
    assert [level for level, _ in check(project)] == ["ok"]


@pytest.mark.parametrize(
    "receipt",
    [
        "",
        "[]",
        '{"version": 1}',
        '{"version": "1", "files": {"../../x": "0"}, "made": ["../..", "/"]}',
        "\0",
        "[" * 9999,
    ],
)
def test_a_receipt_that_somebody_else_wrote_steers_nothing(project: Project, receipt: str) -> None:
    outside = project.home / "x"
    outside.write_text("a person's own")
    (project.home / ".claude" / "skills" / "fleet-worker").mkdir(parents=True)
    (project.home / ".claude" / RECEIPT).write_text(receipt)
    check(project)
    install(project, "--claude")
    (project.home / ".claude" / RECEIPT).write_text(receipt)
    install(project, "--claude", "--remove")
    assert outside.read_text() == "a person's own"


def test_in_a_project_git_sees_nothing_of_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", home=tmp_path / "home")
    git(project.root, "init", "-q")
    (project.root / ".claude").mkdir()
    (project.root / ".claude" / "settings.json").write_text("{}")
    git(project.root, "add", ".")
    git(project.root, "commit", "-qm", "first")
    install(project, "--claude", "--codex", "--scope", "project")
    assert git(project.root, "status", "--porcelain") == ""
    assert (project.root / ".claude" / SKILL).exists()
    assert (project.root / ".agents" / SKILL).exists()
    project.json("init")
    assert git(project.root, "status", "--porcelain") == ""
    assert len(check(project)) == 2
    install(project, "--claude", "--codex", "--scope", "project", "--remove")
    assert {*tree(project.root / ".claude")} == {"settings.json"}
    assert (project.root / ".agents" / "queue.json").exists()
    assert project.fleet("verify").status == 0


def test_a_plugin_is_written_and_removed(project: Project, tmp_path: Path) -> None:
    place = tmp_path / "made" / "plugin"
    install(project, "--plugin", str(place))
    found = tree(place)
    assert json.loads(found[".claude-plugin/plugin.json"])["version"] == __version__
    assert json.loads(found[".mcp.json"])["mcpServers"]["fleet"]["args"] == ["mcp"]
    assert {SKILL, AGENT} <= {*found}
    install(project, "--plugin", str(place), "--remove")
    assert not place.exists()


def test_without_a_choice_it_is_for_the_programs_that_are_there(project: Project) -> None:
    alone = {"PATH": "/usr/bin:/bin"}
    assert project.json("install-skill", status=4, env=alone)["code"] == "not_found"
    (project.home / ".codex").mkdir()
    (step,) = project.json("install-skill", env=alone)["files"]
    assert step["path"] == str(project.home / ".codex" / SKILL)


def test_a_place_that_cannot_be_written_is_one_sentence(project: Project) -> None:
    (project.home / ".claude").write_text("a file")
    assert install(project, "--claude", status=1)["code"] in ("io_error", "permission")


def test_the_protocol_names_what_the_commands_are_called() -> None:
    """Every command in the text is one of ours, with options that it has."""
    from agent_fleet.commands import block, claim, done, fail, heartbeat

    specs = {each.command_line.name: each.command_line for each in (block, claim, done, fail, heartbeat)}
    assert skill().startswith("---\nname: fleet-worker\n")
    typed = re.findall(r"fleet (\w+) t7 ([^`\n]*)", protocol())
    assert {name for name, _ in typed} == {"done", "block", "fail", "heartbeat"}
    for name, rest in typed:
        options = {option.name for option in specs[name].options}
        assert {word for word in rest.split() if word.startswith("--")} <= options


@pytest.mark.parametrize("before", [b"", b"*.log\n", b"*.log\n/.claude/skills/\n# mine", None])
def test_removal_from_a_project_leaves_its_exclude_file_as_it_was(project: Project, before: bytes | None) -> None:
    git(project.root, "init", "-q")
    exclude = project.root / ".git" / "info" / "exclude"
    exclude.unlink(missing_ok=True)
    if before is not None:
        exclude.write_bytes(before)
    install(project, "--claude", "--codex", "--scope", "project")
    assert git(project.root, "status", "--porcelain", "--", ".claude", ".agents/skills") == ""
    found = project.json("clean")["findings"]
    assert [each["by"] for each in found] == ["skills", "skills"]
    assert "--remove --claude --scope project" in found[0]["hint"]
    assert ("ok", "Codex, in this project: the worker protocol is that of this version") in check(project)

    (project.root / ".claude" / SKILL).write_text("changed")
    install(project, "--claude", "--codex", "--scope", "project", "--remove")
    assert git(project.root, "status", "--porcelain", "--", ".claude") == ""  # what stays is hidden on
    (project.root / ".claude" / SKILL).unlink()
    install(project, "--claude", "--scope", "project", "--remove")
    assert exclude.read_bytes().rstrip(b"\n") == (before or b"").rstrip(b"\n")
    assert project.json("clean")["findings"] == []


def test_removal_leaves_the_queue_hidden(project: Project) -> None:
    git(project.root, "init", "-q")
    project.json("init")
    hidden = (project.root / ".git" / "info" / "exclude").read_bytes()
    install(project, "--claude", "--scope", "project")
    install(project, "--claude", "--scope", "project", "--remove")
    assert (project.root / ".git" / "info" / "exclude").read_bytes() == hidden
