"""What the commands about deployments share: how one is worked, and how what came of it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from agent_fleet import paths, routing
from agent_fleet.agents.dialect import Speaks
from agent_fleet.aggregate.outputs import Output
from agent_fleet.aggregate.report import Cost
from agent_fleet.aggregate.sampling import plan
from agent_fleet.aggregate.sheets import judged
from agent_fleet.aggregate.verification import Verification, promise
from agent_fleet.commands import Shared, named, run
from agent_fleet.commands.add import habits
from agent_fleet.commands.cost import price_table
from agent_fleet.commands.report import used
from agent_fleet.config import usual_model
from agent_fleet.deploy import assembly, comparison, coverage, escalation, telling
from agent_fleet.deploy.comparison import Comparison
from agent_fleet.deploy.coverage import Coverage, Fate
from agent_fleet.deploy.estimate import Band, Estimate, Size
from agent_fleet.deploy.estimate import estimate as estimated
from agent_fleet.deploy.orders import FOLDER
from agent_fleet.deploy.planning import Planning
from agent_fleet.deploy.question import Asked, Unasked
from agent_fleet.deploy.record import Deployment, Second
from agent_fleet.deploy.referee import MOST, Referee
from agent_fleet.deploy.rulings import NAME, Rulings
from agent_fleet.deploy.work import Place, Work, spent
from agent_fleet.deploy.work import work as worked
from agent_fleet.errors import FAULT, OK, FleetError, from_os_error
from agent_fleet.ledger import Entry, Tally, entries, tally
from agent_fleet.plugins import PROVIDERS
from agent_fleet.prices import Table
from agent_fleet.queue.store import Queue
from agent_fleet.run.console import Lines, open_console
from agent_fleet.run.outlook import Wishes
from agent_fleet.text import count, duration, line

_SHOWN = 20
_FILES = ("disk_full", "io_error", "read_only", "permission")
_NAMED = ("lane", "provider", "pool")


def refuse_unknown(shared: Shared, settings: Mapping[str, Any], second: Second | None) -> None:
    """Raise FleetError where settings, or a second pool, name what there is not: before a question costs anything."""
    made = [{name: settings.get(name) or "" for name in _NAMED}]
    made += [] if second is None else [{name: getattr(second, name) for name in _NAMED}]
    named.refuse_unknown(shared, **{f"{name}s": [str(who[name]) for who in made] for name in _NAMED})


def refuse(shared: Shared, provider: str, lane: str, force: bool, trust_committed: bool) -> None:
    """Raise FleetError for a deployment that may not be worked here, or could not."""
    comparison.refuse(shared.plugins, shared.config)
    run.refuse(shared, Wishes(lane=lane, provider=provider, force=force), trust_committed=trust_committed)


def refuse_second(shared: Shared, deployment: Deployment, force: bool, trust_committed: bool) -> None:
    """The same for the second pool."""
    if deployment.second is not None:
        refuse(shared, deployment.second.provider, deployment.second.lane, force, trust_committed)


def again(stagger: float | None, force: bool, trust_committed: bool) -> list[str]:
    """These options for another `fleet resume-run`."""
    words = [] if stagger is None else ["--stagger", str(stagger)]
    return [*words, *(["--force"] if force else []), *(["--trust-committed"] if trust_committed else [])]


def work(shared: Shared, deployment: Deployment, *, force: bool, stagger: float | None) -> int:
    """Work it to its end and tell what came of it; the exit status. Where files cannot be written the error says how to go on."""
    settings = deployment.settings
    place = Place(
        queue=shared.queue,
        config=shared.config,
        plugins=shared.plugins,
        environ=shared.environ,
        habits=habits(shared),
        table=price_table(shared),
        console=open_console,
    )
    wishes = Wishes(
        cap=settings.agents, force=force
    )  # lane and provider stand in each task: those who check have others
    seconds = shared.config.get("run.stagger") if stagger is None else stagger
    try:
        return tell(shared, deployment, worked(place, deployment, wishes, stagger=seconds))
    except OSError as error:
        raise _halted(deployment, from_os_error(error, f"{deployment.id} cannot go on")) from None
    except FleetError as error:
        raise (_halted(deployment, error) if error.code in _FILES else error) from None


def _halted(deployment: Deployment, error: FleetError) -> FleetError:
    """The same command again would be another deployment, which is paid for again."""
    return FleetError(error.code, error.message, hint=f"mend that, then go on with: fleet resume-run {deployment.id}")


def tell(shared: Shared, deployment: Deployment, done: Work | None = None) -> int:
    """Say what has become of a deployment, coverage first; the exit status says whether it is whole."""
    given = coverage.given(shared.queue, deployment)
    found = coverage.fates(deployment, given)
    covered = coverage.coverage(found)
    table = price_table(shared)
    whole = covered.share >= deployment.settings.coverage and not covered.open
    by = comparison.comparison(shared.plugins, shared.config)
    report = assembly.assemble(deployment, found, given, by, _referee(shared, deployment, by, covered))
    cost = spent(shared.queue, table, deployment)
    report = replace(report, cost=Cost(used(cost), *_amounts(cost)))
    verified = deployment.second is None or report.verification.standing == "passed"
    files = assembly.keep(shared.queue, deployment, report)
    answers, linked = (sum(getattr(rate, name) for rate in report.rates.values()) for name in ("answers", "linked"))
    climbed = _escalated(shared.queue, table, escalation.steps(given))
    joined = {
        "verdict": report.verdict,
        "duplicates": {"answers": answers, "linked": linked, "to_ask": report.asked_about, "by": report.compared}
        | {"judged": asdict(report.judged) if report.judged else None},
        "files": files,
        "escalated": climbed,
        "verification": checked_by(deployment, report.verification, report.output),
    }
    alike = f"; answers that say what another says: {linked:,} of {answers:,}" if answers else ""
    told = _climbs(climbed) + _checked(deployment, report.verification)
    told += [f"{judged(report.judged)}; by {report.judged.by}"] if report.judged else []
    told += [f"{report.verdict}{alike}", f"report: {files[-1]}"]
    shared.emit(
        payload(deployment, covered, found, cost, whole=whole) | joined | ({"why": done.why} if done else {}),
        lambda: "\n".join(
            [
                _text(deployment, covered, found, used(cost), whole=whole, why=done.why if done else ""),
                *told,
            ]
        ),
    )
    return OK if whole and verified else FAULT


def payload(
    deployment: Deployment, covered: Coverage, found: list[Fate], cost: Tally, *, whole: bool
) -> dict[str, Any]:
    """The answer for programs."""
    tokens, money = _amounts(cost)
    return {
        "run": deployment.id,
        "task": deployment.instruction,
        "parts": len(deployment.scopes),
        "coverage": {
            "asked": covered.asked,
            "answered": covered.answered,
            "failed": dict(covered.failed),
            "skipped": covered.skipped,
            "open": dict(covered.open),
            "whole": whole,
        },
        "repeated": sum(deployment.repeated.values()),
        "notes": list(deployment.notes),
        "tokens": tokens,
        "money": money,
        "items": [_item(fate) for fate in found],
    }


def _escalated(queue: Queue, table: Table, steps: Sequence[escalation.Step]) -> list[dict[str, Any]]:
    """What has gone a tier up, with what that has cost."""
    found = []
    for step in steps:
        cost = tally(entry for entry in entries(queue, table) if entry.task in step.tasks)
        tokens, money = _amounts(cost)
        found.append(
            {"from": step.below, "to": step.tier, "items": step.items, "answered": step.answered}
            | {"tasks": list(step.tasks), "tokens": tokens, "money": money}
        )
    return found


def _amounts(cost: Tally) -> tuple[int | None, dict[str, Any] | None]:
    """(tokens, money) for programs; None where nobody knows."""
    return (None, None) if cost.is_unknown else (cost.usage.tokens, cost.money.as_record())


def _climbs(steps: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"from tier {step['from']} to {step['to']}: {count(step['items'], 'item')}, {step['answered']} answered there;"
        f" {'cost unknown' if step['tokens'] is None else _price(step)}"
        for step in steps
    ]


def _price(step: dict[str, Any]) -> str:
    more = " and what is unknown" if step["money"]["unknown"] else ""
    return f"{step['tokens']:,} tokens, {step['money']['known']:.4f} US dollars{more}"


def checked_by(deployment: Deployment, found: Verification, output: Callable[[str], Output]) -> dict[str, Any] | None:
    """What the check came to, for programs; None where nobody was to check. `output` gives the answer that an opinion is on."""
    if deployment.second is None:
        return None
    told = asdict(found)
    terms = told.pop("terms") or asdict(deployment.second.terms)
    values = {item.id: item.value for item in deployment.items}
    for opinion in told["opinions"]:
        item = next(iter(output(opinion["key"]).items), None)
        opinion |= {"item": item, "input": values.get(item or "")}
    return {**asdict(deployment.second), **told, "terms": terms}


def _checked(deployment: Deployment, found: Verification) -> list[str]:
    """What the check came to, in lines for a person."""
    second = deployment.second
    if second is None:
        return []
    who = (
        f"{second.provider}{f' {second.model}' if second.model else ''}{f', pool {second.pool}' if second.pool else ''}"
    )
    if found.terms is None:
        return [f"not checked yet; {who} is to check"]
    rate = "" if found.rate is None else f" ({found.rate:.1%})"
    return [
        f"check by {who}: {found.standing}; {found.wrong} of {found.checked} wrong{rate}, {found.unknown} without a verdict",
        f"  {promise(found)}",
        f"  so from {found.least:.1%} to {found.most:.1%} of all answers are wrong",
    ]


def _item(fate: Fate) -> dict[str, Any]:
    told = {"item": fate.item.id, "input": fate.item.value, "kind": fate.kind, "task": fate.task or None}
    if fate.kind == "answered":
        return told | {"value": fate.value, "confidence": fate.confidence}
    return told | {"fault": fate.fault, "why": fate.why}


def _text(deployment: Deployment, covered: Coverage, found: list[Fate], cost: str, *, whole: bool, why: str) -> str:
    wanted = deployment.settings.coverage
    verdict = "not whole: no conclusion about the rest"
    if whole:
        verdict = "whole" if covered.share == 1 else f"not whole, but {wanted:.0%} was asked for"
    rows = [f"{deployment.id}: {covered} ({verdict})", f"{count(len(deployment.scopes), 'part')}; {cost}"]
    rows += deployment.notes
    rows += [f"it did not go on: {why}"] if why else []
    rest = [fate for fate in found if fate.kind not in ("answered", "open")]  # of the open ones the first line tells
    rows += [f"  {fate.item.id:>6}  {_why(fate)}  {line(str(fate.item.value), 70)}" for fate in rest[:_SHOWN]]
    if len(rest) > _SHOWN:
        rows.append(f"  and {len(rest) - _SHOWN} more")
    hint = f"fleet resume-run {deployment.id}" if covered.open else f"fleet report {deployment.id} --json"
    return "\n".join([*rows, f"go on with: {hint}" if covered.open else f"all answers: {hint}"])


def _why(fate: Fate) -> str:
    return line(f"{fate.kind} ({fate.fault or fate.why})", 60)


def planning(shared: Shared, money: float) -> Planning:
    """The planning of a new deployment, which may cost so much in all (US dollars; 0: any amount)."""
    return Planning(shared.made_queue, shared.config, price_table(shared), money)


def mind(shared: Shared, provider: str, model: str, planning: Planning, *, estimate: bool = False) -> Asked | Unasked:
    """The model that takes goals apart: the provider's, or that of tasks that name none. For an estimate nobody is asked."""
    if estimate:
        return Unasked()
    name = provider or shared.config.get("providers.default")
    return Asked(shared.plugins, name, shared.environ, planning, model=model)


