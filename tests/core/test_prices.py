"""Prices: which model a name means, what a usage costs, and what stays unknown."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet import prices
from agent_fleet.errors import FleetError
from agent_fleet.model import Usage
from agent_fleet.prices import NOTHING, Meter, Money, cost_of, packaged, table_from, total, with_own

ROOT = Path(__file__).parents[2]
FILE = ROOT / "core" / "agent_fleet" / "data" / "prices.json"
MILLION = 1_000_000
COUNTS = st.integers(0, 50 * MILLION)
USAGES = st.builds(Usage, input=COUNTS, cache_write=COUNTS, cache_read=COUNTS, output=COUNTS, reasoning=COUNTS)


def row(*periods: dict[str, Any], vendor: str = "acme", aliases: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"vendor": vendor, "source": "", "aliases": list(aliases), "periods": list(periods)}


def small_table(**models: dict[str, Any]) -> prices.Table:
    return table_from({"date": "2026-06-01", "source": "a test", "prefixes": {"acme": "acme"}, "models": {**models}})


FLAT = {
    "valid_from": None,
    "rates": [{"input": 2, "output": 10, "cache_read": 0.2, "cache_write": 2.5, "cache_write_1h": 4}],
}


def test_every_class_of_tokens_has_a_price_of_its_own() -> None:
    table = small_table(m=row(FLAT))
    for used, dollars in (
        (Usage(input=MILLION), 2.0),
        (Usage(output=MILLION), 10.0),
        (Usage(reasoning=MILLION), 10.0),
        (Usage(cache_read=MILLION), 0.2),
        (Usage(cache_write=MILLION), 4.0),
    ):
        money = cost_of(used, table, models=["m"])
        assert money.amount == pytest.approx(dollars), used
    whole = cost_of(Usage(input=1, output=1, reasoning=1, cache_read=1, cache_write=1), table, models=["m"])
    assert whole.amount == pytest.approx(26.2 / MILLION)


def test_usage_that_is_nearly_all_cache_reads_is_not_cheap() -> None:
    money = cost_of(Usage(input=10, cache_read=40 * MILLION, output=10, models=("claude-opus-5-5",)), packaged())
    assert money.amount == pytest.approx(40 * 0.2, rel=0.01)


def test_how_long_the_cache_lives_is_not_reported_so_the_cost_of_writing_it_is_a_range() -> None:
    money = cost_of(Usage(cache_write=MILLION), small_table(m=row(FLAT)), models=["m"])
    assert [money.least, money.amount] == pytest.approx([2.5, 4.0])


def test_a_class_without_a_price_is_billed_as_input() -> None:
    table = small_table(m=row({"valid_from": None, "rates": [{"input": 3, "output": 9}]}))
    assert cost_of(Usage(cache_read=MILLION, cache_write=MILLION), table, models=["m"]).amount == pytest.approx(6.0)


def test_a_model_without_a_price_costs_an_unknown_amount_that_no_other_model_hides() -> None:
    for models in (["nosuch"], ["m", "nosuch"]):
        money = cost_of(Usage(input=5), small_table(m=row(FLAT)), models=models)
        assert money.amount is None
        assert money.basis == "no price is known for the model nosuch"
    assert cost_of(Usage(input=5), small_table()).amount is None


def test_no_usage_is_not_a_usage_of_nothing() -> None:
    assert cost_of(Usage(), packaged()).amount is None
    assert cost_of(Usage(turns=1, models=("m",)), packaged()).amount == 0


def test_what_the_agent_reported_wins_over_the_table() -> None:
    money = cost_of(Usage(input=MILLION, money=0.25, models=("nosuch",)), packaged())
    assert money == Money(known=0.25, least=0.25, bases=("reported by the agent",))


def test_the_basis_names_the_date_of_the_table() -> None:
    table = packaged()
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", table.date)
    assert cost_of(Usage(input=5, models=("claude-opus-5-5",)), table).basis == f"price table of {table.date}"


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("claude-opus-5-5", "claude-opus-5-5"),
        ("claude-opus-5-5-20261001", "claude-opus-5-5"),
        ("claude-opus-5-5@20261001", "claude-opus-5-5"),
        ("claude-opus-5-5[1m]", "claude-opus-5-5"),
        ("anthropic/claude-opus-5-5-20261001", "claude-opus-5-5"),
        ("Claude-Opus-5.5", "claude-opus-5-5"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4-0"),
        ("gpt-5.5-codex", "gpt-5.5"),
        ("openai/gpt-5.5-2026-04-23", "gpt-5.5"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("z-ai/glm-5.3", "glm-5.3"),
    ],
)
def test_a_known_spelling_is_found(name: str, model: str) -> None:
    found = packaged().find(name)
    assert found is not None
    assert found.model == model


@pytest.mark.parametrize(
    "name",
    [
        "",
        "opus",
        "claude-opus-5-50",
        "claude-opus-5-5-fast",
        "claude-opus-5-5-20261301",
        "claude-opus-5-5-2026",
        "openai/claude-opus-5-5",
        "router/anthropic/claude-opus-5-5",
        "gpt-5.5-codex-max",
        "my-claude-opus-5-5",
    ],
)
def test_a_name_that_is_only_like_a_known_one_has_no_price(name: str) -> None:
    assert packaged().find(name) is None


def test_every_model_is_found_by_each_of_its_names_and_no_alias_means_two() -> None:
    table = packaged()
    data = json.loads(FILE.read_text(encoding="utf-8"))
    assert 40 <= len(data["models"]) <= 80
    aliases = [alias for entry in data["models"].values() for alias in entry["aliases"]]
    assert len(aliases) == len(set(aliases))
    for name, entry in data["models"].items():
        for spelling in (name, *entry["aliases"]):
            found = table.find(spelling)
            assert found is not None
            assert found.model == name


def test_the_packaged_table_is_whole() -> None:
    data = json.loads(FILE.read_text(encoding="utf-8"))
    assert data["license"] == "MIT"
    assert "Pydantic Services" in " ".join(data["notice"])
    for name, entry in data["models"].items():
        assert entry["source"].startswith("https://"), name
        starts = [period["valid_from"] or "" for period in entry["periods"]]
        assert starts == sorted(starts), name
        for period in entry["periods"]:
            for rate in period["rates"]:
                assert 0 < rate["input"] <= rate["output"] <= 1000, name
                assert 0 <= rate.get("cache_read", 0) <= rate["input"], name
                assert rate.get("cache_write", 0) <= rate.get("cache_write_1h", 1000), name


def test_the_price_is_that_of_the_day_on_which_it_was_used() -> None:
    later = {"valid_from": "2026-07-01", "rates": [{"input": 1, "output": 1}]}
    table = small_table(m=row(FLAT, later))
    used = Usage(input=MILLION, models=("m",))
    assert cost_of(used, table).amount == pytest.approx(2.0)
    assert cost_of(used, table, at=1782863999.0).amount == pytest.approx(2.0)  # 2026-06-30 23:59:59 UTC
    assert cost_of(used, table, at=1782864000.0).amount == pytest.approx(1.0)
    assert cost_of(used, table, at=0.0).amount == pytest.approx(2.0)


LONG = {"valid_from": None, "rates": [{"input": 1, "output": 1}, {"above": 1000, "input": 5, "output": 2}]}


def test_a_dearer_rate_for_long_prompts_counts_where_a_prompt_can_have_been_that_long() -> None:
    table = small_table(m=row(LONG))
    short = cost_of(Usage(input=600, cache_read=400), table, models=["m"])
    assert short.least == short.amount == pytest.approx(1000 / MILLION)
    long = cost_of(Usage(input=601, cache_read=400), table, models=["m"])
    assert [long.least, long.amount] == pytest.approx([1001 / MILLION, 5005 / MILLION])


def test_the_meter_prices_short_requests_as_short_ones_however_many_there_are() -> None:
    table = small_table(m=row(LONG))
    meter = Meter(table)
    for request in range(1, 11):
        meter.feed(Usage(input=900 * request, turns=request, models=("m",)), 0.0)
    assert meter.money.amount == meter.money.least == pytest.approx(9000 / MILLION)
    assert meter.usage == Usage(input=9000, turns=10, models=("m",))


def test_the_meter_takes_the_agents_own_figure_and_counts_on_from_there() -> None:
    meter = Meter(small_table(m=row(FLAT)))
    meter.feed(Usage(input=MILLION, models=("m",), partial=True), 0.0)
    assert meter.money.amount == pytest.approx(2.0)
    meter.feed(Usage(input=MILLION, money=0.5, models=("m",)), 0.0)
    assert meter.money.amount == pytest.approx(0.5)
    meter.feed(Usage(input=2 * MILLION, models=("m",), partial=True), 0.0)
    assert meter.money.amount == pytest.approx(2.5)


@settings(deadline=None)
@given(st.lists(USAGES, max_size=6))
def test_the_meter_never_takes_anything_back(totals: list[Usage]) -> None:
    meter = Meter(small_table(m=row(LONG)))
    before, tokens = 0.0, 0
    for used in totals:
        money = meter.feed(Usage(input=used.input, output=used.output, models=("m",)), 0.0)
        assert money.amount is not None
        assert money.amount >= before
        assert meter.usage.tokens >= tokens
        before, tokens = money.amount, meter.usage.tokens


@settings(deadline=None)
@given(USAGES, USAGES)
def test_more_usage_never_costs_less_and_the_least_is_never_above_the_most(one: Usage, more: Usage) -> None:
    table = packaged()
    names = ("input", "cache_write", "cache_read", "output", "reasoning")
    both = Usage(**{name: getattr(one, name) + getattr(more, name) for name in names})
    for model in ("claude-haiku-5-5", "gpt-5.5", "deepseek-v4-pro"):
        small, large = (cost_of(used, table, models=[model]) for used in (one, both))
        assert small.least <= small.known
        assert large.known >= small.known
        assert large.least >= small.least


def test_of_several_models_the_dearest_may_have_taken_every_token() -> None:
    table = small_table(m=row(FLAT), n=row({"valid_from": None, "rates": [{"input": 7, "output": 1}]}))
    money = cost_of(Usage(input=MILLION, output=MILLION), table, models=["m", "n"])
    assert [money.least, money.amount] == pytest.approx([3.0, 17.0])


def test_a_sum_is_unknown_as_soon_as_a_part_is_and_keeps_what_is_known() -> None:
    parts = [Money(known=1, least=1, bases=("a",)), Money(unknown=("x",)), Money(known=3, least=2, bases=("a", "b"))]
    assert total(parts) == Money(known=4, least=3, unknown=("x",), bases=("a", "b"))
    assert total(parts).amount is None
    assert total([]) == NOTHING
    assert NOTHING.amount == 0


def test_money_survives_its_record_and_a_damaged_record_is_no_money() -> None:
    money = Money(known=2.5, least=1, unknown=("x",), bases=("a",))
    assert prices.money_from(json.loads(json.dumps(money.as_record()))) == money
    for damaged in (None, 3, {}, {**money.as_record(), "known": "much"}, {**money.as_record(), "least": float("nan")}):
        assert prices.money_from(damaged) is None


def test_own_prices_lie_over_the_table_and_say_so() -> None:
    table = with_own(
        packaged(), {"Claude-Opus-5-5": {"input": 1, "output": 2}, "gpt-5.5-codex": {"input": 3, "output": 4}}
    )
    money = cost_of(Usage(input=MILLION, models=("claude-opus-5-5-20261001",)), table)
    assert money.amount == pytest.approx(1.0)
    assert money.basis == "prices of the configuration"
    assert cost_of(Usage(input=MILLION, models=("gpt-5.5-codex",)), table).amount == pytest.approx(3.0)
    assert cost_of(Usage(input=1000, models=("gpt-5.5",)), table).amount == pytest.approx(0.005)


@pytest.mark.parametrize(
    "own",
    [
        {"input": 1},
        {"output": 1},
        {"input": "1", "output": 2},
        {"input": -1, "output": 2},
        {"input": True, "output": 2},
        {"input": float("nan"), "output": 2},
        {"input": float("inf"), "output": 2},
        {"input": 1, "output": 2, "cached": 1},
    ],
)
def test_own_prices_that_are_none_are_refused_with_the_model_named(own: dict[str, Any]) -> None:
    with pytest.raises(FleetError, match=r'prices\."m"') as refusal:
        with_own(packaged(), {"m": own})
    assert refusal.value.code == "bad_config"


@pytest.mark.slow
def test_the_table_is_in_the_wheel(tmp_path: Path) -> None:
    code = f"from hatchling.builders.wheel import WheelBuilder as W; print(*W({str(ROOT)!r}).build(directory={str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        assert files.read("agent_fleet/data/prices.json") == FILE.read_bytes()
