"""A model takes the goal apart, level by level; what it says is checked, and refused with the reason if it is no split.

With items the model only sorts their ids into groups. Without items it names sub-goals, and each of these is an item. What it
cannot do in three tries is done mechanically, and said.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from agent_fleet.api import Decomposer, FleetError, Goal, Item, Mind, Scope, Split, balanced, hookimpl, objects, overlap
from agent_fleet_decomposers._wording import GROUPS, SUBGOALS

T = TypeVar("T")

TRIES = 3
SHOWN = 60_000  # characters of items in one question; more are first cut mechanically
SHOWN_TOOLS = 200
LONGEST = 20_000  # characters of one instruction that a model may write


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """Why an answer is no split, in words for the model."""


class _Node(NamedTuple):
    """A goal on some level: what is to be done, with which items, in how many parts, and how many levels are left."""

    instruction: str
    title: str
    items: tuple[Item, ...]
    parts: int
    depth: int
    draft: Scope
    tools: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()


class Llm:
    """Asks the goal's model."""

    name = "llm"

    def usable(self) -> str | None:
        return None

    def decompose(self, goal: Goal) -> Split:
        """Parts as the model sees them. Raises `bad_input` without a model to ask."""
        if goal.mind is None:
            raise FleetError("bad_input", "there is no model to ask", hint="name a provider with --provider")
        notes: list[str] = []
        root = _Node(
            goal.instruction, "", goal.items, goal.parts, max(1, goal.depth), Scope(items=()), goal.tools, goal.tiers
        )
        leaves = _leaves(root, goal.mind, notes)
        if goal.items:
            scopes = [
                Scope(
                    items=tuple(item.id for item in leaf.items),
                    title=leaf.title,
                    instruction=leaf.draft.instruction,
                    tools=leaf.draft.tools,
                    tier=leaf.draft.tier,
                )
                for leaf in leaves
            ]
            return Split(scopes=tuple(scopes), notes=tuple(notes))
        return _of_subgoals(leaves, notes)


def _of_subgoals(leaves: Sequence[_Node], notes: Sequence[str]) -> Split:
    """Each sub-goal is an item, and a part of its own."""
    items, scopes = [], []
    notes = [*notes, *_met(leaves)]
    for number, leaf in enumerate(leaves, 1):
        items.append(Item(id=f"i{number}", value={"title": leaf.title, "goal": leaf.instruction}))
        draft = leaf.draft
        scopes.append(
            Scope(
                items=(f"i{number}",),
                title=leaf.title,
                instruction=draft.instruction,
                touches=draft.touches,
                tools=draft.tools,
                tier=draft.tier,
            )
        )
    return Split(scopes=tuple(scopes), items=tuple(items), notes=tuple(notes))


def _met(leaves: Sequence[_Node]) -> list[str]:
    """Which parts of different parents write the same paths: no answer could be refused for that."""
    return [
        f"{leaf.title!r} and {other.title!r} write the same paths: they are not worked at the same time"
        for index, leaf in enumerate(leaves)
        for other in leaves[:index]
        if overlap(leaf.draft.touches, other.draft.touches)
    ]


def _leaves(node: _Node, mind: Mind, notes: list[str]) -> list[_Node]:
    if node.parts <= 1 or (node.items and len(node.items) == 1):
        return [node]
    if node.depth < 1:
        return _mechanical(node) if node.items else [node]
    if sum(len(_shown(item)) for item in node.items) > SHOWN and len(node.items) > 1:
        halves = _cut(node, 2)
        return [leaf for half in halves for leaf in _leaves(half, mind, notes)]
    wide = min(node.parts, math.ceil(node.parts ** (1 / node.depth)))
    question, read = _question(node, wide)
    children, fault = _asked(mind, question, read)
    if children is None:
        notes.append(
            f"the model's split of {node.title or 'the goal'} was refused {TRIES} times ({fault}); " + _instead(node)
        )
        return _mechanical(node) if node.items else [node]
    return [leaf for child in _with_parts(node, children) for leaf in _leaves(child, mind, notes)]


def _instead(node: _Node) -> str:
    return "it was split mechanically" if node.items else "it stays one part"


def _mechanical(node: _Node) -> list[_Node]:
    return _cut(node, node.parts)


def _cut(node: _Node, pieces: int) -> list[_Node]:
    """The node's items in so many pieces of the same weight, with its parts spread over them."""
    cuts = balanced([item.weight for item in node.items], pieces)
    share = _spread(node.parts, [len(cut) for cut in cuts])
    return [
        node._replace(items=tuple(node.items[at] for at in cut), parts=parts)
        for cut, parts in zip(cuts, share, strict=True)
    ]


def _with_parts(node: _Node, children: Sequence[_Node]) -> list[_Node]:
    share = _spread(node.parts, [max(1, len(child.items)) for child in children])
    return [
        child._replace(parts=parts if child.items or node.depth > 1 else 1, depth=node.depth - 1)
        for child, parts in zip(children, share, strict=True)
    ]


