"""What an attempt's end does to the starts after it, where no gate is closed."""

from __future__ import annotations

from pathlib import Path

import pytest

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
