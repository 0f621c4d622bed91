"""Deployments for Python programs: `from agent_fleet import Fleet`. Each phase can be called by itself, waiting or awaited.

    fleet = Fleet("project")
    draft = fleet.decompose("Summarise this page", inputs=urls, agents=20)
    found = fleet.dispatch(draft)                 # found.items: one for each input, whatever became of it
    report = fleet.aggregate(found, by=my_function)

The work itself is done by a process of its own, as by `fleet resume-run`: a program that dies loses nothing, and goes on with
`fleet.dispatch("d3")`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from agent_fleet.aggregate.verification import Terms, Verification
from agent_fleet.commands import Shared, deployed
from agent_fleet.commands.add import habits
from agent_fleet.config import Config
from agent_fleet.deploy import checking, coverage, inputs, record, second
from agent_fleet.deploy.contract import Contract
from agent_fleet.deploy.coverage import Coverage, Fate
from agent_fleet.deploy.draft import NO_INPUT, Request, draft
from agent_fleet.deploy.question import Asked
from agent_fleet.deploy.record import Deployment, Second
from agent_fleet.errors import CODES, FleetError
from agent_fleet.protocols import Decomposer

T = TypeVar("T")
State = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a deployment came to by now: what became of every item, in the order of the input, the counts of that, and what a
    second pool says of a sample.
    """

    run: str
    items: tuple[Fate, ...]
    coverage: Coverage
    verification: Verification

    @property
    def values(self) -> list[Any]:
        """The answers alone."""
        return [fate.value for fate in self.items if fate.kind == "answered"]


class Fleet:
    """The deployments of one project. Settings and plugins are those of its commands; every method raises FleetError."""

    def __init__(self, project: str | os.PathLike[str] = ".", *, config: str | None = None) -> None:
        self._options = {"project": os.path.abspath(project), "config": config, "format": "json"}

    def decompose(
        self,
        task: str,
        *,
        inputs: Iterable[Any] | None = None,
        repo: str | None = None,
        by: str | Decomposer = "",
        parts: int = 0,
        depth: int = 1,
        contract: Mapping[str, Any] | None = None,
        tools: Iterable[str] = (),
        verify: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Deployment:
        """A job taken apart, and nothing kept of it yet: for JSON values, for the tracked files below `repo`, or a goal.

        `by` is a decomposer or its name; `verify` names a second pool that checks a sample of the answers, by `provider`, `model`,
        `pool` and `lane`, and its terms: `confidence`, `tolerated`, `found` and `seed`; `settings` are `agents`, `tokens`, `money`,
        `provider`, `model` and so on.
        """
        shared = self._shared()
        try:
            request = Request(
                instruction=task,
                input=_input(shared.root, inputs, repo),
                source="a program" if inputs is not None else f"files below {repo}" if repo else "a goal",
                by=by or ("files" if repo else ""),
                parts=parts,
                depth=depth,
                contract=Contract(contract),
                tools=tuple(tools),
                settings=settings,
                second=None if verify is None else _second(shared.config, verify),
            )
            deployed.refuse_unknown(shared, settings, request.second)
            provider = settings.get("provider") or shared.config.get("providers.default")
            planning = deployed.planning(shared, settings.get("money") or 0.0)
            mind = Asked(shared.plugins, provider, shared.environ, planning, model=settings.get("model") or "")
            return draft(
                shared.plugins,
                shared.config,
                habits(shared),
                request,
                mind,
                environ=shared.environ,
                judge=deployed.judge(shared, planning),
            )
        finally:
            shared.close()

    def dispatch(self, job: Deployment | str, *, force: bool = False, stagger: float | None = None) -> Found:
        """Work a draft, or go on with the deployment of that name, until nothing of it is due.

        Raises FleetError, also where an event loop runs, in which nothing may wait.
        """
        return _run(lambda: self.adispatch(job, force=force, stagger=stagger), "adispatch")

    def found(self, run: str) -> Found:
        """What a deployment has come to by now."""
        shared = self._shared()
        try:
            deployment = record.read(shared.queue, run)
            given = coverage.given(shared.queue, deployment)
            fates = coverage.fates(deployment, given)
            verified = checking.verification(deployment, fates, given)
            return Found(run=run, items=tuple(fates), coverage=coverage.coverage(fates), verification=verified)
        finally:
            shared.close()

    def aggregate(self, found: Found | str, *, by: Callable[[Found], T]) -> T:
        """What `by` makes of all that a deployment has come to."""
        return by(self.found(found) if isinstance(found, str) else found)

    async def adecompose(self, task: str, **options: Any) -> Deployment:
        """As `decompose`, in a thread."""
        return await asyncio.to_thread(self.decompose, task, **options)

    async def adispatch(self, job: Deployment | str, *, force: bool = False, stagger: float | None = None) -> Found:
        """As `dispatch`. If it is cancelled, the work is stopped and its tasks return to the queue."""
        run = job if isinstance(job, str) else await asyncio.to_thread(self._keep, job)
        words = ["resume-run", run, "--json", *self._shared().named]
        words += ["--force"] if force else []
        words += [] if stagger is None else ["--stagger", str(stagger)]
        await self._work(run, words)
        return await asyncio.to_thread(self.found, run)

    async def aaggregate(self, found: Found | str, *, by: Callable[[Found], T]) -> T:
        """As `aggregate`, in a thread."""
        return await asyncio.to_thread(self.aggregate, found, by=by)

    def node(
        self,
        task: str | Callable[[State], str],
        *,
        inputs: str,
        output: str,
        by: Callable[[Found], Any] | None = None,
        force: bool = False,
        stagger: float | None = None,
        **options: Any,
    ) -> Callable[[State], dict[str, Any]]:
        """A node for a graph, such as LangGraph's: it takes the list `inputs` of the state apart, has it worked, and returns what
        `by` makes of it (by default, the answers) as `output`. LangGraph's `invoke` takes it, and so does `ainvoke`, in a thread.
        """
        node = self.anode(task, inputs=inputs, output=output, by=by, force=force, stagger=stagger, **options)

        def fleet(state: State) -> dict[str, Any]:
            return _run(lambda: node(state), "anode")

        return fleet

    def anode(
        self,
        task: str | Callable[[State], str],
        *,
        inputs: str,
        output: str,
        by: Callable[[Found], Any] | None = None,
        force: bool = False,
        stagger: float | None = None,
        **options: Any,
    ) -> Callable[[State], Coroutine[Any, Any, dict[str, Any]]]:
        """As `node`, to be awaited (`ainvoke` alone). If it is cancelled, the work is stopped and its tasks return to the queue."""

        async def fleet(state: State) -> dict[str, Any]:
            words = task if isinstance(task, str) else task(state)
            job = await self.adecompose(words, inputs=state[inputs], **options)
            found = await self.adispatch(job, force=force, stagger=stagger)
            return {output: found.values if by is None else await self.aaggregate(found, by=by)}

        return fleet

    def _shared(self) -> Shared:
        return Shared(dict(self._options))

    def _keep(self, job: Deployment) -> str:
        shared = self._shared()
        try:
            return record.create(shared.made_queue(), job).id
        finally:
            shared.close()

    async def _work(self, run: str, words: list[str]) -> None:
        log = self._shared().queue.path("logs", f"{run}-{time.time_ns()}.log")
        with open(log, "ab") as output:
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "agent_fleet", *words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
            )
        try:
            out, _ = await child.communicate()
        except asyncio.CancelledError:
            if child.returncode is None:
                child.send_signal(signal.SIGTERM)
            await child.wait()
            raise
        told = _told(out)
        if not told.get("ok"):
            code = str(told.get("code"))
            what = str(told.get("error") or f"the work on {run} broke off; its log: {log}")
            raise FleetError(
                code if code in CODES else "run_failed", what, hint=str(told.get("hint") or f"look at {log}")
            )