def judge(shared: Shared, planning: Planning, *, estimate: bool = False) -> Asked | Unasked | None:
    """The model that says how difficult parts are; None where nobody is configured. Raises `bad_config`."""
    name = shared.config.get("deploy.judge")
    if not name:
        return None
    tier = routing.named(shared.config.tiers, "deploy.judge", name)
    return mind(shared, tier.provider, tier.model, planning, estimate=estimate)


def _referee(shared: Shared, deployment: Deployment, by: Comparison, covered: Coverage) -> Referee | None:
    """Who says which answers are the same, if anybody is to. Only once nothing is open is a model asked; until then the record
    of what it has said speaks.
    """
    tier = by.judge
    if tier is None:
        return None
    provider = tier.provider or str(shared.config.get("providers.default"))
    model = tier.model or usual_model(shared.config, provider)
    who = f"{provider}, {model}" if model else provider
    found = Planning(shared.made_queue, shared.config, price_table(shared), deployment.settings.money, deployment.id)
    return Referee(
        Rulings(shared.queue.path(FOLDER, deployment.id, NAME)),
        Asked(shared.plugins, provider, shared.environ, found, model=tier.model),
        by=who,
        name=f"{tier.name}: {who}",
        why=f"{count(sum(covered.open.values()), 'item')} may still be answered" if covered.open else "",
        tell=Lines().say,
    )


