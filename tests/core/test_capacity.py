"""Properties of folding and of the ceilings, for any readings whatever."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fleet.capacity import (
    WORST_IS_LARGEST,
    Capacity,
    CapacitySettings,
    GiB,
    MiB,
    ceilings,
    counted,
    fold,
    size_text,
)
from agent_fleet.model import Cost, Quantity, Reading

QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)

# The size of the machine only scales the reserve: a smaller machine with as much available keeps less free.
SIZES = frozenset({"memory_total", "memory_limit"})

MOST: dict[str, float] = {
    "cores": 256, "load1": 1000, "cpu_idle": 100, "cpu_pressure": 100, "memory_pressure_some": 100,
    "memory_pressure_full": 100, "pids_free": 1e6, "fds_free": 1e6, "ptys_free": 4096, "inotify_free": 1024,
}  # fmt: skip


def reading(quantity: Quantity, value: float | None, source: str = "s") -> Reading:
    return Reading(quantity=quantity, value=value, source=source, at=1.0)


def values(quantity: str) -> st.SearchStrategy[float]:
    return st.floats(0, MOST.get(quantity, 512.0 * GiB))


@st.composite
def machines(draw: st.DrawFn) -> dict[Quantity, Reading]:
    chosen = draw(st.lists(st.sampled_from(QUANTITIES), unique=True))
    return {q: reading(q, draw(st.none() | values(q))) for q in chosen}


@st.composite
def readings(draw: st.DrawFn) -> list[Reading]:
    kinds = st.sampled_from(QUANTITIES)
    odd = st.none() | st.floats() | st.floats(0, 1e12)
    return [reading(draw(kinds), draw(odd), source=f"s{index}") for index in range(draw(st.integers(0, 12)))]


costs = st.builds(
    lambda memory, cores: Cost(provider="p", lane="l", memory=memory, cores=cores, basis="default"),
    st.floats(0, 8.0 * GiB),
    st.floats(0, 16),
)
settings = st.builds(
    CapacitySettings,
    max_load_per_core=st.floats(0.1, 10),
    reserve_cores=st.floats(0, 8),
    reserve_memory=st.floats(0, 8.0 * GiB),
    unknown_workers=st.integers(0, 8),
    pressure_full=st.floats(1, 100),
)
running = st.integers(0, 50)


def workers(machine: dict[Quantity, Reading], cost: Cost, wishes: CapacitySettings, there: int) -> int:
    return ceilings(machine, cost, wishes, running=there, needs_pty=True).workers


@given(readings())
def test_folding_keeps_the_tightest_known_value_of_each_quantity(given_readings: list[Reading]) -> None:
    folded = fold(given_readings)
    assert set(folded) == {each.quantity for each in given_readings}
    for quantity, kept in folded.items():
        sound = [
            max(0.0, each.value)
            for each in given_readings
            if each.quantity == quantity and each.value is not None and math.isfinite(each.value)
        ]
        tightest = max if quantity in WORST_IS_LARGEST else min
        assert kept.value == (tightest(sound) if sound else None)


@given(readings(), st.randoms(use_true_random=False))
def test_the_order_of_readings_changes_no_folded_value(given_readings: list[Reading], random: object) -> None:
    shuffled = list(given_readings)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis names no type for it
    first, second = fold(given_readings), fold(shuffled)
    assert {q: r.value for q, r in first.items()} == {q: r.value for q, r in second.items()}


@given(machines(), costs, settings, running, st.sampled_from(QUANTITIES), st.data())
def test_a_worse_reading_never_means_more_workers(
    machine: dict[Quantity, Reading],
    cost: Cost,
    wishes: CapacitySettings,
    there: int,
    quantity: Quantity,
    data: st.DataObject,
) -> None:
    if quantity in SIZES:
        return
    better, worse = sorted((data.draw(values(quantity)), data.draw(values(quantity))), reverse=True)
    if quantity in WORST_IS_LARGEST:
        better, worse = worse, better
    good = workers({**machine, quantity: reading(quantity, better)}, cost, wishes, there)
    assert workers({**machine, quantity: reading(quantity, worse)}, cost, wishes, there) <= good


@given(machines(), costs, settings, running, st.sampled_from(QUANTITIES))
def test_unknown_never_means_more_workers_than_plenty(
    machine: dict[Quantity, Reading], cost: Cost, wishes: CapacitySettings, there: int, quantity: Quantity
) -> None:
    if quantity in SIZES:
        return
    plenty = 0.0 if quantity in WORST_IS_LARGEST else 1e15
    known = workers({**machine, quantity: reading(quantity, plenty)}, cost, wishes, there)
    assert workers({**machine, quantity: reading(quantity, None)}, cost, wishes, there) <= known


@given(machines(), costs, settings, running, st.floats(0, 8.0 * GiB))
def test_the_answer_is_the_binding_ceiling_unless_it_says_otherwise(
    machine: dict[Quantity, Reading], cost: Cost, wishes: CapacitySettings, there: int, owed: float
) -> None:
    seen = ceilings(machine, cost, wishes, running=there, owed_memory=owed)
    allowed = [counted(each, wishes) for each in seen.ceilings]
    assert seen.binding in seen.ceilings
    if seen.wait:
        assert seen.workers == 0
    else:
        assert seen.workers == max(1, min(allowed)) == max(1, counted(seen.binding, wishes))
        assert bool(seen.degraded) == (
            min(allowed) < 1
            or (seen.binding.workers is None and seen.workers == 1 and seen.binding.name in ("cores", "memory"))
        )
    assert seen.ceiling().workers == seen.workers


PLAIN: dict[Quantity, Reading] = {
    "cores": reading("cores", 64.0),
    "memory_total": reading("memory_total", 64.0 * GiB),
    "memory_available": reading("memory_available", 40.0 * GiB),
}
COST = Cost(provider="p", lane="l", memory=GiB, cores=1.0, basis="default")


def plain(wishes: CapacitySettings | None = None, *, owed: float = 0.0, running: int = 0) -> Capacity:
    return ceilings(PLAIN, COST, wishes or CapacitySettings(), running=running, owed_memory=owed)


def test_memory_promised_to_young_workers_is_spent_in_advance() -> None:
    assert plain().workers == 33
    assert plain(owed=3.0 * GiB, running=5).workers == 33 + 5 - 3


def test_a_reserve_of_ones_own_replaces_the_derived_one() -> None:
    assert plain(CapacitySettings(reserve_memory=30.0 * GiB)).workers == 10
    assert plain(CapacitySettings(reserve_cores=60.0)).workers == 4


def test_nothing_known_at_all_allows_one_worker_and_says_so() -> None:
    seen = ceilings({}, COST, CapacitySettings(), running=3)
    assert (seen.workers, seen.wait) == (1, "")
    assert "unknown" in seen.degraded


def test_an_unknown_secondary_quantity_is_shown_as_unknown_and_allows_a_few() -> None:
    machine = {**PLAIN, "pids_free": reading("pids_free", None)}
    seen = ceilings(machine, COST, CapacitySettings(unknown_workers=3), running=0)
    assert (seen.workers, seen.binding.name, seen.binding.workers) == (3, "pids", None)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (600 * MiB, "600 MiB"), (-GiB, "-1 GiB"), (3 << 40, "3 TiB")],
)
def test_sizes_read_in_binary_units(size: float, text: str) -> None:
    assert size_text(size) == text
