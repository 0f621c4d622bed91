"""Tiers: what a cheaper one was not able to answer goes up, once and no further than allowed; a cheap model judges parts."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.deploy.answers import Answer
from agent_fleet.deploy.coverage import Given
from agent_fleet.deploy.difficulty import judged
from agent_fleet.deploy.escalation import raised
from agent_fleet.deploy.record import Deployment, Settings
from agent_fleet.deploy.values import Item, Scope
from agent_fleet.errors import FleetError
from agent_fleet.routing import Tier
from support import clerk
from support.api_lab import MODEL, Lab, serving
from support.runs import Site

ROOM = ("--force", "--stagger", "0")
JUDGE = """
import json, os, sys
asked = sys.stdin.read()
os.write(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_APPEND), b"asked\\n")
parts = [json.loads(line) for line in asked.splitlines() if line.startswith('{"part"')]
print(json.dumps({"tiers": {str(part["part"]): "large" if "hard" in part["first"][0] else "huge" for part in parts}}))
"""


def agent(site: Site, name: str, *words: str) -> str:
    argv = [sys.executable, "-I", "-S", str(clerk.__file__), str(site.root.parent / name), "0", *words]
    return f"[agents.{name}]\nargv = {json.dumps(argv)}\n"


def tiered(site: Site, more: str = "", config: str = "") -> Site:
    tiers = '[tiers.small]\nlevel = 1\nprovider = "novice"\n[tiers.large]\nlevel = 2\nprovider = "expert"\n'
    who = agent(site, "novice") + agent(site, "expert", "able")
    site.configure(f'[providers]\ndefault = "novice"\n[deploy]\ntier = "small"\n{config}{who}{tiers}{more}')
    return site


def worked(site: Site, name: str) -> Counter[str]:
    file = site.root.parent / name
    return Counter(file.read_text().split()) if file.exists() else Counter()


def deploy(site: Site, lines: list[str], *options: str, status: int = 0) -> dict[str, Any]:
    arguments = ("deploy", "--task", "Turn it", "--inputs", "-", "--parts", str(len(lines)), *ROOM, *options)
    return site.json(*arguments, stdin="\n".join(lines).encode(), status=status)


def test_what_a_cheap_tier_cannot_answer_goes_up_and_nothing_else_does(tmp_path: Path) -> None:
    site = tiered(Site(tmp_path))
    lines = ["fine", "fail it", "lie once", "lose it", "skip it"]
    contract = tmp_path / "contract.json"
    contract.write_text('{"type": "string"}')
    told = deploy(site, lines, "--redispatch", "0", "--contract", str(contract), status=1)
    assert told["coverage"]["skipped"] == 1, "which is no answer"
    assert [item.get("value") for item in told["items"]] == ["enif", "ti liaf", "ecno eil", "ti esol", None]
    assert worked(site, "novice") == Counter({f"i{n}": 1 for n in range(1, 6)})
    assert worked(site, "expert") == Counter({"i2": 1, "i3": 1, "i4": 1})
    (step,) = told["escalated"]
    assert (step["from"], step["to"], step["items"], step["answered"]) == ("small", "large", 3, 3)
    orders = [json.loads(file.read_text()) for file in (site.dir / "deployments" / "d1" / "orders").glob("*.json")]
    assert Counter((order["tier"], order["climb"]) for order in orders) == {("small", 0): 5, ("large", 1): 3}
    assert "from tier small to large: 3 items, 3 answered there" in site.fleet("report", "d1").out
    site.json("resume-run", "d1", *ROOM, status=1)
    assert sum(worked(site, "expert").values()) == 3, "nothing goes up twice"


def test_nothing_goes_up_where_that_is_switched_off_or_the_model_is_named(tmp_path: Path) -> None:
    site = tiered(Site(tmp_path))
    assert deploy(site, ["fail it"], "--escalate", "0", status=1)["escalated"] == []
    assert deploy(site, ["fail it"], "--provider", "novice", status=1)["escalated"] == []
    assert not worked(site, "expert")


DEPLOYMENT = Deployment(
    id="d1",
    instruction="",
    decomposer="items",
    source="",
    digest="",
    items=(Item(id="i1", value=1), Item(id="i2", value=2)),
    scopes=(Scope(items=("i1", "i2"), tier="a"),),
    settings=Settings(redispatch=1, escalate=1),
    tiers={name: {"provider": "", "model": name} for name in "abc"},
)


def ended(outcome: str, *answers: Answer, state: str = "failed", **order: Any) -> Given:
    (first,) = DEPLOYMENT.orders()
    return Given("t1", replace(first, **order), state, {each.item: each for each in answers}, {"outcome": outcome})


@pytest.mark.parametrize("outcome", ["crashed", "timeout", "limit", "overload", "auth", "budget", "refused", "unknown"])
def test_what_says_nothing_of_the_model_sends_nothing_up(outcome: str) -> None:
    assert raised(DEPLOYMENT, ended(outcome, round=1)) is None


def test_own_words_go_up_at_once_and_missing_answers_after_the_last_round() -> None:
    own = Answer(item="i1", kind="failed", fault="unreachable")
    first = raised(DEPLOYMENT, ended("done", own, state="done"))
    assert first is not None
    assert [item.id for item in first.items] == ["i1"]
    assert (first.tier, first.climb, first.round, first.of) == ("b", 1, 0, "t1")
    last = raised(DEPLOYMENT, ended("done", own, state="done", round=1))
    assert last is not None
    assert [item.id for item in last.items] == ["i1", "i2"]
    assert raised(DEPLOYMENT, ended("failed")) is not None
    assert raised(DEPLOYMENT, ended("failed", state="blocked")) is None
    assert raised(DEPLOYMENT, ended("failed", tier="b", climb=1)) is None, "no further than allowed"
    assert raised(DEPLOYMENT, ended("failed", tier="c")) is None, "there is nothing above"


def test_a_cheap_model_judges_all_parts_by_one_question(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    argv = json.dumps([sys.executable, "-I", "-S", "-c", JUDGE, str(asked)])
    site = tiered(
        Site(tmp_path),
        f'[agents.judge]\nargv = {argv}\n[tiers.judge]\nlevel = 0\nprovider = "judge"\n',
        'judge = "judge"\n',
    )
    told = deploy(site, ["easy one", "hard one", "hard two"])
    assert asked.read_text() == "asked\n"
    assert worked(site, "expert") == Counter({"i2": 1, "i3": 1})
    assert worked(site, "novice") == Counter({"i1": 1})
    assert any("no valid tier was said for 1 part: tier small" in note for note in told["notes"])


def test_an_agent_over_an_api_can_judge_too(tmp_path: Path) -> None:
    tiers = '[tiers.small]\nlevel = 1\n[tiers.large]\nlevel = 2\nmodel = "claude-sonnet-4-5"\n'
    with serving() as server:
        lab = Lab(tmp_path, server, config=f'[deploy]\njudge = "small"\n{tiers}')
        told = deploy(lab, ["one", "two"])
        assert (told["notes"], told["coverage"]["answered"]) == ([], 2)
        assert server.count()["models"] == {MODEL: 1, "claude-sonnet-4-5": 2}


class Says:
    """A mind with one answer; none refuses."""

    def __init__(self, answer: str | None) -> None:
        self._answer = answer

    def answer(self, question: str) -> str:
        self.question = question
        if self._answer is None:
            raise FleetError("unavailable", "it said nothing")
        return self._answer


@pytest.mark.parametrize(
    ("answer", "tiers"),
    [
        ('so: {"tiers": {"1": "b", "2": "a"}}', ["b", "a", "c"]),
        ('{"tiers": {"1": "zz", "9": "b", "x": "b", "3": "a"}}', ["a", "a", "c"]),
        ('{"tiers": ["b"]}', ["a", "a", "c"]),
        ("b", ["a", "a", "c"]),
        (None, ["a", "a", "c"]),
    ],
)
def test_a_judgement_is_held_to_the_tiers_that_there_are(answer: str | None, tiers: list[str]) -> None:
    mind = Says(answer)
    scopes = [Scope(items=("i1",)), Scope(items=("i2",)), Scope(items=("i3",), tier="c")]
    items = [Item(id=f"i{n}", value=f"say {n}") for n in range(1, 4)]
    found, notes = judged(mind, [Tier("a", 1), Tier("b", 2), Tier("c", 3)], "do it", scopes, items, "a")
    assert [scope.tier for scope in found] == tiers
    assert bool(notes) == (tiers[0] == "a")
    assert '"part": 3' not in mind.question