def estimate(shared: Shared, draft: Deployment) -> int:
    """Tell what a deployment would cost and take; nothing of it is kept."""
    settings = draft.settings
    table = price_table(shared)
    provider = settings.provider or shared.config.get("providers.default")
    model = settings.model or usual_model(shared.config, provider)
    size = Size(
        [(len(order.items), len(telling.partition(order))) for order in draft.orders()],
        settings.agents,
        settings.tokens,
        settings.redispatch,
        model,
        _between(shared, provider),
    )
    before: list[Entry] = []
    if paths.is_queue(shared.queue_dir):
        before = [entry for entry in entries(shared.queue, table) if _is_like(entry, provider, settings.model)]
    found = estimated(size, before, table)
    if draft.second is not None:
        terms = draft.second.terms
        most = plan(len(draft.items), tolerated=terms.tolerated, found=terms.found, confidence=terms.confidence).size
        found = found._replace(basis=(*found.basis, f"not in it: the check of up to {count(most, 'answer')}"))
    if comparison.comparison(shared.plugins, shared.config).judge is not None:
        basis = f"not in it: questions about up to {MOST:,} pairs of answers that may say the same"
        found = found._replace(basis=(*found.basis, basis))
    shared.emit(
        {
            "items": len(draft.items),
            "parts": len(draft.scopes),
            "agents": settings.agents,
            "repeated": sum(draft.repeated.values()),
            "tokens": found.tokens._asdict(),
            "money": found.money._asdict(),
            "seconds": found.seconds._asdict(),
            "basis": list(found.basis),
            "notes": list(draft.notes),
        },
        lambda: _estimate(draft, found),
    )
    return OK


