"""`fleet watch`: what needs you, who works on what, and what holds the rest back, again and again."""

from __future__ import annotations

import io
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from agent_fleet import paths
from agent_fleet.commands import Shared, command
from agent_fleet.commands.finite import Finite
from agent_fleet.run import fitness, snapshot
from agent_fleet.text import count, duration, line, size

if TYPE_CHECKING:
    from types import FrameType

    from rich.console import Group
    from rich.table import Table

_PLAIN_WIDTH = 160
_SHARE = 4.0  # a look may take one part in so many of the time: a queue of any size leaves the machine to its workers
_WALLS = 8


@command("watch", help="Watch the project: what needs you, who works on what, what holds the rest back.")
@click.option(
    "--interval",
    type=Finite(min=0.1),
    default=2.0,
    show_default=True,
    metavar="S",
    help="Seconds between looks.",
)
@click.option("--once", is_flag=True, help="One look, as text. So it is where the output is no terminal.")
def command_line(shared: Shared, interval: float, once: bool) -> None:
    queue, config = shared.queue, shared.config
    if once or shared.format != "human" or sys.stdout is None or not sys.stdout.isatty():
        seen = snapshot.take(queue, config, paths.state_dir(shared.environ))
        shared.emit(seen, lambda: plain(seen))
        return
    _live(shared, interval)


def _live(shared: Shared, interval: float) -> None:
    """Draw on the terminal's other screen until Ctrl-C or SIGTERM; either way the terminal is left as it was."""
    from rich.live import Live

    before, state = signal.signal(signal.SIGTERM, _leave), paths.state_dir(shared.environ)
    try:
        with Live(screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
            while True:
                begun = time.monotonic()
                live.update(drawn(snapshot.take(shared.queue, shared.config, state)), refresh=True)
                time.sleep(max(interval, _SHARE * (time.monotonic() - begun)))
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def plain(seen: dict[str, Any]) -> str:
    """The picture as text without colours."""
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=_PLAIN_WIDTH, color_system=None, force_terminal=False).print(drawn(seen))
    return "\n".join(row.rstrip() for row in out.getvalue().splitlines())


def drawn(seen: dict[str, Any]) -> Group:
    """The picture for a terminal, what needs the person first."""
    from rich.console import Group
    from rich.text import Text

    rows = [Text(text, style=style, no_wrap=True, overflow="ellipsis") for text, style in _head(seen)]
    rows += [Text(session(each), no_wrap=True, overflow="ellipsis") for each in seen["sessions"] if not each["tasks"]]
    return Group(*rows, *([_table(seen["workers"])] if seen["workers"] else []))


def session(found: dict[str, Any]) -> str:
    """One session that claims by itself, in a line; `status` shows the same."""
    who = f"by {found['provider']}" if found["provider"] else "by a command of yours"
    holds = "holds " + (", ".join(found["tasks"]) or "nothing")
    waits = f"; {snapshot.WAITS}: its turn has ended" if found["waits"] else ""
    return (
        f"{found['session']}  {found['lane']}  {who}, {count(found['seats'], 'seat')}, {holds}; up {_age(found['age'])},"
        f" last event {_age(found['last_event'])} ago{waits}"
    )


def _head(seen: dict[str, Any]) -> list[tuple[str, str]]:
    walls = seen["needs_you"]
    turns = [each for each in seen["sessions"] if each["waits"]]
    rows = [] if turns else [("Nothing waits for you.", "green")]
    if walls:
        waiting = sum(wall["count"] for wall in walls) + seen["needs_you_unread"]
        rows = [(f"{count(waiting, 'task')} wait{'s' if waiting == 1 else ''} for you (fleet blocked):", "bold yellow")]
        rows += [
            (f"  {wall['count']:>5}  {line(wall['wall'], 90)}  {_named(wall)}", "yellow") for wall in walls[:_WALLS]
        ]
        more = len(walls) - _WALLS
        rows += [(f"         and {count(more, 'other wall')}", "yellow")] if more > 0 else []
    rows += [(session(each), "bold yellow") for each in turns]
    rows.append(("  ".join(f"{state} {number:,}" for state, number in seen["counts"].items()), ""))
    if seen["quarantined"]:
        rows.append((f"{count(seen['quarantined'], 'file')} could not be used; see quarantine/ in the queue", "red"))
    rows += [(_run(seen), "")]
    rows += [(_gate(gate), "magenta") for gate in seen["gates"]]
    rows += [(line(each["said"], 140), "" if each["closed"] is None else "magenta") for each in seen["calls"]]
    rows += [(line(fitness.said(each), 140), "red") for each in seen["health"] if each["state"] != "in"]
    rows += [
        (line(fitness.said(each), 140), "")
        for each in seen["health"]
        if each["state"] == "in" and each["part"] == "node"
    ]
    return rows


def _named(wall: dict[str, Any]) -> str:
    return ", ".join(wall["tasks"]) + (" …" if wall["count"] > len(wall["tasks"]) else "")


def _run(seen: dict[str, Any]) -> str:
    if not seen["runs"]:
        return "no run is on: fleet run starts one"
    names = ", ".join(run["id"] + ("" if run["alive"] else " (unknown whether it lives)") for run in seen["runs"])
    lanes = ", ".join(f"{number} in {line(lane, 40)}" for lane, number in sorted(seen["lanes"].items()))
    bound = seen["bound_by"]
    why = "" if seen["sessions"] else "what bounds it is unknown: it has started nothing lately"
    if bound is not None:
        planned = bound["planned"]
        why = f"{planned if isinstance(planned, int) else '?'} at most, bound by {bound['name']}: {bound['why']}"
        why += f" (at its last start, {_age(bound['age'])} ago)"
    return "; ".join(part for part in (f"{names}: {lanes or 'nobody holds a task'}", line(why, 140)) if part)


def _gate(gate: dict[str, Any]) -> str:
    wait = gate["opens_in"]
    if wait is None:
        when = "until a new run tries again"
    else:
        at = time.strftime("%H:%M:%S", time.localtime(gate["until"]))
        when = f"until {at}, in {duration(wait)}" if wait else "to be tried now"
    return f"{line(gate['provider'], 40)} waits {when}: {line(gate['why'], 90)}"


def _table(workers: list[dict[str, Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("task", "state", "lane", "provider", "agent", "host"):
        table.add_column(name, no_wrap=True)
    for name in ("charged", "age", "last event", "sign of life", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("title", no_wrap=True, overflow="ellipsis", ratio=1)
    for worker in workers:
        texts = [worker["task"], *(_known(worker[name]) for name in ("state", "lane", "provider", "agent"))]
        texts += [line(worker["host"] or "-", 30), str(worker["charged"])]
        texts += [_age(worker[name]) for name in ("age", "last_event", "last_sign_of_life")]
        texts += ["?" if worker["memory"] is None else size(worker["memory"]), _known(worker["title"], 80)]
        table.add_row(*(Text(text) for text in texts))
    return table


def _known(text: str | None, width: int = 30) -> str:
    return line(text, width) if text else "?"


def _age(seconds: float | None) -> str:
    return "?" if seconds is None else duration(seconds)
