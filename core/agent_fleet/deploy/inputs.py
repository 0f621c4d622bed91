"""What a deployment is about, as items: lines, addresses, CSV rows, JSON Lines, or the files that git tracks."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from agent_fleet import document, git
from agent_fleet.deploy.values import Item
from agent_fleet.errors import FleetError

Form = Literal["lines", "csv", "jsonl"]

_MOST_BYTES = 1 << 30
_LONGEST = 1 << 18  # characters of one item as JSON
_FIELD = 1 << 20  # characters of one CSV field
_EXTENSIONS: dict[str, Form] = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_FILES = ("100644", "100755")


class Input(NamedTuple):
    """Items without equals; `repeated` says how often more an item stood there, by its id; `notes` what was left out and why."""

    items: tuple[Item, ...]
    repeated: dict[str, int]
    notes: tuple[str, ...] = ()


def read_file(path: str, form: Form | None = None) -> Input:
    """The items of a file; its ending decides the form if none is given. Raises FleetError."""
    data = document.read(path, _MOST_BYTES, what="a text file, or - for standard input")
    ending = os.path.splitext(path)[1].lower()
    return parse(data, form or _EXTENSIONS.get(ending), separator="\t" if ending == ".tsv" else ",")


def parse(data: bytes, form: Form | None = None, *, separator: str = ",") -> Input:
    """The items in a text. Raises `bad_input` that names the first line that is wrong.

    Without a form it is JSON Lines if its first line is a JSON object, else one item a line. Blank lines are passed over.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _bad(
            f"line {data[: error.start].count(10) + 1} is not UTF-8", "convert the file to UTF-8 first"
        ) from None
    if form is None:
        form = "jsonl" if _is_object(text.lstrip().partition("\n")[0]) else "lines"
    if form == "csv":
        return gathered(_rows(text, separator))
    return gathered(_lines(text, as_json=form == "jsonl"))


def gathered(values: Iterable[Any]) -> Input:
    """These values as items, equal ones once. Raises `bad_input` for one that is too long, and if there is none."""
    found: dict[str, Item] = {}
    repeated: dict[str, int] = {}
    for number, value in enumerate(values, 1):
        try:
            text = _canonical(value)
        except (TypeError, ValueError, RecursionError):
            raise _bad(
                f"item {number} is no JSON value", "give texts, numbers, lists or tables with texts for names"
            ) from None
        if len(text) > _LONGEST:
            raise _bad(f"item {number} is longer than {_LONGEST} characters", "give a path or an address instead")
        known = found.get(text)
        if known is None:
            found[text] = Item(id=f"i{len(found) + 1}", value=value)
        else:
            repeated[known.id] = repeated.get(known.id, 0) + 1
    if not found:
        raise _bad("the input holds no items", "give one item a line")
    return Input(tuple(found.values()), repeated)


def tracked(root: str, below: str = ".") -> Input:
    """The regular files below a directory of a project that git tracks, as paths from its root, weighed by their size.

    Links and submodules are none. Raises FleetError if it is in no git repository, or if nothing is tracked.
    """
    if not git.ask(root, "rev-parse", "--is-inside-work-tree").ok:
        raise _bad(f"{root} is in no git repository", "name one with --repo, or give a list with --inputs")
    listed = git.tell(root, "ls-files", "-z", "--stage", "--", below)
    names: dict[str, None] = {}
    left = 0
    for entry in filter(None, listed.split("\0")):
        mode, _, rest = entry.partition(" ")
        name = rest.partition("\t")[2]
        if mode in _FILES and name.isprintable():
            names[name] = None
        else:
            left += 1
    items: list[Item] = []
    for name in names:
        try:
            size = os.lstat(os.path.join(root, name)).st_size
        except OSError:
            left += 1  # tracked, and gone from the working tree
            continue
        items.append(Item(id=f"i{len(items) + 1}", value=name, weight=float(max(1, size))))
    if not items:
        raise _bad(f"git tracks no files below {below}", "commit or `git add` them first")
    why = "links, submodules, files that are gone, and names that cannot be printed"
    return Input(tuple(items), {}, (f"{left} tracked entries are left out ({why})",) if left else ())


def _lines(text: str, *, as_json: bool) -> Iterator[Any]:
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        if not line.strip():
            continue
        if not as_json:
            yield _printable(line.strip(), number)
            continue
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            raise _bad(f"line {number} is not JSON", "every line must be one JSON value") from None


def _rows(text: str, separator: str) -> Iterator[dict[str, str]]:
    before = csv.field_size_limit(_FIELD)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        names = next(reader, [])
        if len(set(names)) != len(names) or not all(name.strip() for name in names):
            raise _bad("the first line must name each column once", "give the columns different names")
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(names):
                raise _bad(f"line {reader.line_num} has {len(row)} cells, wanted {len(names)}", "mend that line")
            yield dict(zip(names, row, strict=True))
    except csv.Error as error:
        raise _bad(f"the CSV text cannot be read: {error}", "mend it, or give JSON Lines") from None
    finally:
        csv.field_size_limit(before)


def _printable(line: str, number: int) -> str:
    if "\0" in line:
        raise _bad(f"line {number} holds a NUL character", "give a text file")
    return line


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _bad(message: str, hint: str) -> FleetError:
    return FleetError("bad_input", message, hint=hint)
