"""Files balanced by size, with the files of a directory kept together as far as the balance allows."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence

from agent_fleet.api import Decomposer, FleetError, Goal, Item, Scope, Split, balanced, hookimpl


class Files:
    """Paths: what lies in one directory belongs together."""

    name = "files"

    def usable(self) -> str | None:
        return None

    def decompose(self, goal: Goal) -> Split:
        """Parts of whole directories; one that is too large for a part is cut. Raises `bad_input` for items that are no paths."""
        if not goal.items:
            raise FleetError("bad_input", "there are no files to take apart", hint="name a repository with --repo DIR")
        if not all(isinstance(item.value, str) and item.value for item in goal.items):
            raise FleetError("bad_input", "some items are no paths", hint="use --decompose items")
        modules = _modules(sorted(goal.items, key=_place), goal.parts)
        pieces = balanced([_weight(module) for module in modules], goal.parts)
        return Split(scopes=tuple(_scope([item for at in piece for item in modules[at]]) for piece in pieces))


def _place(item: Item) -> tuple[str, ...]:
    """Where a path stands in a walk that ends a directory before it begins the next."""
    directory, name = os.path.split(item.value)
    return (*directory.split(os.sep), "", name)


def _modules(files: Sequence[Item], parts: int) -> list[list[Item]]:
    """The files of each directory as one piece, in pieces of its own if it weighs more than a part should."""
    directories: dict[str, list[Item]] = {}
    for item in files:
        directories.setdefault(os.path.dirname(item.value), []).append(item)
    share = sum(item.weight for item in files) / parts
    found: list[list[Item]] = []
    for held in directories.values():
        weight = _weight(held)
        pieces = max(1, round(weight / share)) if share > 0 else 1
        found += [[held[at] for at in piece] for piece in balanced([item.weight for item in held], pieces)]
    if len(found) < min(parts, len(files)):
        return [[item] for item in files]
    return found


def _weight(items: Iterable[Item]) -> float:
    return sum(item.weight for item in items)


def _scope(items: Sequence[Item]) -> Scope:
    ways = [os.path.dirname(item.value).split(os.sep) for item in items]
    common = [parts[0] for parts in itertools.takewhile(lambda parts: len({*parts}) == 1, zip(*ways, strict=False))]
    return Scope(items=tuple(item.id for item in items), title=os.sep.join(common))


@hookimpl
def fleet_decomposers() -> Iterable[Decomposer]:
    yield Files()
