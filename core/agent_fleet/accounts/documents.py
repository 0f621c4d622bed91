"""JSON and TOML files that fleet shares with a provider: single values are read and set, all others stay as they are.

TOML keeps its bytes, comments included. JSON has no comments; its keys keep their order and it is written with two spaces, as the
programs that own these files write it.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterable, MutableMapping
from typing import Any

from agent_fleet.accounts.spec import OwnedKey
from agent_fleet.errors import FleetError

_ABSENT = object()


def wrong(text: str, keys: Iterable[OwnedKey]) -> list[OwnedKey]:
    """The keys that do not stand in this text as they should. Raises `corrupt` for a text that cannot be read."""
    keys = list(keys)
    if not keys:
        return []
    document = _parsed(text, keys[0])
    return [key for key in keys if not _holds(document, key)]


def merged(text: str, keys: Iterable[OwnedKey]) -> str:
    """The text with these keys set, the same text if they already are. All must be of one file.

    Raises `corrupt` for a text that cannot be read, and for one in which they cannot be set without changing something else.
    """
    missing = wrong(text, keys)
    if not missing:
        return text
    before = _parsed(text, missing[0])
    result = _json(text, missing) if missing[0].format == "json" else _toml(text, missing)
    after = _parsed(result, missing[0])
    if wrong(result, missing) or _without(before, missing) != _without(after, missing):
        raise _unreadable(missing[0], "our keys cannot be set in it without changing others")
    return result


def _json(text: str, keys: list[OwnedKey]) -> str:
    document = _parsed(text, keys[0])
    for key in keys:
        _set(document, key, dict)
    try:
        result = json.dumps(document, indent=2, ensure_ascii=False)
        result.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can hold as an escape
        result = json.dumps(document, indent=2)
    return result + ("\n" if not text or text.endswith("\n") else "")


def _toml(text: str, keys: list[OwnedKey]) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        for key in keys:
            _set(document, key, tomlkit.table)
        return tomlkit.dumps(document)
    except (TOMLKitError, ValueError, TypeError) as error:
        raise _unreadable(keys[0], f"it cannot be changed ({type(error).__name__})") from None


def _set(document: MutableMapping[str, Any], key: OwnedKey, table: Any) -> None:
    place = document
    for part in key.path[:-1]:
        below = place.get(part)
        if not isinstance(below, MutableMapping):
            if below is not None:
                raise _unreadable(key, f"{'.'.join(key.path[:-1])} is no table in it")
            place[part] = table()
            below = place[part]
        place = below
    last = key.path[-1]
    if not key.mark:
        place[last] = copy.deepcopy(key.value)
        return
    there = place.get(last)
    others = [each for each in there if key.mark not in _text(each)] if isinstance(there, list) else []
    place[last] = [*others, copy.deepcopy(key.value)]


def _holds(document: Any, key: OwnedKey) -> bool:
    found = _at(document, key.path)
    if not key.mark:
        return found is not _ABSENT and _same(found, key.value)
    if not isinstance(found, list):
        return False
    return [each for each in found if key.mark in _text(each)] == [key.value]


def _same(found: Any, wanted: Any) -> bool:
    """Equal, and of one type: to Python 1 and True are the same."""
    return type(found) is type(wanted) and found == wanted


def _at(document: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if not isinstance(document, MutableMapping) or part not in document:
            return _ABSENT
        document = document[part]
    return document


def _without(document: Any, keys: list[OwnedKey]) -> Any:
    """The document without what is ours, and without tables that are empty then."""
    rest = copy.deepcopy(document)
    for key in keys:
        places = [rest]
        for part in key.path[:-1]:
            below = places[-1].get(part) if isinstance(places[-1], MutableMapping) else None
            if not isinstance(below, MutableMapping):
                break
            places.append(below)
        else:
            _remove(places[-1], key)
            for place, part in reversed(list(zip(places, key.path, strict=False))[:-1]):
                if not place.get(part):
                    place.pop(part, None)
    return rest


def _remove(place: MutableMapping[str, Any], key: OwnedKey) -> None:
    last = key.path[-1]
    found = place.get(last)
    if key.mark and isinstance(found, list):
        place[last] = [each for each in found if key.mark not in _text(each)]
        if place[last]:
            return
    place.pop(last, None)


def _text(value: Any) -> str:
    return json.dumps(value, default=str)


def _parsed(text: str, key: OwnedKey) -> Any:
    if not text.strip():
        return {}
    try:
        document = json.loads(text) if key.format == "json" else tomllib.loads(text)
    except (ValueError, RecursionError):
        raise _unreadable(key, f"it is no {key.format.upper()}") from None
    if not isinstance(document, dict):
        raise _unreadable(key, "it holds no table")
    return document


def _unreadable(key: OwnedKey, what: str) -> FleetError:
    return FleetError(
        "corrupt", f"{key.file} in the account's home cannot be used: {what}", hint="mend the file, or move it away"
    )
