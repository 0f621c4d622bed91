"""Workers that a person can watch and type into: one terminal each, of the editor, of a terminal emulator, or of tmux."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from agent_fleet.api import (
    Config,
    Finding,
    FleetError,
    Lane,
    Launch,
    Worker,
    hookimpl,
    identity_of,
    is_alive,
    stop_tree,
)
from agent_fleet_lanes._editor import Editor
from agent_fleet_lanes._form import Form
from agent_fleet_lanes._tmux import Tmux
from agent_fleet_lanes._windows import Windows


class Terminal:
    """The first form that works, or the one that `terminal.form` names."""

    name = "terminal"
    limit: int | None = None
    foreground = False
    seats = 1
    terminal = True

    def __init__(self, config: Config) -> None:
        environ = dict(os.environ)
        self._wanted = config.get("terminal.form")
        self._forms: tuple[Form, ...] = (
            Editor(config.root, config.queue_dir, environ, is_asked_for=self._wanted == "editor"),
            Windows(environ),
            Tmux(config.queue_dir, environ),
        )
        self._failed: dict[str, str] = {}

    def usable(self) -> str | None:
        if os.name != "posix":
            return "it needs Linux or macOS"
        troubles = []
        for form in reversed(self._candidates()):  # the last one is asked fastest
            why = self._obstacle(form)
            if not why:
                return None
            troubles.append(f"{form.name}: {why}")
        return "; ".join(reversed(troubles))

    def form(self) -> str:
        """Where a worker would be started now, and why not elsewhere."""
        rejected = [] if self._wanted == "auto" else [f"terminal.form is {self._wanted}"]
        for form in self._candidates():
            why = self._obstacle(form)
            if not why:
                return "; ".join([form.where(), *rejected])
            rejected.append(f"not {form.name}: {why}")
        return "; ".join(rejected)

    def start(self, launch: Launch) -> Worker:
        pid = self._start(launch)
        try:
            identity = identity_of(pid)
        except FleetError:
            raise FleetError("unavailable", "its window closed as soon as it was open", hint="try again") from None
        mark = launch.env.get("FLEET_WORKER", "")
        return Worker(id=launch.worker, lane=self.name, pid=pid, identity=identity, handle=mark)

    def alive(self, worker: Worker) -> bool | None:
        return is_alive(worker.identity)

    def stop(self, worker: Worker, grace: float) -> bool:
        return stop_tree(worker.identity, worker.handle, grace)

    def show(self, worker: Worker) -> str | None:
        """Ask every form, since a worker may have been started in another one than would be used now."""
        troubles = []
        for form in reversed(self._forms):
            why = form.show(worker)
            if why is None:
                return None
            troubles.append(f"{form.name}: {why}")
        return "; ".join(troubles)

    def clean(self, root: str) -> Iterator[Finding]:
        for form in self._forms:
            yield from form.clean(root)

    def _candidates(self) -> list[Form]:
        return [form for form in self._forms if self._wanted in ("auto", form.name)]

    def _obstacle(self, form: Form) -> str:
        return form.obstacle() or self._failed.get(form.name, "")

    def _start(self, launch: Launch) -> int:
        """Start it in the first form that works; one that does not work after all is not tried again by this process."""
        last = FleetError("unavailable", self.usable() or "no form of it works", hint="`fleet plan` says why")
        for form in self._candidates():
            if self._obstacle(form):
                continue
            try:
                return form.start(launch)
            except FleetError as error:
                if error.code not in ("unavailable", "busy"):
                    raise
                last = error
                self._failed[form.name] = error.message
        self._failed.clear()
        raise last


@hookimpl
def fleet_lanes(config: Config) -> Iterable[Lane]:
    yield Terminal(config)
