"""`fleet cost`: the figures, where they come from, and what is said about what is not known."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

import pytest

from agent_fleet import prices
from agent_fleet.commands.cost import money_text, since_time
from agent_fleet.errors import FleetError
from agent_fleet.model import Usage
from agent_fleet.prices import Money
from support.project import Project

NOW = time.time()
OPUS = Usage(input=1000, cache_read=2_000_000, output=3000, turns=12, models=("claude-opus-5-5",))


def tell(
    project: Project,
    task: str,
    used: Usage,
    *,
    run: str = "r1",
    provider: str = "claude",
    outcome: str = "done",
    at: float = NOW,
    **more: Any,
) -> None:
    """The lines that an attempt leaves in the journal, as `fleet run` writes them."""
    key = {"task": task, "gen": 1, "at": at, "provider": provider}
    told = {
        "event": "finished",
        **key,
        "to": "done",
        "outcome": outcome,
        "charged": False,
        "usage": asdict(used),
        **more,
    }
    with open(project.dir / "journal.jsonl", "a", encoding="utf-8") as file:
        for line in ({"event": "started", **key, "run": run, "lane": "headless"}, told):
            file.write(json.dumps(line) + "\n")


def test_nothing_spent_is_said_so_with_the_date_of_the_prices(project: Project) -> None:
    out = project.fleet("cost").out
    assert "nothing was spent" in out
    assert f"table of {prices.packaged().date}" in out
    data = project.json("cost")
    assert (data["rows"], data["total"]["attempts"], data["total"]["money"]["amount"]) == ([], 0, 0)


def test_every_class_of_tokens_is_shown_with_the_money_and_its_basis(project: Project) -> None:
    tell(project, "t1", OPUS)
    tell(project, "t2", Usage(input=10, reasoning=4, cache_write=6, money=0.25, models=("claude-opus-5-5",)))
    data = project.json("cost")
    (row,) = data["rows"]
    assert row["key"] == "claude"
    assert row["tokens"] == {
        "input": 1010,
        "cache_write": 6,
        "cache_read": 2_000_000,
        "output": 3000,
        "reasoning": 4,
        "total": 2_004_020,
    }
    assert row["turns"] == 12
    date = prices.packaged().date
    assert row["money"]["amount"] == pytest.approx(0.25 + 0.004 + 0.4 + 0.06)
    assert row["money"]["bases"] == [f"price table of {date}", "reported by the agent"]
    assert data["prices"]["date"] == date
    out = project.fleet("cost").out
    assert "$0.7140" in out
    assert f"money: price table of {date}; reported by the agent" in out


def test_an_unknown_price_is_shown_as_unknown_in_its_row_and_in_the_total(project: Project) -> None:
    tell(project, "t1", OPUS)
    tell(project, "t2", Usage(input=10, models=("nosuch",)))
    data = project.json("cost", "--by", "model")
    amounts = {row["key"]: row["money"]["amount"] for row in data["rows"]}
    assert amounts == {"claude-opus-5-5": pytest.approx(0.464), "nosuch": None}
    assert data["total"]["money"]["amount"] is None
    assert data["total"]["money"]["known"] == pytest.approx(0.464)
    out = project.fleet("cost", "--by", "model").out
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert rows["nosuch"].endswith("  unknown")
    assert rows["total"].endswith("unknown beyond $0.4640")
    assert "no price is known for the model nosuch" in out


def test_a_price_of_the_configuration_makes_it_known(project: Project) -> None:
    (project.dir / "config.toml").write_text('[prices."nosuch"]\ninput = 2\noutput = 4\n', encoding="utf-8")
    tell(project, "t1", Usage(input=500_000, models=("nosuch",)))
    money = project.json("cost")["total"]["money"]
    assert (money["amount"], money["bases"]) == (1.0, ["prices of the configuration"])


def test_attempts_that_nobody_was_charged_for_are_in_the_figures(project: Project) -> None:
    tell(project, "t1", OPUS, outcome="limit")
    tell(project, "t2", OPUS)
    total = project.json("cost")["total"]
    assert (total["attempts"], total["not_charged"], total["tokens"]["output"]) == (2, 1, 6000)
    assert "1 attempt charged to no task" in project.fleet("cost").out


def test_partial_and_silent_attempts_are_marked(project: Project) -> None:
    tell(project, "t1", Usage(input=10, output=1, models=("claude-opus-5-5",), partial=True))
    tell(project, "t2", Usage(), provider="command")
    data = project.json("cost")
    assert [(row["key"], row["partial"], row["silent"]) for row in data["rows"]] == [
        ("claude", 1, 0),
        ("command", 0, 1),
    ]
    assert data["rows"][1]["money"]["amount"] is None
    out = project.fleet("cost").out
    assert "10+" in out
    assert "partial: 1 attempt" in out
    assert "not counted: 1 attempt" in out


@pytest.mark.parametrize("by", ["task", "run", "provider", "model", "day"])
def test_the_rows_add_up_to_the_total_however_they_are_cut(project: Project, by: str) -> None:
    for number in range(1, 13):
        tell(project, f"t{number}", OPUS, run=f"r{number % 3}", at=NOW - 86400.0 * number)
    data = project.json("cost", "--by", by)
    assert sum(row["tokens"]["total"] for row in data["rows"]) == data["total"]["tokens"]["total"] == 12 * OPUS.tokens
    assert len(data["rows"]) == {"task": 12, "run": 3, "provider": 1, "model": 1, "day": 12}[by]
    if by == "task":
        assert [row["key"] for row in data["rows"]] == [f"t{number}" for number in range(1, 13)]


def test_one_run_and_one_span_of_time_can_be_asked_for(project: Project) -> None:
    tell(project, "t1", OPUS, run="r1", at=NOW - 3 * 86400)
    tell(project, "t2", OPUS, run="r2", at=NOW - 60)
    assert project.json("cost", "--run", "r1")["total"]["attempts"] == 1
    assert project.json("cost", "--since", "24h")["total"]["attempts"] == 1
    assert project.json("cost", "--since", "7d")["total"]["attempts"] == 2
    assert project.json("cost", "--run", "r1", "--since", "24h")["total"]["attempts"] == 0
    assert "this machine's zone" in project.fleet("cost", "--since", "24h").out


def test_a_run_that_is_not_there_and_a_time_that_is_none_are_refused(project: Project) -> None:
    assert project.json("cost", "--run", "r9", status=4)["code"] == "not_found"
    assert project.json("cost", "--run", "../x", status=4)["code"] == "not_found"
    assert project.json("cost", "--run", "d9", status=4)["code"] == "not_found"
    for text in ("soon", "24", "2026-13-01", "-1h", "9" * 30 + "h", "0000-01-01"):
        assert project.json("cost", "--since", text, status=2)["code"] == "bad_input", text


def test_text_from_an_agent_cannot_drive_the_terminal(project: Project) -> None:
    tell(project, "t1", Usage(input=1, models=("evil\x1b[31m\nname",)), provider="p\x1b]0;x\x07")
    for by in ("model", "provider"):
        out = project.fleet("cost", "--by", by).out
        assert "\x1b" not in out
        assert "\x07" not in out


def test_what_is_still_running_is_named(project: Project) -> None:
    project.add("a task")
    project.json("claim", "somebody")
    assert project.json("cost")["running"] == 1
    assert "being worked on: 1 task" in project.fleet("cost").out


def test_since_understands_spans_and_dates() -> None:
    assert since_time("90m", 10_000.0) == 10_000.0 - 5400
    assert since_time("2w", 2e6) == 2e6 - 1209600
    assert time.localtime(since_time("2026-11-30", 0.0))[:6] == (2026, 11, 30, 0, 0, 0)
    with pytest.raises(FleetError):
        since_time("٣h", 0.0)


def test_an_amount_is_exact_or_between_bounds_or_unknown() -> None:
    assert money_text(Money(known=2, least=2)) == "$2.00"
    assert money_text(Money(known=2, least=1.5)) == "$1.50 to $2.00"
    assert money_text(Money(unknown=("x",))) == "unknown"
    assert money_text(Money(known=2, least=2, unknown=("x",))) == "unknown beyond $2.00"
