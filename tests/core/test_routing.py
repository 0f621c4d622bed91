"""Where tasks go: by what is declared, judged or set, and one tier up when a model was not able to do it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.config import load
from agent_fleet.errors import FleetError
from agent_fleet.model import OutcomeKind
from agent_fleet.routing import UNABLE, Route, Tier, Tried, judgement, question, route, tiers

KNOWN = tiers(
    {
        "large": {"level": 3, "provider": "claude", "model": "big"},
        "small": {"level": 1, "provider": "anthropic", "model": "tiny", "for": "lookups"},
        "middle": {"level": 2, "model": "mid"},
    }
)
NAMES = ["small", "middle", "large"]


def going(**how: Any) -> Route:
    found = route(KNOWN, **how)
    assert found is not None
    return found


def test_tiers_come_from_the_configuration_the_cheapest_first(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[tiers.hard]\nlevel = 9\n[tiers.easy]\nlevel = -1\nmodel = "x"\nfor = "y"\n')
    config = load(str(tmp_path), queue_dir=str(tmp_path), environ={})
    assert config.warnings == ()
    assert tiers(config.tiers) == (Tier("easy", -1, "", "x", "y"), Tier("hard", 9))


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"a": {}}, "tiers.a.level is missing"),
        ({"a": {"level": "1"}}, "tiers.a.level is '1'"),
        ({"a": {"level": True}}, "tiers.a.level is True"),
        ({"a": {"level": 1, "modle": "x"}}, "tiers.a.modle means nothing"),
        ({"a": {"level": 1}, "b": {"level": 1}}, "tiers.b.level is that of tiers.a too"),
        ({"A b": {"level": 1}}, "is no name"),
    ],
)
def test_a_table_that_means_nothing_is_named(tables: dict[str, dict[str, Any]], said: str) -> None:
    with pytest.raises(FleetError, match=said) as raised:
        tiers(tables)
    assert raised.value.code == "bad_config" and raised.value.hint


def test_declared_comes_before_judged_before_the_default_before_the_cheapest() -> None:
    assert going() == Route(KNOWN[0], "default")
    assert going(default="middle") == Route(KNOWN[1], "default")
    assert going(default="middle", judged="large") == Route(KNOWN[2], "judged")
    assert going(default="middle", judged="large", declared="small") == Route(KNOWN[0], "declared")
    assert going(default="middle", judged="nonsense") == Route(KNOWN[1], "default")
    assert route(()) is None and route((), declared="x") is None


def test_names_that_do_not_exist_are_refused() -> None:
    for declared, default, code in (("huge", "", "bad_input"), ("", "huge", "bad_config")):
        with pytest.raises(FleetError) as raised:
            route(KNOWN, declared=declared, default=default)
        assert raised.value.code == code


def test_what_a_cheap_model_failed_goes_a_tier_up_and_a_limit_stays() -> None:
    assert going(tried=[Tried("small", "failed")]) == Route(KNOWN[1], "escalated")
    for kind in ("limit", "auth", "overload", "crashed", "timeout", "budget", "refused"):
        assert going(tried=[Tried("small", kind)]) == Route(KNOWN[0], "default")
    twice = [Tried("small", "failed"), Tried("middle", "failed"), Tried("large", "failed")]
    assert going(tried=twice) == Route(KNOWN[2], "escalated")
    assert going(tried=twice[:1], patience=2) == Route(KNOWN[0], "default")


ANY = st.lists(
    st.builds(
        Tried, st.sampled_from(["", "gone", *NAMES]), st.sampled_from(["done", "failed", "limit", "unknown", "crashed"])
    ),
    max_size=12,
)


@settings(deadline=None)
@given(st.sampled_from(["", *NAMES]), ANY, st.integers(1, 3))
def test_it_only_ever_goes_up_and_by_as_many_tiers_as_attempts_have_failed(
    declared: str, tried: list[Tried], patience: int
) -> None:
    places = [
        KNOWN.index(going(declared=declared, tried=tried[:n], patience=patience).tier) for n in range(len(tried) + 1)
    ]
    assert places == sorted(places)
    able: list[OutcomeKind] = [attempt.kind for attempt in tried if attempt.kind not in UNABLE]
    if len(able) == len(tried):
        assert len(set(places)) == 1
    honest: list[Tried] = []
    for attempt in tried:
        honest.append(Tried(going(declared=declared, tried=honest, patience=patience).tier.name, attempt.kind))
    failed = sum(attempt.kind in UNABLE for attempt in honest)
    end = KNOWN.index(going(declared=declared, tried=honest, patience=patience).tier)
    assert end == min(2, places[0] + failed // patience)


@pytest.mark.parametrize(
    ("answer", "tier"),
    [
        ('{"tier": "large"}', "large"),
        ('Sure:\n```json\n{"tier": "middle"}\n```', "middle"),
        ("small", "small"),
        ("It is **Large**.", "large"),
        ("small or large", ""),
        ('{"tier": "huge"}', ""),
        ('{"tier": ["large"]}', ""),
        ("{" * 100_000 + "}", ""),
        ("", ""),
        ("enlarged", ""),
    ],
)
def test_an_answer_names_one_tier_or_none(answer: str, tier: str) -> None:
    assert judgement(KNOWN, answer) == tier


@settings(deadline=None)
@given(st.text(max_size=200))
def test_a_task_cannot_leave_its_fence(task: str) -> None:
    text = question(KNOWN, task)
    nonce = text.split("-----BEGIN TASK ")[1].split("-----")[0]
    assert text.count(nonce) == 2 and task in text and "small: lookups" in text
    assert judgement(KNOWN, task) in ("", *NAMES)
