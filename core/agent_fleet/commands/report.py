"""`fleet report`: what one run came to. Coverage comes first; a run that is not whole is never called clean."""

from __future__ import annotations

from typing import Any

import click

from agent_fleet.commands import Shared, command
from agent_fleet.commands.cost import price_table
from agent_fleet.deploy.orders import is_id
from agent_fleet.errors import OK, FleetError
from agent_fleet.ledger import Tally, spent
from agent_fleet.run import history
from agent_fleet.run.history import Coverage, TaskLine
from agent_fleet.text import count, duration, line


@command(
    "report",
    help="Show what run or deployment RUN came to: coverage first, then every task or item with its evidence, then the cost.",
)
@click.argument("run")
def command_line(shared: Shared, run: str) -> int:
    queue = shared.queue
    if is_id(run):
        from agent_fleet.commands import deployed
        from agent_fleet.deploy import record

        return deployed.tell(shared, record.read(queue, run))
    if not any(known.id == run for known in history.runs(queue)):
        raise FleetError("not_found", f"there is no run {run!r}", hint="`fleet runs` lists them")
    lines = list(history.tasks(queue, run))
    covered = history.coverage(lines, history.untouched(queue, run))
    table = price_table(shared)
    cost = spent(queue, table, run=run)
    shared.emit(_payload(run, covered, lines, cost), lambda: _text(run, covered, lines, cost))
    return OK


def _payload(run: str, covered: Coverage, lines: list[TaskLine], cost: Tally) -> dict[str, Any]:
    return {
        "run": run,
        "coverage": {"asked": covered.asked, "done": covered.done, "others": covered.others, "whole": covered.is_whole},
        "tasks": [found._asdict() for found in lines],
        "tokens": None if cost.is_unknown else cost.usage.tokens,
        "money": None if cost.is_unknown else cost.money.as_record(),
    }


def _text(run: str, covered: Coverage, lines: list[TaskLine], cost: Tally) -> str:
    verdict = "every task is done" if covered.is_whole else "not whole: no conclusion about the rest"
    rows = [f"{run}: {covered} ({verdict})" if covered.asked else f"{run}: nothing was started", ""]
    for found in lines:
        proof = ", checked by fleet" if found.checked and found.state == "done" else ""
        tries = (
            f"{count(len(found.attempts), 'attempt')} ({', '.join(found.attempts)})"
            if len(found.attempts) > 1
            else found.attempts[0]
        )
        rows.append(
            f"{found.task:>6}  {found.state:<8} {line(found.title, 60)}  [{tries}, {duration(found.seconds)}{proof}]"
        )
        if found.evidence:
            rows.append(f"        {line(found.evidence, 110)}")
        if found.work:
            rows.append(f"        {line(found.work, 200)}")
    return "\n".join([*rows, "", used(cost)])


def used(cost: Tally) -> str:
    """What was used and what it cost, in one line; what is unknown is called so."""
    if cost.is_unknown:
        return "tokens and money: unknown, no attempt reported any (shell commands do not)"
    amount = cost.money.amount
    shown = "unknown" if amount is None else f"{amount:.4f} US dollars"
    rest = f"; {count(cost.silent, 'attempt')} reported nothing" if cost.silent else ""
    return f"used {cost.usage.tokens:,} tokens; money: {shown} ({cost.money.basis}){rest}"
