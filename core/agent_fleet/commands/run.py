"""`fleet run`: work the queue."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import click

from agent_fleet import project
from agent_fleet.commands import Shared, command, named, terminals
from agent_fleet.commands.finite import Finite
from agent_fleet.commands.terminals import form_options
from agent_fleet.errors import FAULT, OK, FleetError
from agent_fleet.run import accounts, checkout, outlook, roster
from agent_fleet.run.accounts import sole_provider
from agent_fleet.run.console import open_console
from agent_fleet.run.driver import Driver
from agent_fleet.run.outlook import Wishes
from agent_fleet.run.roster import Run
from agent_fleet.run.tidings import Summary
from agent_fleet.text import count, duration, printable


@command("run", help="Work the queue with at most WORKERS at once, as many as the plan allows if not given.")
@click.argument("workers", type=click.IntRange(min=1), required=False)
@click.option("--max", "cap", type=click.IntRange(min=1), help="The same as WORKERS.")
@click.option("--lane", default="", help="Run every task in this lane.")
@click.option("--headless", "lane", flag_value="headless", help="The same as --lane headless.")
@form_options
@click.option("--provider", default="", help="The kind of agent for tasks that name none.")
@click.option("--pool", default="", metavar="NAME", help="Take an account of this pool for each agent.")
@click.option("--force", is_flag=True, help="Start workers even where the machine has no room: the only way past it.")
@click.option("--stagger", type=Finite(min=0), metavar="S", help="Seconds between two starts.")
@click.option("--drain", is_flag=True, help="Take over and finish what runs; start nothing new.")
@click.option("--detach", is_flag=True, help="Go on in the background, and return at once.")
@click.option("--worktree/--no-worktree", default=None, help="Give each task a git worktree and branch of its own.")
@click.option("--trust-committed", is_flag=True, help="Work tasks and obey settings that came with the repository.")
@click.option("--ask", is_flag=True, help="You are there: workers at a terminal may ask you, and wait for you.")
@click.option("--dry-run", is_flag=True, help="Show the plan and start nothing.")
def command_line(
    shared: Shared,
    workers: int | None,
    cap: int | None,
    lane: str | None,
    form: str | None,
    provider: str,
    pool: str,
    force: bool,
    stagger: float | None,
    drain: bool,
    detach: bool,
    worktree: bool | None,
    trust_committed: bool,
    ask: bool,
    dry_run: bool,
) -> int:
    apart = shared.config.get("run.worktree") == "on" if worktree is None else worktree
    chosen = terminals.choose(shared, lane, form)
    wishes = Wishes(
        cap=cap or workers,
        lane=chosen,
        provider=provider or sole_provider(shared.config, shared.environ, pool),
        force=force,
        worktree=apart,
        ask=ask,
        pool=pool,
    )
    refuse(shared, wishes, trust_committed=trust_committed)
    if dry_run:
        _dry_run(shared, wishes)
        return OK
    if detach:
        detached(shared, [argument for argument in sys.argv[1:] if argument != "--detach"])
        return OK
    driver = Driver(
        shared.queue,
        shared.config,
        shared.plugins,
        wishes,
        open_console(),
        shared.environ,
        stagger=shared.config.get("run.stagger") if stagger is None else stagger,
        drain=drain,
    )
    summary = driver.work()
    if summary.obstacle:
        what = "no task was moved" if summary.attempts else "nothing could start"
        raise FleetError(
            "unusable",
            f"{what}, {count(summary.waiting, 'task')} in the inbox: {summary.obstacle}",
            hint="mend that, or choose another with --provider or --lane; `fleet plugins` lists what there is",
        )
    shared.emit(summary._asdict(), lambda: _text(summary))
    return FAULT if summary.states.get("failed") else OK


def refuse(shared: Shared, wishes: Wishes, *, trust_committed: bool) -> None:
    """Raise FleetError for a run that may not be, or that could start nothing."""
    if shared.environ.get("FLEET_WORKER"):
        raise FleetError(
            "refused", "this is a worker of a fleet; it cannot start a run of its own", hint="report the task instead"
        )
    if not trust_committed:
        _refuse_committed(shared)
    named.refuse_unknown(shared, lanes=[wishes.lane], providers=[wishes.provider], pools=[wishes.pool])
    for warning in accounts.warnings(shared.config, shared.environ, wishes.pool):
        shared.warn(warning)
    _refuse_unusable(shared, wishes)
    _refuse_to_ask_nobody(shared, wishes)
    if wishes.worktree:
        _survey(shared)


def _refuse_committed(shared: Shared) -> None:
    """A queue that came with a repository would run somebody else's commands on this machine."""
    found = project.committed(shared.root, os.path.basename(shared.queue_dir))
    if found:
        raise FleetError(
            "refused",
            f"{len(found)} files of this queue were committed to the repository: somebody else's tasks or settings would run",
            hint="read them, then use --trust-committed, or take them out with `git rm --cached`",
            details=tuple(found[:10]),
        )