def _between(shared: Shared, provider: str) -> float:
    """Seconds between two starts of agents; those over an API start together."""
    offer = next((offer for offer in shared.plugins.all(PROVIDERS) if offer.name == provider), None)
    return 0.0 if offer and isinstance(offer.thing, Speaks) else float(shared.config.get("run.stagger"))


def _is_like(entry: Entry, provider: str, model: str) -> bool:
    """Whether it is an attempt of one such agent: a session of many, or a question, says nothing of one."""
    return entry.generation > 0 and entry.provider == provider and (not model or model in entry.models)


def _estimate(draft: Deployment, found: Estimate) -> str:
    rows = [
        f"{count(len(draft.items), 'item')} in {count(len(draft.scopes), 'part')}, by {draft.decomposer};"
        f" {draft.settings.agents} agents at once",
        f"tokens: {_band(found.tokens, lambda value: f'{value:,.0f}')}",
        f"money:  {_band(found.money, lambda value: f'{value:.2f} US dollars')}",
        f"time:   {_band(found.seconds, duration)}",
        *found.basis,
        *draft.notes,
        "nothing was started",
    ]
    return "\n".join(rows)


def _band(band: Band, shown: Callable[[float], str]) -> str:
    if band.low is None or band.likely is None or band.high is None:
        return "unknown"
    return f"{shown(band.low)} to {shown(band.high)}, likely {shown(band.likely)}"