def _spread(parts: int, sizes: Sequence[int]) -> list[int]:
    """So many parts over pieces of these sizes: one at least for each, and none more than it has members."""
    whole = sum(sizes)
    found = [max(1, parts * size // whole) for size in sizes]
    while sum(found) < parts:
        at = max(range(len(sizes)), key=lambda index: sizes[index] / found[index])
        found[at] += 1
    return found


def _asked(mind: Mind, question: str, read: Callable[[str], T]) -> tuple[T | None, str]:
    """What the model says, read; None and the last fault if it is refused each time."""
    fault = ""
    for _ in range(TRIES):
        again = f"\n\nYour last answer was refused: {fault}\nAnswer again, whole." if fault else ""
        try:
            return read(mind.answer(question + again)), ""
        except _Refused as refused:
            fault = str(refused)
    return None, fault


def _question(node: _Node, wide: int) -> tuple[str, Callable[[str], list[_Node]]]:
    shown = "\n".join(_shown(item) for item in node.items)
    nonce = os.urandom(8).hex()
    while nonce in shown + node.instruction:
        nonce = os.urandom(8).hex()
    form = GROUPS if node.items else SUBGOALS
    tools = f"Tools that there are: {', '.join(node.tools[:SHOWN_TOOLS])}\n" if node.tools else ""
    tools += f"Tiers that there are, the easiest work first: {', '.join(node.tiers)}\n" if node.tiers else ""
    text = form.format(parts=wide, goal=node.instruction, items=shown, nonce=nonce, tools=tools)
    return text, lambda answer: _read(answer, node, wide)


def _shown(item: Item) -> str:
    return json.dumps({"id": item.id, "value": item.value}, ensure_ascii=False)[:2000]


# -------------------------------------------------------------------------------------------------- reading an answer


def _read(answer: str, node: _Node, wide: int) -> list[_Node]:
    """The children of a node by the model's answer. Raises `_Refused`."""
    parts = next((found["parts"] for found in objects(answer) if isinstance(found.get("parts"), list)), None)
    if not parts:
        raise _Refused('there is no JSON object with a list "parts" in it')
    if len(parts) > 4 * wide:
        raise _Refused(f"there are {len(parts)} parts, wanted about {wide}")
    children = [_child(part, node) for part in parts]
    if node.items:
        _refuse_no_partition(children, node)
    else:
        _refuse_overlap(children)
    return children


def _child(part: Any, node: _Node) -> _Node:
    if not isinstance(part, dict):
        raise _Refused("a part is no JSON object")
    title, instruction = _text(part, "title", 200), _text(part, "instruction", LONGEST)
    known = {item.id: item for item in node.items}
    ids = _texts(part, "items")
    strange = [each for each in ids if each not in known]
    if node.items and strange:
        raise _Refused(f"there is no item {strange[0]!r}")
    if node.items and not ids:
        raise _Refused(f"the part {title!r} has no items")
    if not node.items and not instruction:
        raise _Refused(f"the part {title!r} has no instruction")
    draft = Scope(
        items=(),
        instruction=instruction,
        touches=_texts(part, "touches"),
        tools=_tools(part, node),
        tier=_tier(part, node),
    )
    goal = instruction if not node.items else node.instruction
    return node._replace(instruction=goal, title=title, items=tuple(known[each] for each in ids if known), draft=draft)


def _tools(part: dict[str, Any], node: _Node) -> tuple[str, ...]:
    """The tools that a part asks for; where there are none, a wish for one means nothing."""
    found = _texts(part, "tools") if node.tools else ()
    strange = [each for each in found if each not in node.tools]
    if strange:
        raise _Refused(f"there is no tool {strange[0]!r}")
    return found


def _tier(part: dict[str, Any], node: _Node) -> str:
    found = _text(part, "tier", 40) if node.tiers else ""
    if found and found not in node.tiers:
        raise _Refused(f"there is no tier {found!r}")
    return found


def _refuse_no_partition(children: Sequence[_Node], node: _Node) -> None:
    seen: dict[str, str] = {}
    for child in children:
        for item in child.items:
            if item.id in seen:
                raise _Refused(
                    f"the item {item.id} is in {seen[item.id]!r} and in {child.title!r}; each is in one part"
                )
            seen[item.id] = child.title
    missing = [item.id for item in node.items if item.id not in seen]
    if missing:
        raise _Refused(f"{len(missing)} items are in no part: {', '.join(missing[:20])}")


def _refuse_overlap(children: Sequence[_Node]) -> None:
    """Two sub-goals with the same words, or that write the same paths, are not apart."""
    told: set[str] = set()
    for index, child in enumerate(children):
        words = " ".join(child.instruction.lower().split())
        if words in told:
            raise _Refused(f"the instruction of {child.title!r} is given twice")
        told.add(words)
        for other in children[:index]:
            if overlap(child.draft.touches, other.draft.touches):
                raise _Refused(f"{child.title!r} and {other.title!r} write the same paths")


def _text(part: dict[str, Any], name: str, most: int) -> str:
    value = part.get(name, "")
    if not isinstance(value, str) or len(value) > most or "\0" in value:
        raise _Refused(f"{name} must be a text of at most {most} characters")
    return value.strip().encode("utf-8", "replace").decode()


def _texts(part: dict[str, Any], name: str) -> tuple[str, ...]:
    value = part.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _Refused(f"{name} must be a list of texts")
    return tuple(value)


@hookimpl
def fleet_decomposers() -> Iterable[Decomposer]:
    yield Llm()
