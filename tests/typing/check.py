"""Whether the project says how its tests are run."""

from __future__ import annotations

import os
from collections.abc import Iterable

from agent_fleet.api import Check, Finding, hookimpl


class Makefile:
    name = "makefile"

    def run(self, root: str) -> Iterable[Finding]:
        if os.path.exists(os.path.join(root, "Makefile")):
            yield Finding(level="ok", text="there is a Makefile")
        else:
            yield Finding(level="warning", text="there is no Makefile", hint="write one with a target `test`")


@hookimpl
def fleet_checks() -> Iterable[Check]:
    yield Makefile()
