"""A project whose deployments are worked by clerks, and what these have written down."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from support import clerk
from support.runs import Site


def hired(site: Site, seconds: float = 0.0) -> Site:
    """The project with clerks as its agents, each of whom takes so many seconds for a part."""
    argv = [sys.executable, "-I", "-S", str(clerk.__file__), str(ledger(site)), str(seconds)]
    site.configure(f'[providers]\ndefault = "clerk"\n[agents.clerk]\nargv = {json.dumps(argv)}\n')
    return site


def ledger(site: Site) -> Path:
    return site.root.parent / "ledger"


def worked(site: Site) -> Counter[str]:
    """How often each item was worked on, by the workers' own word."""
    return Counter(ledger(site).read_text().split())


def hire_scripted(site: Site, place: Path, program: str) -> dict[str, str]:
    """Make a Python program, which speaks as the scripted agent does, the provider of the project; returns the environment."""
    (place / "hired.py").write_text(
        "import sys\nfrom dataclasses import replace\n"
        "from agent_fleet.api import hookimpl\nfrom agent_fleet.testing.provider import Scripted\n"
        f"PROGRAM = {program!r}\n"
        "class Hired(Scripted):\n    name = 'hired'\n    def launch(self, job):\n"
        "        return replace(super().launch(job), argv=(sys.executable, '-I', '-S', '-c', PROGRAM))\n"
        "@hookimpl\ndef fleet_providers(config):\n    return [Hired({})]\n"
    )
    info = place / "hired-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hired\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[agent_fleet.providers]\nhired = hired\n")
    site.configure('[providers]\ndefault = "hired"\n')
    return {"PYTHONPATH": f"{place}:{site.environment()['PYTHONPATH']}"}
