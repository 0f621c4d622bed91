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
