"""One question to a model, by way of a provider's own program: started, read to its end, and ended with all that it started."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace

from agent_fleet import process
from agent_fleet.errors import FleetError
from agent_fleet.model import Exit, Job, Launch, Outcome, Task, Usage
from agent_fleet.plugins import PROVIDERS, Offer, Plugins
from agent_fleet.prices import COUNTS
from agent_fleet.protocols import Provider, Reader

_MOST_OUTPUT = 64 << 20
_GRACE = 5.0
_HINT = "try again, choose another with --provider, or use --decompose items"


class Unasked:
    """A mind that nobody asks: for an estimate, which starts nothing."""

    usage = Usage()

    def answer(self, _question: str) -> str:
        """Raises `refused`."""
        raise FleetError("refused", "an estimate asks no model", hint="leave --estimate out, or use --decompose items")


class Asked:
    """A provider as a mind. `usage` is what all questions have used; nothing is started before the first one.

    It works in an empty directory of its own, so it has nothing to read but the question.
    """

    def __init__(
        self, plugins: Plugins, provider: str, environ: Mapping[str, str], *, model: str = "", timeout: float = 600.0
    ) -> None:
        self.usage = Usage()
        self._plugins = plugins
        self._provider = provider
        self._environ = environ
        self._model = model
        self._timeout = timeout

    def answer(self, question: str) -> str:
        """What the model says. Raises `unavailable` if the provider comes to anything else, `unusable` if it cannot be started."""
        offer = self._plugins.offer(PROVIDERS, self._provider)
        trouble = self._plugins.ask(offer, lambda provider: provider.usable())
        if trouble:
            raise FleetError("unusable", f"provider {self._provider}: {trouble}", hint=_HINT)
        scratch = tempfile.mkdtemp(prefix="fleet-question-")
        try:
            found = self._ask(offer, question, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self.usage = added(self.usage, found.usage)
        if found.kind != "done" or not found.result.strip():
            what = found.reason or "it said nothing"
            raise FleetError("unavailable", f"{self._provider} gave no answer: {found.kind}: {what}", hint=_HINT)
        return found.result

    def _ask(self, offer: Offer[Provider], question: str, scratch: str) -> Outcome:
        mark = f"question-{secrets.token_hex(8)}"
        env = {name: value for name, value in self._environ.items() if not name.startswith("FLEET_")}
        place = os.path.join(scratch, "place")
        os.mkdir(place)
        job = Job(
            task=Task(id="t0", target="take a goal apart", model=self._model),
            worker="question",
            prompt=question,
            nonce=secrets.token_hex(8),
            cwd=place,
            env={**env, "FLEET_RUN": mark, "FLEET_WORKER": mark},
            scratch=scratch,
        )
        launch = self._plugins.ask(offer, lambda provider: provider.launch(job))
        log = os.path.join(scratch, "said.log")
        exit = self._run(launch, mark, scratch, log)
        return self._plugins.ask(offer, lambda provider: _judged(provider.reader(job), log, exit))

    def _run(self, launch: Launch, mark: str, scratch: str, log: str) -> Exit:
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
            code = child.wait(self._timeout)
        except subprocess.TimeoutExpired:
            pass
        finally:
            process.stop_tree("", mark, 0 if code is not None else _GRACE)
            child.wait()
        seconds = time.monotonic() - began
        if code is None:
            return Exit(code=None, cause="timeout", seconds=seconds)
        return Exit(code=code, seconds=seconds) if code >= 0 else Exit(code=None, signal=-code, seconds=seconds)


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
