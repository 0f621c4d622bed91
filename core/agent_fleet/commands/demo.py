"""`fleet demo`: a small queue of real processes in a throw-away project."""

from __future__ import annotations

import http.server
import os
import shutil
import tempfile
import threading
from typing import Any

import click

from agent_fleet import config, project
from agent_fleet.commands import Shared, command
from agent_fleet.commands.plan import text_of
from agent_fleet.demo import story
from agent_fleet.errors import FleetError
from agent_fleet.plugins import Plugins
from agent_fleet.queue import finish, intake, records
from agent_fleet.queue.store import Queue
from agent_fleet.queue.task import Habits, task_body
from agent_fleet.queue.verify import verify
from agent_fleet.run import outlook
from agent_fleet.run.console import open_console
from agent_fleet.run.driver import Driver
from agent_fleet.run.outlook import Wishes
from agent_fleet.text import count, line


@command("demo", help="Work a small queue of real processes in a throw-away project; no account is needed.")
@click.option("--keep", metavar="DIR", help="Make the project in this new directory and leave it there.")
def command_line(shared: Shared, keep: str | None) -> None:
    root = _new_directory(keep)
    try:
        with _Site() as hosts:
            shown = Demo(root, shared.environ).show(*hosts)
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)
    wrong = [task for task in shown if task["state"] != task["expected"]]
    if wrong:
        text = tuple(
            f"{task['id']} is in {task['state']}, expected {task['expected']}: {task['why']}" for task in wrong
        )
        raise FleetError(
            "run_failed", f"{len(wrong)} tasks did not end as they must", hint="fleet demo --keep DIR", details=text
        )
    shared.emit({"tasks": shown}, lambda: _table(shown))


class Demo:
    """One demonstration in its own project."""

    def __init__(self, root: str, environ: dict[str, str]) -> None:
        self.root = root
        self.environ = {name: value for name, value in environ.items() if not name.startswith("FLEET_")}
        self.environ |= {
            "AGENT_ROOT": root,
            "AGENT_DIR": ".agents",
            "AGENT_FLEET_STATE_DIR": os.path.join(root, ".state"),
            "FLEET_LANES_BROWSER": "headless",
        }
        project.create(root, ".agents")
        self.queue = Queue(os.path.join(root, ".agents"))
        _write(self.queue.path("config.toml"), story.config_text())
        _write(os.path.join(root, "poem.txt"), story.POEM)
        self.config = config.load(root, queue_dir=self.queue.dir, environ=self.environ)
        self.plugins = Plugins(self.config, third_party=False)

    def show(self, first_host: str, second_host: str) -> list[dict[str, Any]]:
        """Add, plan, run, answer, run again; returns what became of every task."""
        steps = story.steps(first_host, second_host)
        ids = intake.add(self.queue, [task_body(step.fields, Habits()) for step in steps])
        click.echo(f"{len(ids)} tasks in {self.root}\n\n$ fleet plan", err=True)
        click.echo(text_of(outlook.look(self.queue, self.config, self.plugins, Wishes(), at_work=()), []), err=True)
        self._run()
        asked = [task for task, step in zip(ids, steps, strict=True) if step.ends == "blocked"]
        states = {task: self._state(task) for task in asked}
        for task in asked:
            if states[task] == "blocked":
                self._answer(task)
        self._run()
        report = verify(self.queue)
        said = "clean" if not report.faults else "; ".join(report.faults)
        click.echo(
            f"\n$ fleet verify\n{said}: {count(report.tasks, 'task')}, {count(report.lines, 'journal line')}\n",
            err=True,
        )
        return [self._shown(task, step, states.get(task)) for task, step in zip(ids, steps, strict=True)]

    def _run(self) -> None:
        click.echo("\n$ fleet run", err=True)
        stagger = self.config.get("run.stagger")
        Driver(self.queue, self.config, self.plugins, Wishes(), open_console(), self.environ, stagger=stagger).work()

    def _answer(self, task: str) -> None:
        reason = (records.outcome(self.queue, task, self._generation(task)) or {}).get("reason")
        click.echo(f"\n$ fleet blocked\n{task}: {reason}\n$ fleet unblock {task} --answer 'use the blue one'", err=True)
        records.add_answer(self.queue, task, "use the blue one")
        finish.reopen(self.queue, task, event="unblocked", why="a person unblocked it", states=("blocked",))

    def _state(self, task: str) -> str:
        return self.queue.require(task).state

    def _generation(self, task: str) -> int:
        return self.queue.require(task).generation

    def _shown(self, task: str, step: story.Step, before: str | None) -> dict[str, Any]:
        place = self.queue.require(task)
        outcome = records.outcome(self.queue, task, place.generation) or {}
        expected = "done" if step.ends == "blocked" else step.ends
        if before is not None and before != "blocked":
            expected = "blocked first"
        return {
            "id": task,
            "state": place.state,
            "expected": expected,
            "lane": outcome.get("lane"),
            "provider": outcome.get("provider"),
            "shows": step.shows,
            "evidence": outcome.get("result") if place.state == "done" else outcome.get("reason"),
            "check": (outcome.get("check") or {}).get("command"),
            "why": outcome.get("reason"),
        }


def _table(shown: list[dict[str, Any]]) -> str:
    rows = ["what ran where and why, with its evidence"]
    for task in shown:
        rows.append(f"  {task['id']:<4}{task['state']:<8}{task['lane']} by {task['provider']}: {task['shows']}")
        rows.append(f"      evidence: {line(str(task['evidence']), 110)}")
        rows += [f"      check run by fleet: {task['check']}"] if task["check"] else []
    rows.append("every task ended as it must; the one that only claimed to be done is failed")
    return "\n".join(rows)


def _new_directory(keep: str | None) -> str:
    if keep is None:
        return tempfile.mkdtemp(prefix="fleet-demo-")
    try:
        os.makedirs(keep)
    except FileExistsError:
        raise FleetError(
            "refused", f"{keep} is there already", hint="name a directory that does not exist yet"
        ) from None
    return os.path.abspath(keep)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class _Site:
    """Three small pages on loopback, under two host names."""

    def __enter__(self) -> tuple[str, str]:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        port = self._server.server_address[1]
        return f"http://127.0.0.1:{port}", f"http://localhost:{port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = (
            f"<html><title>Page {self.path.rpartition('/')[2]}</title><p>Nothing here is an order.</p></html>".encode()
        )
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the standard library's name
        """Nothing: the demo shows what fleet says."""
