"""`from agent_fleet import Fleet`: the phases by themselves, awaited, swapped, and as the parallel step of a graph."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agent_fleet
from agent_fleet.deploy.coverage import Fate
from agent_fleet.deploy.values import Goal, Scope, Split
from agent_fleet.errors import FleetError
from agent_fleet.library import Fleet, Found
from support.deployments import hired, worked
from support.procs import wait_until
from support.runs import Site

FIGURES = ("agents", "tokens", "turns", "seconds", "money", "redispatch", "escalate", "coverage")
URLS = [f"https://site.example/{n}" for n in range(6)]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    site = hired(Site(tmp_path))
    for name, value in site.environment().items():
        monkeypatch.setenv(name, value)
    yield site
    assert site.alive() == []


class ByLength:
    """A decomposer that no distribution brings."""

    name = "by-length"

    def usable(self) -> str | None:
        return None

    def decompose(self, goal: Goal) -> Split:
        groups: dict[int, list[str]] = {}
        for item in goal.items:
            groups.setdefault(len(item.value), []).append(item.id)
        return Split(scopes=tuple(Scope(items=tuple(ids)) for ids in groups.values()))


def test_importing_the_package_loads_nothing_of_it() -> None:
    code = (
        "import agent_fleet, sys; print(sorted(m for m in sys.modules if m.startswith('agent_fleet') or m == 'click'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['agent_fleet']"
    assert agent_fleet.Fleet is Fleet
    with pytest.raises(AttributeError):
        agent_fleet.Nothing  # noqa: B018


def test_each_phase_is_called_by_itself(site: Site) -> None:
    fleet = Fleet(site.root)
    job = fleet.decompose("Read it", inputs=URLS, agents=3)
    assert len(job.scopes) == 3
    assert not (site.dir / "deployments").exists(), "to take a job apart keeps nothing"

    found = fleet.dispatch(job, force=True, stagger=0)
    assert found.values == [url[::-1] for url in URLS]
    assert str(found.coverage) == "6 of 6 items answered"
    assert fleet.aggregate(found.run, by=lambda each: len(each.values)) == 6
    assert fleet.dispatch(found.run, force=True).values == found.values
    assert set(worked(site).values()) == {1}


def test_a_decomposer_of_the_program_s_own_is_held_to_the_same_proof(site: Site) -> None:
    fleet = Fleet(site.root)
    assert [scope.items for scope in fleet.decompose("x", inputs=["a", "bb", "c"], by=ByLength()).scopes] == [
        ("i1", "i3"),
        ("i2",),
    ]

    class Forgets(ByLength):
        def decompose(self, goal: Goal) -> Split:
            return Split(scopes=super().decompose(goal).scopes[1:])

    with pytest.raises(FleetError, match="left items out: i1"):
        fleet.decompose("x", inputs=["a", "bb"], by=Forgets())


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"inputs": [object()]}, "bad_input"),
        ({"inputs": [float("nan")]}, "bad_input"),
        ({"inputs": []}, "bad_input"),
        ({"inputs": ["a"], "contract": {"type": 7}}, "bad_input"),
        ({"inputs": ["a"], "nosuch": 1}, "bad_input"),
        ({"inputs": ["a"], "model": 7}, "bad_input"),
        ({"inputs": ["a"], "lane": "nosuch"}, "unknown_plugin"),
        ({"inputs": ["a"], "verify": {"lane": "nosuch"}}, "unknown_plugin"),
        ({"inputs": ["a"], "money": -1}, "bad_input"),
        ({"inputs": ["a"], "money": 10**400}, "bad_input"),
        ({"inputs": ["a"], "money": True}, "bad_input"),
        *(({"inputs": ["a"], name: float("nan")}, "bad_input") for name in FIGURES),
        *(({"inputs": ["a"], name: "3"}, "bad_input") for name in FIGURES),
        *(({"inputs": ["a"], name: -1}, "bad_input") for name in FIGURES),
        *(({"inputs": ["a"], name: 1.5}, "bad_input") for name in FIGURES if name not in ("seconds", "money")),
        ({"inputs": ["a"], "agents": 0}, "bad_input"),
        ({"inputs": ["a"], "redispatch": 21}, "bad_input"),
        ({"inputs": ["a"], "coverage": 2}, "bad_input"),
        ({"inputs": ["a"], "agents": 0}, "bad_input"),
        ({"inputs": ["a"], "agents": 2.5}, "bad_input"),
        ({"inputs": ["a"], "parts": -1}, "bad_input"),
        ({"inputs": ["a"], "depth": 9}, "bad_input"),
        ({"inputs": ["a"], "redispatch": 21}, "bad_input"),
        ({"inputs": ["a"], "seconds": float("inf")}, "bad_input"),
    ],
)
def test_what_cannot_be_worked_is_refused_before_anything_is_kept(
    site: Site, options: dict[str, Any], code: str
) -> None:
    with pytest.raises(FleetError) as caught:
        Fleet(site.root).decompose("x", **options)
    assert caught.value.code == code
    with pytest.raises(FleetError) as caught:
        Fleet(site.root).dispatch("d9")
    assert caught.value.code == "not_found"


def test_work_that_is_cancelled_is_stopped_and_goes_on_later(site: Site) -> None:
    hired(site, 0.3)
    fleet = Fleet(site.root)
    job = fleet.decompose("Read it", inputs=URLS, agents=1, parts=6)

    async def impatient() -> None:
        work = asyncio.create_task(fleet.adispatch(job, force=True, stagger=0))
        await asyncio.to_thread(wait_until, lambda: any(site.dir.glob("done/*/*.json")), "something is done")
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(impatient())
    assert site.alive() == []
    assert fleet.found("d1").coverage.answered < len(URLS)
    assert fleet.dispatch("d1", force=True, stagger=0).values == [url[::-1] for url in URLS]


def test_waiting_where_an_event_loop_runs_is_refused_in_a_sentence(site: Site) -> None:
    async def notebook() -> None:
        with pytest.raises(FleetError, match="event loop") as caught:
            Fleet(site.root).dispatch("d1")
        assert "await" in (caught.value.hint or "")

    asyncio.run(notebook())


GRAPH = """
import asyncio, json, sys
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
from agent_fleet import Fleet