def _second(config: Config, wish: Mapping[str, Any]) -> Second:
    names = ("provider", "model", "pool", "lane")
    known = {*names, *(each.name for each in fields(Terms))}
    strange = sorted(set(wish) - known)
    if strange:
        raise FleetError("bad_input", f"verify has no {strange[0]!r}", hint=f"there are: {', '.join(sorted(known))}")
    try:
        numbers = {name: float(wish[name]) for name in ("confidence", "tolerated", "found") if name in wish}
    except (TypeError, ValueError):
        raise FleetError("bad_input", "the terms of verify must be numbers", hint="write 0.95 or the like") from None
    terms = Terms(seed=str(wish.get("seed", "")), **numbers)
    who = {name: str(wish.get(name, "")) for name in names}
    return second.wished(config, **who, terms=terms)


def _input(root: str, values: Iterable[Any] | None, repo: str | None) -> inputs.Input:
    if values is not None and repo is not None:
        raise FleetError("usage", "give inputs or repo, not both", hint="leave one out")
    if values is not None:
        return inputs.gathered(values)
    return NO_INPUT if repo is None else inputs.tracked(root, repo)


def _told(out: bytes) -> dict[str, Any]:
    try:
        found = json.loads(out)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _run(work: Callable[[], Coroutine[Any, Any, T]], awaited: str) -> T:
    """Wait for some work. Raises `refused` where an event loop runs; `awaited` is the method to use there."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise FleetError(
            "refused",
            "an event loop runs here, in which nothing may wait",
            hint=f"await what `{awaited}` gives, or use a thread",
        )
    return asyncio.run(work())
