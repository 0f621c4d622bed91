"""Many agents over an API in one process: every task is done once, and whatever ends the process, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api_lab import KEY, ApiServer, Lab, serving


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with serving() as found:
        yield found


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_two_hundred_agents_do_two_hundred_tasks_once(tmp_path: Path, server: ApiServer, provider: str) -> None:
    lab = Lab(tmp_path, server, provider=provider, config="[api]\nseats = 200\n")
    tasks = lab.batch([f"name={provider}{n}\nSLEEP 0.5\nSAY found {n}" for n in range(200)])
    lab.agents(200)
    assert lab.counts() == {"done": 200}
    asked = {name: n for name, n in server.count()["calls"].items() if name.startswith(provider)}
    assert asked == {f"{provider}{n}": 1 for n in range(200)}
    records = [lab.record(task) for task in tasks]
    assert [record["result"] for record in records] == [f"found {n}" for n in range(200)]
    usage = {"input": 100, "cache_write": 20, "cache_read": 300, "output": 10, "reasoning": 0}
    if provider == "openai":
        usage = {"input": 120, "cache_write": 0, "cache_read": 300, "output": 6, "reasoning": 4}
    assert all(usage.items() <= record["usage"].items() for record in records)
    cost = lab.json("cost")
    told = [file for file in lab.dir.rglob("*") if file.is_file() and file.name != "keeper.json"]
    assert [file for file in told if KEY in file.read_text("utf-8", "replace")] == []
    print(cost)
