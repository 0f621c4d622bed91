"""The lanes, providers and pools that a caller names: whether there are such, not whether they can be used here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agent_fleet.commands import Shared
from agent_fleet.errors import FleetError
from agent_fleet.plugins import LANES, PROVIDERS, Family
from agent_fleet.run import accounts


def refuse_unknown(
    shared: Shared, *, lanes: Iterable[str] = (), providers: Iterable[str] = (), pools: Iterable[str] = ()
) -> None:
    """Raise FleetError for a name that nothing has: `unknown_plugin`, `registry_missing`, or `bad_input` for a pool.

    Empty names are none. What is there and cannot be used is not refused: that is a fact, which a plan shows.
    """
    for error in unknown(shared, lanes=lanes, providers=providers, pools=pools):
        raise error


def unknown(
    shared: Shared, *, lanes: Iterable[str] = (), providers: Iterable[str] = (), pools: Iterable[str] = ()
) -> Iterator[FleetError]:
    """The same errors, one for each name, not raised."""
    yield from _strange(shared, LANES, lanes)
    yield from _strange(shared, PROVIDERS, providers)
    yield from _strange_pools(shared, pools)


def _strange(shared: Shared, family: Family[Any], names: Iterable[str]) -> Iterator[FleetError]:
    for name in _distinct(names):
        try:
            shared.plugins.offer(family, name)
        except FleetError as error:
            if error.code == "unknown_plugin":
                yield error


def _strange_pools(shared: Shared, names: Iterable[str]) -> Iterator[FleetError]:
    wanted = _distinct(names)
    if not wanted:
        return
    try:
        there = accounts.pools(shared.environ)
    except FleetError as error:
        if error.code == "registry_missing":
            yield error
        return  # whether there is such a pool cannot be told; why not is said where its accounts are looked at
    for name in wanted:
        if name not in there:
            told = f"there are: {', '.join(sorted(there)) or 'none'}"
            yield FleetError("bad_input", f"no account is in a pool '{name}', and no project is bound to it", hint=told)


def _distinct(names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name]
