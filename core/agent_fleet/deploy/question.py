"""One question to a model, by way of a provider's own program: started, read to its end, and ended with all that it started."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from agent_fleet import process
from agent_fleet.agents.dialect import Speaks
from agent_fleet.budget import dollars
from agent_fleet.deploy.planning import Planning
from agent_fleet.errors import FleetError
from agent_fleet.model import Exit, Job, Launch, Outcome, Task, Usage
from agent_fleet.plugins import PROVIDERS, Offer, Plugins
from agent_fleet.prices import COUNTS, Meter, Table
from agent_fleet.protocols import Provider, Reader
from agent_fleet.run.holdings import EVERYTHING

_MOST_OUTPUT = 64 << 20
_GRACE = 5.0
_LOOK = 0.25  # seconds between two looks at what it has cost
_HINT = "try again, choose another with --provider, or use --decompose items"


class Unasked:
    """A mind that nobody asks: for an estimate, which starts nothing."""

    usage = Usage()
    deployment = ""

    def answer(self, _question: str) -> str:
        """Raises `refused`."""
        raise FleetError("refused", "an estimate asks no model", hint="leave --estimate out, or use --decompose items")


class Asked:
    """A provider as a mind. `usage` is what all questions have used; nothing is started before the first one.

    It works in an empty directory of its own, so it has nothing to read but the question. Each is counted by `planning`, and ended
    when it has cost more than it may.
    """

    def __init__(
        self,
        plugins: Plugins,
        provider: str,
        environ: Mapping[str, str],
        planning: Planning,
        *,
        model: str = "",
        timeout: float = 600.0,
    ) -> None:
        self.usage = Usage()
        self._planning = planning
        self._plugins = plugins
        self._provider = provider
        self._environ = environ
        self._model = model
        self._timeout = timeout

    @property
    def deployment(self) -> str:
        """The name of the deployment that it is asked for; empty before the first question."""
        return self._planning.deployment

    def answer(self, question: str) -> str:
        """What the model says.

        Raises `refused` if there is no money for it, `unavailable` if the provider comes to anything else, `unusable` if it cannot
        be started.
        """
        offer = self._plugins.offer(PROVIDERS, self._provider)
        trouble = self._plugins.ask(offer, lambda provider: provider.usable())
        if trouble:
            raise FleetError("unusable", f"provider {self._provider}: {trouble}", hint=_HINT)
        mark = f"question-{secrets.token_hex(8)}"
        most = self._planning.begin(mark, counts_itself=isinstance(offer.thing, Speaks))
        scratch = tempfile.mkdtemp(prefix="fleet-question-")
        found, exit = Outcome(kind="unknown", reason="it could not be asked"), Exit(code=None)
        try:
            found, exit = self._ask(offer, question, scratch, mark, most)
        finally:
            self._planning.end(mark, self._provider, found, exit)
            shutil.rmtree(scratch, ignore_errors=True)
        self.usage = added(self.usage, found.usage)
        if found.kind != "done" or not found.result.strip():
            what = found.reason or "it said nothing"
            raise FleetError("unavailable", f"{self._provider} gave no answer: {found.kind}: {what}", hint=_HINT)
        return found.result

    def _ask(self, offer: Offer[Provider], question: str, scratch: str, mark: str, most: float) -> tuple[Outcome, Exit]:
        env = {name: value for name, value in self._environ.items() if not name.startswith("FLEET_")}
        more = self._planning.variables() if isinstance(offer.thing, Speaks) else {}
        place = os.path.join(scratch, "place")
        os.mkdir(place)
        job = Job(
            task=Task(id="t0", target="answer a question", model=self._model),
            worker="question",
            prompt=question,
            nonce=secrets.token_hex(8),
            cwd=place,
            env={**env, "FLEET_RUN": mark, "FLEET_WORKER": mark, **more},
            scratch=scratch,
        )
        launch = self._plugins.ask(offer, lambda provider: provider.launch(job))
        log = os.path.join(scratch, "said.log")
        watch = _Watch(self._plugins.ask(offer, lambda provider: provider.reader(job)), log, self._planning.table, most)
        exit = self._run(launch, mark, scratch, log, watch)
        return self._plugins.ask(offer, lambda provider: _judged(provider.reader(job), log, exit)), exit

    def _run(self, launch: Launch, mark: str, scratch: str, log: str, watch: _Watch) -> Exit:
        told = os.path.join(scratch, "told")
        with open(told, "wb") as file:
            file.write(launch.stdin)
        began = time.monotonic()
        try:
            with open(told, "rb") as source, open(log, "wb") as output:
                child = subprocess.Popen(
                    launch.argv,
                    cwd=launch.cwd,
                    env=dict(launch.env),
                    stdin=source,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        except OSError as error:
            raise FleetError("unusable", f"{self._provider} cannot be started: {error.strerror}", hint=_HINT) from None
        code: int | None = None
        try:
            while code is None and time.monotonic() - began < self._timeout and not watch.is_passed():
                with suppress(subprocess.TimeoutExpired):
                    code = child.wait(_LOOK)
        finally:
            process.stop_tree("", mark, 0 if code is not None else _GRACE)
            child.wait()
        seconds = time.monotonic() - began
        if code is None:
            why = f"it may cost {dollars(watch.most)} and has cost more" if watch.passed else ""
            return Exit(code=None, cause="stopped" if why else "timeout", seconds=seconds, note=why)
        return Exit(code=code, seconds=seconds) if code >= 0 else Exit(code=None, signal=-code, seconds=seconds)


class _Watch:
    """What a question costs while it is answered."""

    def __init__(self, reader: Reader, log: str, table: Table, most: float) -> None:
        self.most = most
        self.passed = False
        self._reader = reader
        self._log = log
        self._meter = Meter(table)
        self._at = 0

    def is_passed(self) -> bool:
        """Whether what it has said by now is more than it may cost."""
        if self.most == EVERYTHING:
            return False
        with open(self._log, "rb") as file:
            file.seek(self._at)
            piece = file.read(_MOST_OUTPUT)
        whole = piece.rpartition(b"\n")[0]
        self._at += len(whole) + (1 if whole else 0)
        for line in whole.decode("utf-8", "replace").splitlines():
            for event in self._reader.feed(line):
                if event.usage is not None:
                    self._meter.feed(event.usage, time.time())
        self.passed = self._meter.money.known > self.most
        return self.passed


def _judged(reader: Reader, log: str, exit: Exit) -> Outcome:
    with open(log, encoding="utf-8", errors="replace") as file:
        for line in file.read(_MOST_OUTPUT).splitlines():
            for _ in reader.feed(line):
                pass
    return reader.outcome(exit)


def added(one: Usage, other: Usage) -> Usage:
    """Both together."""
    sums = {name: getattr(one, name) + getattr(other, name) for name in COUNTS}
    money = None if one.money is None and other.money is None else (one.money or 0.0) + (other.money or 0.0)
    return replace(other, **sums, money=money, models=tuple(dict.fromkeys((*one.models, *other.models))))
