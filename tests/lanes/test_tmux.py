"""tmux windows on a server of our own: private, without our marks, gone with the last window, and replaced when it dies."""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fleet.api import Launch, Worker
from agent_fleet.config import load
from agent_fleet.process import is_alive
from agent_fleet_lanes._tmux import Tmux
from agent_fleet_lanes.terminal import Terminal
from support import procs
from support.desktop import require
from support.procs import wait_until
from support.runs import Site, gone


@pytest.fixture(autouse=True)
def tmux() -> None:
    require("tmux")


@pytest.fixture
def mark() -> Iterator[str]:
    with procs.new_mark() as mark:
        yield mark


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def ask(socket: Path | str, *arguments: str) -> str:
    done = subprocess.run(
        ["tmux", "-S", str(socket), *arguments], capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout.strip()


def lane(root: Path) -> Terminal:
    queue = root / "queue"
    queue.mkdir(exist_ok=True)
    return Terminal(load(str(root), queue_dir=str(queue), environ={"FLEET_TERMINAL_FORM": "tmux"}))


def start(terminal: Terminal, root: Path, mark: str, name: str = "w1", code: str = "sleep 600") -> Worker:
    env = procs.environment(mark)
    log = str(root / f"{name}.log")
    return terminal.start(Launch(worker=name, argv=("sh", "-c", code), cwd=str(root), env=env, log=log))


def test_the_server_is_private_has_no_mark_and_ends_with_its_last_window(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "not for the server")
    monkeypatch.setenv("TMUX", "/tmp/another,1,1")
    terminal = lane(tmp_path)
    workers = [start(terminal, tmp_path, mark, f"w{n}") for n in range(3)]
    socket = Path(Tmux(str(tmp_path / "queue"), os.environ).socket)
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    assert ask(socket, "list-windows", "-t", "fleet", "-F", "#{window_name}").split() == ["w0", "w1", "w2"]
    pid = ask(socket, "display-message", "-p", "#{pid}")
    environ = Path(f"/proc/{pid}/environ").read_bytes()
    assert mark.encode() not in environ and b"SECRET" not in environ
    panes = ask(socket, "list-panes", "-a", "-F", "#{pane_pid}").split()
    assert sorted(panes) == sorted(str(worker.pid) for worker in workers)
    for worker in workers:
        assert terminal.stop(worker, 2.0)
    wait_until(lambda: not procs.running(int(pid)), "the server has ended")
    list(terminal.clean(str(tmp_path)))
    assert not socket.exists()


def test_a_worker_is_shown_by_its_window(tmp_path: Path, mark: str) -> None:
    terminal = lane(tmp_path)
    first, second = (start(terminal, tmp_path, mark, name) for name in ("w1", "w2"))
    socket = Path(Tmux(str(tmp_path / "queue"), os.environ).socket)
    for worker in (second, first):
        assert "attach" in str(terminal.show(worker))
        assert ask(socket, "display-message", "-p", "-t", "fleet", "#{window_name}") == worker.id
    terminal.stop(first, 2.0)
    assert "no tmux window" in str(terminal.show(first))


def test_a_dead_server_is_replaced(tmp_path: Path, mark: str) -> None:
    terminal = lane(tmp_path)
    socket = Path(Tmux(str(tmp_path / "queue"), os.environ).socket)
    for n in range(4):
        worker = start(terminal, tmp_path, mark, f"w{n}")
        server = int(ask(socket, "display-message", "-p", "#{pid}"))
        assert is_alive(worker.identity)
        os.kill(server, 9)  # and no waiting: the next start meets a server that is just going


def test_a_path_that_is_too_long_for_a_socket_is_not_used(tmp_path: Path) -> None:
    runtime = tmp_path / "r"
    runtime.mkdir()
    long = "/" + "x" * 200
    found = Tmux(long, {"XDG_RUNTIME_DIR": str(runtime)}).socket
    assert found.startswith(str(runtime)) and found != Tmux(long + "y", {"XDG_RUNTIME_DIR": str(runtime)}).socket
    assert len(Tmux(long, {}).socket) < 100


def test_when_the_server_dies_in_a_run_every_task_is_worked_again_uncharged(site: Site) -> None:
    tasks = [site.command(f"test -e {n} || {{ touch {n}; sleep 600; }}; echo worked") for n in range(3)]
    socket = Tmux(str(site.dir), site.environment()).socket
    with site.driving("--tmux") as driver:
        wait_until(lambda: all((site.root / str(n)).exists() for n in range(3)), "all work")
        alive = site.alive()
        ask(socket, "kill-server")
        answer = driver.end()
    assert answer.status == 0, answer
    for task in tasks:
        first, last = site.records(task)
        assert (first["charged"], last["outcome"], site.state(task)) == (False, "done", "done")
        assert "its window was closed" in first["reason"]
    gone(alive)
    assert site.is_clean()


def test_two_tasks_of_one_host_never_overlap_in_terminals(site: Site) -> None:
    site.configure('[providers]\ndefault = "looker"\n[agents.looker]\nargv = ["sh", "-c", "sleep 0.3; echo seen"]\n')
    tasks = [site.add(f"https://a.example/{n}") for n in range(3)]
    site.work("--tmux")
    times = sorted(site.intervals()[task][0] for task in tasks)
    assert all(first[1] <= second[0] + 0.002 for first, second in itertools.pairwise(times))
    assert {site.record(task)["lane"] for task in tasks} == {"terminal"}


def test_browser_tasks_go_to_terminals_where_there_are_some_and_the_plan_says_why(site: Site) -> None:
    site.add("https://a.example/", "--provider", "command")
    env = {"FLEET_LANES_BROWSER": "auto"}
    found = site.json("plan", env=env)
    assert found["lanes"][0]["lane"] == "terminal"
    assert found["forms"][0].startswith("lane terminal: tmux windows; look at them with: tmux -S ")
    assert "not windows: there is no display" in found["forms"][0]
    bare = site.home / "bin"
    bare.mkdir()
    found = site.json("plan", env={**env, "PATH": str(bare)})
    assert found["lanes"][0]["lane"] == "headless"
    assert "tmux is not installed" in found["forms"][0]