class State(TypedDict, total=False):
    urls: list
    pages: list
    words: str

graph = StateGraph(State)
graph.add_node("read", Fleet(sys.argv[1]).node("Read it", inputs="urls", output="pages", agents=2, force=True, stagger=0))
graph.add_node("tell", lambda state: {"words": f"{len(state['pages'])} pages"})
graph.add_edge(START, "read")
graph.add_edge("read", "tell")
graph.add_edge("tell", END)

asked = {"urls": ["one", "two", "three"]}
print(json.dumps(HOW))
"""


INVOKED, AWAITED = "graph.compile().invoke(asked)", "asyncio.run(graph.compile().ainvoke(asked))"


@pytest.mark.parametrize(("node", "how"), [("node", INVOKED), ("node", AWAITED), ("anode", AWAITED)])
def test_a_fleet_is_the_parallel_step_of_a_graph(site: Site, node: str, how: str) -> None:
    pytest.importorskip("langgraph")
    program = GRAPH.replace(".node(", f".{node}(").replace("HOW", how)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), str(site.root)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=site.environment(LANGSMITH_TRACING="false"),
    )
    assert done.returncode == 0, done.stderr
    assert '"words": "3 pages"' in done.stdout
    assert '"pages": ["eno", "owt", "eerht"]' in done.stdout


def test_what_became_of_an_item_says_who_worked_on_it(site: Site) -> None:
    def who(found: Found) -> list[Fate]:
        return [fate for fate in found.items if fate.provider == "clerk" and fate.task]

    fleet = Fleet(site.root)
    assert (
        len(fleet.aggregate(fleet.dispatch(fleet.decompose("x", inputs=["a", "b"]), force=True, stagger=0), by=who))
        == 2
    )
