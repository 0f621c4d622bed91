"""Whether the import packages and the commands are those of our own distribution.

Installers overwrite silently: another distribution with an import package or a script of the same name replaces files
of ours. Which files a distribution brought stands in its `RECORD`, and whether it is a checkout in `direct_url.json`
(packaging specifications, "Recording installed projects").
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import PathFinder
from urllib.parse import unquote, urlsplit

from agent_fleet.api import Check, Finding, hookimpl

OURS = "agent-fleet"
PACKAGES = (
    "agent_fleet",
    "agent_fleet_lanes",
    "agent_fleet_capacity",
    "agent_fleet_providers",
    "agent_fleet_policies",
    "agent_fleet_checks",
    "agent_fleet_embedders",
    "agent_fleet_decomposers",
)
SCRIPTS = ("fleet", "agent-fleet")


class Distribution:
    """Looks along `path`, this interpreter's module search path by default."""

    name = "distribution"

    def __init__(self, path: Sequence[str] | None = None) -> None:
        self._path = list(sys.path if path is None else path)

    def run(self, root: str) -> Iterable[Finding]:
        """One finding for each thing of ours that another distribution claims, and where ours comes from."""
        del root
        ours: list[importlib.metadata.Distribution] = []
        clashes: list[Finding] = []
        for found in importlib.metadata.distributions(path=self._path):
            name = _normal(found.metadata["Name"] or "")
            if name == OURS:
                ours.append(found)
            else:
                clashes += _clashes(found)
        yield from clashes
        yield from self._missing()
        yield self._source(ours)

    def _missing(self) -> Iterable[Finding]:
        for package in PACKAGES:
            if self._directory(package) is None:
                yield Finding(
                    level="fault", text=f"the package {package} cannot be found", hint="reinstall agent-fleet"
                )

    def _source(self, ours: list[importlib.metadata.Distribution]) -> Finding:
        directory = self._directory("agent_fleet")
        if not ours:
            return Finding(level="ok", text=f"agent_fleet runs from {directory}, which is not installed")
        version = ours[0].version
        homes = _homes(ours[0])
        if directory is None or not any(os.path.commonpath([home, directory]) == home for home in homes):
            hint = "unset PYTHONPATH, or reinstall agent-fleet in an environment of its own"
            return Finding(
                level="warning", text=f"agent_fleet comes from {directory}, not from {OURS} {version}", hint=hint
            )
        return Finding(level="ok", text=f"agent_fleet comes from {OURS} {version}")

    def _directory(self, package: str) -> str | None:
        spec = PathFinder.find_spec(package, self._path)
        return os.path.realpath(os.path.dirname(spec.origin)) if spec is not None and spec.origin else None


def _clashes(found: importlib.metadata.Distribution) -> Iterable[Finding]:
    label = f"{found.metadata['Name'] or 'a distribution without a name'} {found.metadata['Version'] or ''}".rstrip()
    hint = "install one of the two in an environment of its own (pipx, uv tool), then reinstall agent-fleet"
    tops = {file.parts[0] for file in found.files or () if len(file.parts) > 1}
    for package in PACKAGES:
        if package in tops:
            yield Finding(level="fault", text=f"{label} also brings the import package {package}", hint=hint)
    scripts = {point.name for point in found.entry_points if point.group == "console_scripts"}
    for script in SCRIPTS:
        if script in scripts:
            yield Finding(level="fault", text=f"{label} also brings the command {script}", hint=hint)


def _homes(found: importlib.metadata.Distribution) -> list[str]:
    """The directories that its modules may lie in: where it was installed, and its checkout if it is editable."""
    homes = [os.path.realpath(str(found.locate_file("")))]
    try:
        direct = json.loads(found.read_text("direct_url.json") or "{}")
        if direct.get("dir_info", {}).get("editable"):
            homes.append(os.path.realpath(unquote(urlsplit(direct["url"]).path)))
    except (ValueError, KeyError, AttributeError):
        pass  # a damaged record says nothing about a checkout
    return homes


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@hookimpl
def fleet_checks() -> Iterable[Check]:
    yield Distribution()
