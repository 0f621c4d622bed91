"""The real Claude Code and the real Codex in worktrees: they work there, on their branch, and go on there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import claude_cli, codex_cli, model_server, responses_server
from support.garden import Field
from support.model_server import ModelServer
from support.project import git
from support.responses_server import ResponsesServer
from support.scripted import Reply, ScriptedServer, Turn, say

pytestmark = pytest.mark.real_cli

WORK = (
    "pwd; echo slot $FLEET_SLOT port $FLEET_PORT; echo mine > $FLEET_TMP/mine && cat $FLEET_TMP/mine; "
    "git symbolic-ref --short HEAD; echo work >> made; git add made; git commit -qm work && echo committed"
)
CONFIG = '[run]\nstagger = 0\ngrace = 5\n[provider.{provider}]\nbinary = "{binary}"\n'


@pytest.mark.parametrize("provider", ["claude", "codex"])
def test_an_agent_works_in_its_worktree_and_the_next_attempt_goes_on_there(tmp_path: Path, provider: str) -> None:
    seen: list[str] = []

    def brain(turn: Turn) -> Reply:
        nonce = re.findall(r"FLEET-([0-9a-z]+) DONE", turn.prompt)[-1]
        if not turn.results:
            assert "on the branch fleet/t1-g1" in turn.prompt
            return model_server.bash(WORK) if provider == "claude" else responses_server.shell(WORK)
        seen.append(turn.results[-1])
        return say(f"I have seen it\n\nFLEET-{nonce} " + ("FAILED: not yet" if len(seen) == 1 else "DONE"))

    cli = claude_cli if provider == "claude" else codex_cli
    server: ScriptedServer = ModelServer(brain) if provider == "claude" else ResponsesServer(brain)
    with server:
        site = Field(tmp_path, CONFIG.format(provider=provider, binary=cli.binary()))
        env = {
            name: value for name, value in cli.environment(tmp_path / "agents", server.url).items() if name != "HOME"
        }
        task = site.add("make it", "--provider", provider)
        site.work("--worktree", env=env)

    first, second = site.records(task)
    tree = site.tree(task)
    assert (first["outcome"], second["outcome"], len(seen)) == ("failed", "done", 2)
    assert first["session"] == second["session"] != ""
    for told in seen:
        assert str(tree) in told and "slot 0 port 20000" in told and "mine" in told and "fleet/t1-g1" in told
    work = second["worktree"]
    if provider == "claude":
        assert "committed" in seen[0]
        assert (work["commits"], work["insertions"], work["uncommitted"]) == (2, 2, 0)
    else:  # its sandbox keeps git's own files from being written, so that the work stays in the worktree
        assert (work["commits"], work["uncommitted"]) == (0, 1)
    assert (tree / "made").read_text() == "work\nwork\n"
    assert site.is_untouched()
    (kept,) = site.json("clean")["kept"]
    assert kept["path"] == str(tree)
    assert git(site.top, "worktree", "list").count("fleet/t1-g1") == 1
