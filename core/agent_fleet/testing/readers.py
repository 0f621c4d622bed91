"""The contract of a provider's reader: what it makes of any output, and of none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args, get_type_hints

from agent_fleet.model import Event, Exit, Job, Need, Outcome, OutcomeKind, Task, Usage
from agent_fleet.protocols import Reader
from agent_fleet.testing.contract import asked, is_count, is_number, is_writable, must

KINDS = frozenset(get_args(OutcomeKind))
EVENTS = frozenset(get_args(get_type_hints(Event)["kind"]))
CAUSES: tuple[str, ...] = get_args(get_type_hints(Exit)["cause"])

BANNERS = (
    "You've hit your limit \u00b7 resets 8pm (UTC)",
    "You\u2019ve hit your session limit \u00b7 resets 4:20am",
    "Weekly limit reached \u00b7 resets 3am (Europe/London)",
    "Claude AI usage limit reached|1789436526",
    "You've reached your usage limit",
    "API Error: Server is temporarily limiting requests (not your usage limit) \u00b7 Rate limited",
    "Please run /login \u00b7 API Error: 401 Invalid authentication credentials",
)

GARBAGE = (
    "{",
    '{"type":',
    '{"type": "result", "result": "it was cut of',
    "null",
    "[]",
    '"text"',
    "NaN",
    "1e999",
    "9" * 5000,
    "{}",
    '{"type": null}',
    '{"type": {"type": "result"}}',
    '{"type": "result", "result": 5, "usage": "many", "is_error": "no", "text": [], "status": {}}',
    '{"type": "result", "usage": {"input_tokens": -1, "output_tokens": 1e400}, "total_cost_usd": "NaN"}',
    '{"type": "assistant", "message": []}',
    '{"type": "text", "text": "\\ud83d"}',
    '{"type": "started", "session": 7, "model": null}',
    '{"type": "limit", "kind": 3, "resets_at": "soon"}',
    "[" * 100_000,
    "\0\x07\x1b[2J\x1b]0;title",
    "\udc80\ud83d half a character",
    "\ufeff\u2028\u202e",
    "x" * (5 << 20),
    "\r",
    "",
)

MakeReader = Callable[[Job], Reader]


def check_reader(name: str, make: MakeReader, gone: Path, *, answer: Sequence[str] = (), need: Need = "agent") -> None:
    """Check a reader with nothing, with garbage, with banners and with `answer`, for every way an attempt can end.

    It gets a job as settling makes it: without a prompt or an environment, and with directories that are not there (`gone`).
    """
    job = Job(
        task=Task(id="t1", target="Do it.", need=need),
        worker="r1-w1",
        prompt="",
        nonce="6b1f0c2d9a7e4835",
        cwd=str(gone / "project"),
        env={},
        scratch=str(gone / "scratch"),
    )

    def judge(lines: Iterable[str], exit: Exit) -> Outcome:
        reader = asked(f"{name}.reader()", make, job)
        _feed(name, reader, lines)
        return _judged(name, reader, exit)

    for exit in _ends():
        for lines in ((), ("", " ", "\t\r")):
            found = judge(lines, exit)
            fine = need == "command" and (exit.cause, exit.code, exit.signal) == ("exited", 0, None)
            must(found.kind != "done" or fine, f"{name} calls an attempt done that printed nothing ({_words(exit)})")
    for exit in _ends():
        judge(GARBAGE[:-3], exit)
    for line in GARBAGE:
        judge((line,), Exit(code=0))
    if need != "command":
        _check_banners(name, judge)
    if answer:
        _check_answer(name, make, job, answer, judge)


Judge = Callable[[Iterable[str], Exit], Outcome]


def _check_banners(name: str, judge: Judge) -> None:
    for banner in BANNERS:
        found = judge((banner,), Exit(code=0))
        must(found.kind != "done", f"{name} calls an attempt done that printed only: {banner}")


def _check_answer(name: str, make: MakeReader, job: Job, answer: Sequence[str], judge: Judge) -> None:
    exit = Exit(code=0, seconds=1.0)
    found = judge(answer, exit)
    must(found.kind == "done", f"{name} calls its own answer {found.kind}: {found.reason}")
    must(found.result.strip(), f"{name} calls its own answer done and says nothing of what was observed")
    must(judge(answer, exit) == found, f"{name} judges the same output differently the second time")
    ended = [line + end for end in ("\r\n", "\n") for line in answer]
    for lines in (ended[: len(answer)], ended[len(answer) :]):
        must(judge(lines, exit).kind == "done", f"{name} depends on how a line ends")
    one, other = make(job), make(job)
    for line in answer:  # two attempts at once, the other one with nothing to say
        _feed(name, one, (line,))
        _feed(name, other, ("",))
    must(_judged(name, one, exit) == found, f"{name}'s readers disturb each other")
    must(_judged(name, other, exit).kind != "done", f"{name}'s readers share what they have read")
    long = "x" * (5 << 20)
    whole = judge((long, *answer), exit)
    pieces = judge((*(long[start : start + 999_983] for start in range(0, len(long), 999_983)), *answer), exit)
    must(whole == pieces, f"{name} judges a long line differently when it comes in pieces")
    must(whole.kind == "done", f"{name} loses its answer behind a long line")
    _check_every_cut(answer, judge, exit)


def _check_every_cut(answer: Sequence[str], judge: Judge, exit: Exit) -> None:
    """An answer that was cut off anywhere is judged, whatever it comes to."""
    for count in range(len(answer)):
        judge(answer[:count], exit)
        judge((*answer[:count], answer[count][: len(answer[count]) // 2]), exit)


def _feed(name: str, reader: Reader, lines: Iterable[str]) -> None:
    for line in lines:
        for event in asked(f"{name}'s reader", _fed, reader, line):
            _check_event(name, event)


def _fed(reader: Reader, line: str) -> list[Event]:
    return list(reader.feed(line))


def _check_event(name: str, event: object) -> None:
    must(isinstance(event, Event), f"{name}'s reader gave {event!r}, wanted an Event")
    if isinstance(event, Event):
        must(event.kind in EVENTS, f"{name}'s reader gave an event of the kind {event.kind!r}")
        must(is_writable(event.text) and is_writable(event.session), f"{name}'s reader passes half a character on")
        must(event.usage is None or isinstance(event.usage, Usage), f"{name}'s reader gave the usage {event.usage!r}")


def _judged(name: str, reader: Reader, exit: Exit) -> Outcome:
    found = asked(f"{name}'s reader.outcome() for {_words(exit)}", reader.outcome, exit)
    must(isinstance(found, Outcome), f"{name}'s reader gave {found!r}, wanted an Outcome")
    must(found.kind in KINDS, f"{name}'s reader gave an outcome of the kind {found.kind!r}")
    texts = (found.reason, found.result, found.session, found.limit)
    must(all(is_writable(text) for text in texts), f"{name}'s reader gave an outcome that cannot be written down")
    must(found.kind == "done" or found.reason.strip(), f"{name} calls an attempt {found.kind} and does not say why")
    must(found.resets_at is None or is_number(found.resets_at), f"{name} says a limit resets at {found.resets_at!r}")
    _check_usage(name, found.usage)
    must(reader.outcome(exit) == found, f"{name}'s reader changes its mind when it is asked again")
    return found


def _check_usage(name: str, usage: Usage) -> None:
    told: dict[str, Any] = asdict(usage)
    for each in ("input", "cache_write", "cache_read", "output", "reasoning", "turns"):
        must(is_count(told[each]), f"{name} counts {told[each]!r} for {each}")
    money = usage.money
    must(money is None or (is_number(money) and money >= 0), f"{name} counts {money!r} of money")
    json.dumps(told)


def _ends() -> list[Exit]:
    """Every cause, with each way in which a process can end under it."""
    ways: tuple[tuple[int | None, int | None], ...] = (
        (0, None),
        (1, None),
        (7, None),
        (143, None),
        (None, 9),
        (None, None),
    )
    return [
        Exit(code=code, signal=signal, cause=cause, seconds=12.5, note=note)  # type: ignore[arg-type]  # from the type's own words
        for cause in CAUSES
        for code, signal in ways
        for note in ("",)
    ]


def _words(exit: Exit) -> str:
    return f"cause {exit.cause}, status {exit.code}, signal {exit.signal}"
