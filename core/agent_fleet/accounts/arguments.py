"""Command lines for a provider: what a caller may give is taken apart by a grammar, and the command line is made anew.

Nothing that the caller wrote is passed on as it stands but the prompt, and that stands behind `--`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent_fleet.accounts.spec import Grammar, Option
from agent_fleet.errors import FleetError

LONGEST = 100_000  # bytes of a prompt in an argument; Linux takes 131071, its terminating byte counted
SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_PLACE = re.compile(r"<([a-z_]+)>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a caller asked for: the values of the options that it gave, and the prompt (empty for a resume)."""

    options: Mapping[str, str] = field(default_factory=dict)
    prompt: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The arguments behind the program, and what it reads from standard input (empty: nothing of ours)."""

    arguments: tuple[str, ...]
    stdin: bytes = field(default=b"", repr=False)


def parse(
    grammar: Grammar, words: Sequence[str], *, operation: Literal["start", "resume"], turn_end: str = ""
) -> Request:
    """Take apart what the caller gave. Raises `refused` for everything that the grammar does not have.

    `turn_end` is the file whose touching a caller may ask for; asking for another one is refused.
    """
    if operation == "resume" and not grammar.resume:
        raise _refused("this provider cannot go on with a session", grammar, operation)
    rest = list(words)
    given: dict[str, str] = {}
    for option in grammar.options:
        value = _take(option, rest)
        if value is None:
            if option.required:
                raise _refused(f"{option.words[0]} is missing, or not where it belongs", grammar, operation)
            continue
        if option.name == grammar.notify:
            _check_notify(value, turn_end, grammar, operation)
        given[option.name] = value
    wanted = 1 if operation == "start" else 0
    if len(rest) != wanted:
        where = f"{_shown(rest[0])} is not accepted there" if len(rest) > wanted else "the prompt is missing"
        raise _refused(where, grammar, operation)
    prompt = rest[0] if rest else ""
    if operation == "start" and not prompt.strip():
        raise _refused("the prompt is empty", grammar, operation)
    _check_text(prompt, grammar, operation)
    return Request(options=given, prompt=prompt)


def build(grammar: Grammar, request: Request, *, root: str, notify: Sequence[str] = (), session: str = "") -> Command:
    """The command line of a request in the active project `root`; with a `session`, one that goes on with it.

    `notify` is fleet's own command for the end of a turn. Raises `refused` for a session or a prompt that cannot be passed on.
    """
    if session and not (SESSION.fullmatch(session) and grammar.resume):
        raise FleetError(
            "refused",
            f"{_shown(session)} is no session that can be gone on with",
            hint="look at it with `fleet session status`",
        )
    long = len(request.prompt.encode("utf-8")) > LONGEST
    if long and (session or not grammar.piped):
        raise FleetError(
            "refused",
            f"the prompt is longer than {LONGEST} bytes, which an argument cannot hold",
            hint="put the text into a file of the project and name that file",
        )
    form = grammar.resume if session else grammar.piped if long else grammar.start
    options = {option.name: option for option in grammar.options}
    arguments: list[str] = []
    for word in form:
        found = _PLACE.fullmatch(word)
        if not found:
            arguments.append(word.replace("{root}", toml_string(root)))
        elif found[1] == "prompt":
            arguments += ["--", request.prompt]
        elif found[1] == "session":
            arguments.append(session)
        elif found[1] in request.options:
            value = request.options[found[1]]
            if found[1] == grammar.notify:
                value = "[" + ", ".join(toml_string(each) for each in notify) + "]"
            arguments += [each.replace("{}", value) for each in options[found[1]].words]
    return Command(arguments=tuple(arguments), stdin=request.prompt.encode("utf-8") if long else b"")


def toml_string(text: str) -> str:
    """A text as a TOML basic string. JSON's form is one, but for the delete character, which TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def usage(grammar: Grammar, operation: Literal["start", "resume"]) -> str:
    """The accepted form in one line."""
    parts = []
    for option in grammar.options:
        value = "|".join(option.values) or option.name.upper()
        words = " ".join(word.replace("{}", value) for word in option.words)
        parts.append(words if option.required else f"[{words}]")
    return " ".join([*parts, "PROMPT"] if operation == "start" else parts)


def _take(option: Option, rest: list[str]) -> str | None:
    """Remove the option's words from the front and hand back its value (empty if it has none); None if it is not there."""
    if len(rest) < len(option.words):
        return None
    value = ""
    for word, given in zip(option.words, rest, strict=False):
        before, place, after = word.partition("{}")
        if not place:
            if given != word:
                return None
            continue
        if not (given.startswith(before) and given.endswith(after) and len(given) >= len(before) + len(after)):
            return None
        value = given[len(before) : len(given) - len(after)]
        if not _is_value(option, value):
            return None
    del rest[: len(option.words)]
    return value


def _is_value(option: Option, value: str) -> bool:
    if option.values:
        return value in option.values
    return 0 < len(value) <= option.longest and value.isprintable() and not value.startswith("-")


def _check_notify(value: str, turn_end: str, grammar: Grammar, operation: Literal["start", "resume"]) -> None:
    """The one command that may be asked for at the end of a turn: touching the file of this launch."""
    try:
        asked = json.loads(value)
    except (ValueError, RecursionError):
        asked = None
    if not turn_end or asked != ["bash", "-c", f"touch {_quoted(turn_end)}"]:
        raise _refused("the command for the end of a turn is not the touching of --turn-end", grammar, operation)


def _quoted(path: str) -> str:
    quoted = shlex.quote(path)
    return quoted if quoted.startswith("'") else f"'{quoted}'"


def _check_text(prompt: str, grammar: Grammar, operation: Literal["start", "resume"]) -> None:
    try:
        prompt.encode("utf-8")
    except UnicodeEncodeError:
        raise _refused("the prompt is not UTF-8", grammar, operation) from None
    if "\0" in prompt:
        raise _refused("the prompt holds a NUL", grammar, operation)


def _shown(word: str) -> str:
    return repr(word if len(word) <= 60 else word[:60] + "…")


def _refused(what: str, grammar: Grammar, operation: Literal["start", "resume"]) -> FleetError:
    return FleetError("refused", f"the provider's arguments: {what}", hint=f"the form is: {usage(grammar, operation)}")