def _refuse_unusable(shared: Shared, wishes: Wishes) -> None:
    """What was named on the command line must be usable; what tasks name for themselves only makes those tasks wait."""
    if wishes.lane:
        facts = outlook.lane_facts(shared.plugins, wishes.lane)
        if facts.unusable:
            raise FleetError(
                "unusable", f"lane {wishes.lane}: {facts.unusable}", hint="`fleet plugins` lists the lanes"
            )
    trouble = outlook.provider_trouble(shared.plugins, wishes.provider) if wishes.provider else ""
    if trouble:
        raise FleetError(
            "unusable", f"provider {wishes.provider}: {trouble}", hint="`fleet plugins` lists the providers"
        )


def _survey(shared: Shared) -> None:
    """Refuse what no worktree can be made of, and say what will be in none of them."""
    checkout.survey(shared.root)
    changes = checkout.left_behind(shared.root)
    if changes:
        shared.warn(f"{count(changes, 'change')} here not committed: worktrees begin without {_them(changes)}")


def _them(number: int) -> str:
    return "it" if number == 1 else "them"


def _refuse_to_ask_nobody(shared: Shared, wishes: Wishes) -> None:
    """A worker that nobody can type to would wait for an answer that never comes."""
    if not wishes.ask:
        return
    routes = outlook.routes_of(shared.config, shared.plugins, wishes)
    lanes = dict.fromkeys(routes.lane(need, "") for need in ("browser", "agent"))
    if not any(outlook.has_terminal(shared.plugins, lane) for lane in lanes):
        raise FleetError(
            "refused",
            f"--ask needs workers at a terminal: in lane {' and '.join(lanes)} nobody could be asked",
            hint="add --lane terminal, or leave --ask out: questions then wait in `fleet blocked`",
        )


def _dry_run(shared: Shared, wishes: Wishes) -> None:
    from agent_fleet.commands import plan

    plan.plan(shared, wishes)


def detached(shared: Shared, arguments: Sequence[str], notes: Sequence[str] = ()) -> None:
    """Start `fleet` with these arguments in a session of its own, and wait until its run is on record; say where, with notes."""
    found = in_background(shared, arguments)
    if found.run is None:
        return shared.emit(
            {"run": None, "pid": None, "log": found.log}, lambda: f"the run is over already; its log: {found.log}"
        )
    return _say_detached(shared, found.run.id, found.pid, found.log, notes)


class Background(NamedTuple):
    """A run in a session of its own; none if it was over before it could be seen."""

    run: Run | None
    pid: int
    log: str


def in_background(
    shared: Shared, arguments: Sequence[str], is_ready: Callable[[Run], bool] = lambda _: True
) -> Background:
    """Start `fleet` with these arguments in a session of its own, and wait until its run is on record and ready.

    Raises FleetError (`run_failed`) with the end of its log if it fails before that.
    """
    log = shared.queue.path("logs", f"run-{time.time_ns()}.log")
    with open(log, "ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "agent_fleet", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=os.getcwd(),
        )
    deadline = time.monotonic() + 60
    while child.poll() is None and time.monotonic() < deadline:
        new = [run for run, _ in roster.runs(shared.queue) if run.identity.startswith(f"{child.pid}:")]
        if new and is_ready(new[0]):
            return Background(new[0], child.pid, log)
        time.sleep(0.05)
    if child.poll() == 0:
        return Background(None, child.pid, log)
    raise FleetError(
        "run_failed",
        f"the run ended at once; its log: {log}",
        hint="run it without --detach to see why",
        details=_end_of(log),
    )


def _end_of(log: str) -> tuple[str, ...]:
    with open(log, encoding="utf-8", errors="replace") as file:
        return tuple(printable(text) for text in file.read()[-2000:].splitlines()[-5:])


def _say_detached(shared: Shared, run: str, pid: int, log: str, notes: Sequence[str]) -> None:
    text = "\n".join([f"{run} goes on in the background (pid {pid}); its log: {log}", *notes])
    shared.emit({"run": run, "pid": pid, "log": log, "notes": list(notes)}, lambda: text)


def _text(summary: Summary) -> str:
    states = ", ".join(f"{number} {state}" for state, number in summary.states.items()) or "nothing was done"
    rows = [f"{summary.run}: {states}; {count(summary.attempts, 'attempt')} in {duration(summary.seconds)}"]
    if summary.waiting:
        rows.append(
            f"{count(summary.waiting, 'task')} still in the inbox: {summary.why or 'fleet why ID tells for what'}"
        )
    if summary.states.get("blocked"):
        rows.append("some wait for you: fleet blocked")
    return "\n".join(rows)
