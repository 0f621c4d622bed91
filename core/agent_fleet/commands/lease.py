"""`fleet lease`: which task works on which account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agent_fleet.accounts import leases, selection
from agent_fleet.accounts.leases import Clock, Leases
from agent_fleet.accounts.router import Selection
from agent_fleet.accounts.selection import EXPLICIT, Request
from agent_fleet.accounts.stored import check_task, iso
from agent_fleet.accounts.values import Lease
from agent_fleet.commands import Shared, command, group
from agent_fleet.commands.desk import Desk, rows
from agent_fleet.errors import FleetError

command_line = group(
    "lease",
    help="Lease an account to a task, and give it back.",
    members={
        "choose": ("lease", "choose", "Choose the best account of a pool and lease it, in one step."),
        "acquire": ("lease", "acquire", "Lease one account by its label."),
        "recover": ("lease", "recover", "Lease the account of a task's conversation again."),
        "show": ("lease", "show", "Show a task's lease."),
        "list": ("lease", "listing", "List the leases that count."),
        "release": ("lease", "release", "End a task's lease."),
    },
)


def for_task(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say for which task and where."""
    for option in (
        click.option("--workspace", required=True, metavar="DIR", help="The top of the task's git work tree, in full."),
        click.option("--task", required=True, help="The caller's own name for the task."),
    ):
        function = option(function)
    return function


def among(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which accounts."""
    for option in (
        click.option("--model", default="", metavar="NAME", help="The model it is for: limits of others do not count."),
        click.option("--profile", metavar="ID", help="Only this account."),
        click.option("--provider", metavar="NAME", help="Only this provider's accounts."),
        click.option("--pool", required=True, metavar="NAME", help="Only accounts of this pool."),
    ):
        function = option(function)
    return function


@command(
    "choose", help="Choose the best account of a pool and lease it to a task, in one step. Asking again renews it."
)
@for_task
@among
def choose(
    shared: Shared, task: str, workspace: str, pool: str, provider: str | None, profile: str | None, model: str
) -> None:
    request = Request(task=task, pool=pool, provider=provider, profile=profile, workspace=workspace, model=model)
    tell(shared, Desk(shared).router.choose(request))


@command("acquire", help="Lease one account by its label, whatever pools it is in.")
@for_task
@click.option("--profile", required=True, metavar="ID", help="The account.")
@click.option("--pool", default=EXPLICIT, show_default=True, metavar="NAME", help="What the lease says of the pool.")
def acquire(shared: Shared, task: str, workspace: str, profile: str, pool: str) -> None:
    request = Request(task=task, pool=pool, profile=profile, workspace=workspace)
    tell(shared, Desk(shared).router.choose(request))


@command("recover", help="Lease the account of a task's conversation again, even below its reserve.")
@for_task
def recover(shared: Shared, task: str, workspace: str) -> None:
    tell(shared, Desk(shared).router.recover(task, workspace))


@command("show", help="Show a task's lease, and whether it counts.")
@click.option("--task", required=True)
def show(shared: Shared, task: str) -> None:
    desk = Desk(shared)
    found = Leases(desk.vault).of(check_task(task))
    if found is None:
        raise FleetError(
            "lease_missing", f"no lease for task: {task}", hint="`fleet lease list` shows those that there are"
        )
    active = leases.is_active(found, Clock.read(), desk.registry.rules.lease_grace_seconds)
    shared.emit({"lease": leases.record(found), "active": active}, lambda: _line(found, active))


@command("list", help="List the leases that count: reservations within their time, and processes that live.")
def listing(shared: Shared) -> None:
    desk = Desk(shared)
    found = Leases(desk.vault).active(Clock.read(), desk.registry.rules.lease_grace_seconds)
    shared.emit({"leases": [leases.record(lease) for lease in found]}, lambda: _table(found))


@command("release", help="End a task's lease. One whose process lives is refused without --force.")
@click.option("--task", required=True)
@click.option("--force", is_flag=True, help="Also while its process lives; the process itself is not ended.")
def release(shared: Shared, task: str, force: bool) -> None:
    profile, was = Desk(shared).router.release(task, force=force)
    payload = {"task": task, "profile": profile or None, "released": True, "was": was}
    shared.emit(payload, lambda: f"the lease of {task} was released" + (f" from {profile}" if profile else ""))


def tell(shared: Shared, chosen: Selection, *, dry_run: bool = False) -> None:
    """Answer with what was chosen."""
    shared.emit(record(chosen, dry_run=dry_run), lambda: _chosen(chosen, dry_run))


def record(chosen: Selection, *, dry_run: bool) -> dict[str, Any]:
    """A choice as every command tells it."""
    request, verdict, lease = chosen.request, chosen.verdict, chosen.lease
    return {
        "schema": 1,
        "task": request.task,
        "pool": lease.pool if lease else request.pool,
        "profile": verdict.profile,
        "provider": verdict.provider,
        "workspace": request.workspace,
        "decision_reason": chosen.reason,
        "quota_fresh": verdict.fresh,
        "headroom_percent": verdict.headroom,
        "active_lease_count": verdict.active,
        "degraded": not verdict.fresh and chosen.is_looked_at,
        "dry_run": dry_run,
        "identity_proof": "recent-read-only" if dry_run else "recent",
        "next_reset_at": None if verdict.resets_at is None else iso(verdict.resets_at),
        "lease": None if dry_run or lease is None else leases.record(lease),
        "others": [
            {"profile": each.profile, "reason": each.code, "words": each.words}
            for each in chosen.others
            if each.profile != verdict.profile
        ],
    }


def _chosen(chosen: Selection, dry_run: bool) -> str:
    verdict = chosen.verdict
    verb = "would be leased" if dry_run else "is leased"
    lines = [f"{verdict.profile} {verb} to {chosen.request.task} ({chosen.reason}): {verdict.words}"]
    lines += [f"  {line}" for line in selection.explain(o for o in chosen.others if o.profile != verdict.profile)]
    return "\n".join(lines)


def _line(lease: Lease, active: bool) -> str:
    if active:
        holder = f"process {lease.pid}" if lease.pid else f"since {iso(lease.renewed)}"
        return f"{lease.task}: {lease.profile}, {lease.state} ({holder})"
    why = f"process {lease.pid} is gone" if lease.pid else "its time has run out"
    return f"{lease.task}: {lease.profile}, over: {why}"


def _table(found: list[Lease]) -> str:
    if not found:
        return "no leases"
    lines = [("task", "profile", "pool", "state", "process")]
    lines += [(each.task, each.profile, each.pool, each.state, str(each.pid or "")) for each in found]
    return rows(lines)
