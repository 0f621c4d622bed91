"""Windows of a real terminal emulator on a real display: each worker in its own, nobody disturbed, and nothing lost with one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fleet.identity import LINUX
from support import desktop as desktops
from support.desktop import Desktop
from support.procs import wait_until
from support.runs import Site, attempts_of, gone, overlap

pytestmark = pytest.mark.skipif(not LINUX, reason="windows are found through /proc and X11")

# Waits until two others wait as well, so that none can end before three are open; what it reads is the prompt.
LOOKER = """
exec 3<&1
echo "fleet looks at $FLEET_TASK for you"
touch "$HOME/here.$FLEET_TASK"
until [ $(ls "$HOME"/here.* | wc -l) -ge 3 ]; do sleep 0.05; done
sleep 1
printf 'seen %s on %s, %s bytes asked' "$FLEET_TASK" "$(tty <&3)" "$(wc -c)"
"""


@pytest.fixture
def desktop(tmp_path: Path) -> Iterator[Desktop]:
    with desktops.new_desktop(tmp_path) as found:
        yield found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_three_windows_work_three_hosts_and_the_person_is_not_disturbed(site: Site, desktop: Desktop) -> None:
    (site.home / "looker").write_text(LOOKER)
    site.configure(f'[providers]\ndefault = "looker"\n[agents.looker]\nargv = ["sh", "{site.home}/looker"]\n')
    tasks = [site.add(f"https://{name}.example/") for name in "abc"]
    again = site.add("https://a.example/again")
    before = desktop.keys
    with desktops.window(desktop, "mine") as mine:
        with site.driving("--windows", env=desktop.env) as driver:
            wait_until(lambda: len(desktop.titles("^fleet r1-w")) == 3, "three windows are open")
            shoot(desktop)
            answer = driver.end()
        assert answer.status == 0, answer
        assert desktops.settled(desktop) == mine
    assert desktop.keys == before
    assert {site.state(task) for task in (*tasks, again)} == {"done"}
    assert all("/dev/pts/" in site.record(task)["result"] for task in tasks)
    assert site.record(again)["lane"] == "terminal"
    times = site.intervals()
    assert not overlap(times[tasks[0]][0], times[again][0])
    assert desktop.titles("^fleet ") == []
    assert "xterm" in answer.err and "not editor" not in answer.err
    assert site.is_clean()


def shoot(desktop: Desktop) -> None:
    """Leave a picture where a person asks for one."""
    place = os.environ.get("FLEET_TEST_PICTURES")
    if place:
        import subprocess

        subprocess.run(
            ["import", "-window", "root", f"{place}/windows.png"], env=os.environ | desktop.env, check=True, timeout=30
        )


def test_a_window_that_is_closed_returns_its_task_and_no_other(site: Site, desktop: Desktop) -> None:
    closed = site.command("test -e again || { touch again; sleep 600; }; echo worked")
    other = site.command("until [ -e over ]; do sleep 0.1; done; echo worked")
    with site.driving("--windows", env=desktop.env) as driver:
        wait_until(lambda: len(desktop.titles("^fleet r1-w")) == 2, "two windows are open")
        wait_until((site.root / "again").exists, "the first one works")
        title = next(f"fleet {attempt.id}" for attempt in attempts_of(site) if attempt.task == closed)
        desktop.close(title)
        wait_until(lambda: site.reached(closed, "done"), "it was worked again")
        (site.root / "over").touch()
        assert driver.end().status == 0
    first, last = site.records(closed)
    assert first["charged"] is False
    assert "its window was closed" in first["reason"]
    assert last["outcome"] == "done"
    assert len(site.records(other)) == 1
    assert site.is_clean()


def test_when_the_display_dies_the_run_goes_on_in_tmux(site: Site, desktop: Desktop) -> None:
    desktops.require("tmux")
    tasks = [site.command(f"test -e {n} || {{ touch {n}; sleep 600; }}; echo worked") for n in range(2)]
    with site.driving("--terminals", env=desktop.env) as driver:
        wait_until(lambda: (site.root / "0").exists() and (site.root / "1").exists(), "both work")
        wait_until(lambda: len(site.events("started")) == 2, "both are on record")
        alive = site.alive()
        desktop.server.send_signal(signal.SIGKILL)
        answer = driver.end()
    assert answer.status == 0, answer
    assert "does not answer" in answer.err
    for task in tasks:
        first, last = site.records(task)
        assert first["charged"] is False
        assert (last["outcome"], site.state(task)) == ("done", "done")
    gone(alive)
    assert site.is_clean()
