"""Whether the worker protocol that agents' programs know is the one of this version."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from agent_fleet.api import Check, Config, Finding, hookimpl, skill_places


class Skills:
    """Looks where `fleet install-skill` writes, for this environment and home."""

    name = "skills"

    def __init__(self, environ: Mapping[str, str] | None = None, home: str | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._home = os.path.expanduser("~") if home is None else home

    def run(self, root: str) -> Iterable[Finding]:
        """A finding for each place that has an installation; one that says so if there is none."""
        found = False
        for (program, scope), place in skill_places(self._environ, self._home, root).items():
            left = place.left()
            if left is None:
                continue
            found = True
            standings = {name: place.standing(name) for name in place.files}
            again = f"`fleet install-skill --{program} --scope {scope}`"
            changed = [name for name, standing in standings.items() if standing == "foreign"]
            if changed:
                text = f"{place.label}: somebody changed {', '.join(changed)}"
                yield Finding(level="warning", text=text, hint=f"keep it, or write it anew with {again} --force")
            elif any(standing != "current" for standing in standings.values()):
                text = f"{place.label}: the worker protocol is not that of this version (written by {left.version})"
                yield Finding(level="warning", text=text, hint=f"renew it with {again}")
            else:
                yield Finding(level="ok", text=f"{place.label}: the worker protocol is that of this version")
        if not found:
            yield Finding(level="ok", text="no agent's program was taught the worker protocol")

    def clean(self, root: str) -> Iterable[Finding]:
        """Name what is installed in the project. It stays: sessions of the person's use it, and only they know for how long."""
        for (program, scope), place in skill_places(self._environ, self._home, root).items():
            if scope == "project" and place.left() is not None:
                yield Finding(
                    level="ok",
                    text=f"{place.label}: the worker protocol was left, as your sessions use it",
                    hint=f"`fleet install-skill --remove --{program} --scope project` takes it away",
                )


@hookimpl
def fleet_checks(config: Config) -> Iterable[Check]:
    del config
    yield Skills()
