"""What an attempt's end does to the starts after it, where no gate is closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_fleet.model import Outcome
from agent_fleet.run.gates import Gates
from agent_fleet.run.pacing import Pacing
from support.project import new_queue
from support.runs import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_shell_commands_that_kill_themselves_keep_no_other_command_from_starting(site: Site) -> None:
    deadly = [site.command("kill -KILL $$") for _ in range(2)]
    harmless = site.command("echo still at work")

    site.work("--max", "1", status=1)

    assert [site.record(task)["outcome"] for task in deadly] == ["crashed"] * 2
    assert site.reached(harmless, "done")


def test_no_third_attempt_starts_while_the_second_without_an_explanation_is_being_judged(tmp_path: Path) -> None:
    pacing = Pacing(Gates(new_queue(tmp_path / ".agents"), 1.0, 1.0), "me")
    mute = Outcome(kind="unknown")
    pacing.judging("agent")
    assert pacing.obstacles() == {}
    pacing.note("agent", mute, ended_by_us=False)
    assert pacing.obstacles() == {}
    pacing.judging("agent")
    assert "is being judged" in pacing.obstacles()["agent"]
    pacing.note("agent", mute, ended_by_us=False)
    assert "2 attempts in a row" in pacing.obstacles()["agent"]
    pacing.judging("other")
    pacing.note("other", mute, ended_by_us=False)
    pacing.judging("other")
    pacing.note("other", Outcome(kind="done", result="seen"), ended_by_us=False)
    assert "other" not in pacing.obstacles()
