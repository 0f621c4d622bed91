"""Putting together what a deployment came to: duplicates linked, a verdict, and the report in three forms beside it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from agent_fleet.aggregate.arbitration import Arbiter
from agent_fleet.aggregate.outputs import from_json
from agent_fleet.aggregate.pipeline import Settings, aggregate
from agent_fleet.aggregate.report import Report
from agent_fleet.aggregate.sheets import write_html, write_json, write_markdown
from agent_fleet.aggregate.verification import Terms
from agent_fleet.deploy import harvest
from agent_fleet.deploy.checking import Bench
from agent_fleet.deploy.comparison import Comparison
from agent_fleet.deploy.coverage import Fate, Given
from agent_fleet.deploy.orders import FOLDER
from agent_fleet.deploy.record import Deployment
from agent_fleet.queue.files import drop_draft, sync_directory
from agent_fleet.queue.store import Queue
from agent_fleet.text import line

_LONGEST = 200  # characters of an item that a report shows
_FORMS: tuple[tuple[str, Callable[[Report, TextIO], None]], ...] = (
    ("report.json", write_json),
    ("report.md", write_markdown),
    ("report.html", write_html),
)


def assemble(
    deployment: Deployment,
    found: Sequence[Fate],
    given: Sequence[Given],
    by: Comparison,
    arbiter: Arbiter | None = None,
) -> Report:
    """The report of all that has a fate by now. What was answered was held to the contract when it was read."""
    second = deployment.second
    inputs = {item.id: item.value for item in deployment.items}
    settings = Settings(
        title=f"{deployment.id}: {line(deployment.instruction, 100)}",
        bounds=by.bounds,
        least_coverage=deployment.settings.coverage,
        terms=second.terms if second else Terms(),
        name=lambda item: shown(inputs[item]),
    )
    bench = Bench(second, found, given) if second else None
    outputs = (from_json(row) for row in harvest.rows(deployment, found))
    asked = harvest.asked(deployment)
    return aggregate(outputs, {}, settings, asked=asked, embedder=by.embedder, checker=bench, arbiter=arbiter)


def shown(value: Any) -> str:
    """What an item is, in one line for a person."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return line(text, _LONGEST)


def keep(queue: Queue, deployment: Deployment, report: Report) -> list[str]:
    """Write the report in every form, each whole or not at all; their paths. Raises OSError."""
    place = queue.path(FOLDER, deployment.id)
    paths = []
    for name, write in _FORMS:
        path = os.path.join(place, name)
        draft = os.path.join(place, f".tmp-{os.getpid()}-{time.monotonic_ns()}")  # others may write the same one now
        try:
            with open(draft, "x", encoding="utf-8", errors="backslashreplace") as file:
                write(report, file)
            os.replace(draft, path)
        except BaseException:
            drop_draft(draft)
            raise
        paths.append(path)
    sync_directory(place)
    return paths
