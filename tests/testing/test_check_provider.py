from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.api import Event, Exit, FleetError, Job, Launch, Outcome, Usage
from agent_fleet.testing import check_provider

ANSWER = ("= I looked at it", "! done: the test passes")


class Reader:
    """A sound reader of lines that begin with `=` (text) or `!` (the result), or one whose parts were replaced."""

    def __init__(self, **parts: Any) -> None:
        self.result = ""
        for name, part in parts.items():
            setattr(self, name, part.__get__(self) if callable(part) else part)

    def feed(self, line: str) -> Iterable[Event]:
        text = line.strip().encode("utf-8", "replace").decode()
        if text.startswith("! done: "):
            self.result = text[8:]
            yield Event(kind="result", text=self.result)
        elif text.startswith("="):
            yield Event(kind="text", text=text[:300])

    def outcome(self, exit: Exit) -> Outcome:
        if self.result:
            return Outcome(kind="done", result=self.result)
        return Outcome(kind="failed", reason=f"it said nothing and ended by {exit.cause}")


class Tool:
    """A sound provider, or one whose parts were replaced."""

    name = "tool"

    def __init__(self, **parts: Any) -> None:
        for name, part in parts.items():
            setattr(self, name, part)

    def usable(self) -> Any:
        return None

    def launch(self, job: Job) -> Any:
        return launched(job)

    def reader(self, _job: Job) -> Any:
        return Reader()


def launched(job: Job, **changes: Any) -> Launch:
    found = Launch(
        worker=job.worker,
        argv=("tool", "--quiet"),
        cwd=job.cwd,
        env=job.env,
        log=os.path.join(job.scratch, "log"),
        stdin=job.prompt.encode("utf-8", "replace"),
    )
    return replace(found, **changes)


def gives(**changes: Callable[[Job], Any]) -> dict[str, Callable[[Job], Launch]]:
    return {"launch": lambda job: launched(job, **{name: change(job) for name, change in changes.items()})}


def reads(**parts: Any) -> dict[str, Callable[[Job], Reader]]:
    return {"reader": lambda _job: Reader(**parts)}


def ends(**changes: Any) -> dict[str, Callable[[Job], Reader]]:
    """A reader whose outcome is this, whatever was said."""
    fields = {"kind": "failed", "reason": "it failed", **changes}
    return reads(outcome=lambda _self, _exit: Outcome(**fields))


def into_file(job: Job, *, mode: int = 0o600, place: str = "", text: str | None = None) -> Launch:
    path = Path(place or job.scratch) / "prompt.txt"
    path.write_bytes((job.prompt if text is None else text).encode("utf-8", "replace"))
    path.chmod(mode)
    return launched(job, stdin=b"", argv=("tool", "--file", str(path)))


def strict(job: Job) -> Launch:
    """Raises for half a character what it should have said."""
    return launched(job, stdin=job.prompt.encode())


def refuses_half(job: Job) -> Launch:
    try:
        return strict(job)
    except UnicodeEncodeError:
        raise FleetError("bad_input", "half a character", hint="write it again") from None


def test_a_sound_provider_passes_and_its_launches_are_handed_back(tmp_path: Path) -> None:
    assert {launch.argv for launch in check_provider(Tool(), tmp_path, answer=ANSWER)} == {("tool", "--quiet")}


@pytest.mark.parametrize("launch", [into_file, refuses_half])
def test_a_private_file_is_as_good_and_so_is_a_sentence(launch: Callable[[Job], Launch], tmp_path: Path) -> None:
    check_provider(Tool(launch=launch), tmp_path, answer=ANSWER)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"name": ""}, "one printable word"),
        ({"usable": lambda: True}, "wanted None or a reason"),
        ({"launch": lambda _job: 1 // 0}, r"launch\(\) raised ZeroDivisionError"),
        ({"launch": lambda job: job.env.update(A="b")}, r"launch\(\) raised AttributeError"),
        ({"launch": lambda _job: ["tool"]}, "wanted a Launch"),
        (gives(argv=lambda _job: ()), "wanted a tuple of texts"),
        (gives(argv=lambda _job: ["tool"]), "wanted a tuple of texts"),
        (gives(argv=lambda _job: ("tool", 7)), "no text into argv"),
        (gives(argv=lambda _job: ("",)), "a program without a name"),
        (gives(argv=lambda job: ("tool", job.prompt)), "puts the prompt into argv"),
        (gives(argv=lambda job: ("sh", "-c", f"tool {shlex.quote(job.prompt)}")), "puts the prompt into argv"),
        (gives(argv=lambda job: ("tool", job.prompt[:-40][:5000])), "puts a part of the prompt into argv"),
        (gives(env=lambda job: {**job.env, "PROMPT": job.prompt}), "the prompt into the environment"),
        (gives(stdin=lambda _job: "text"), "not bytes"),
        (gives(stdin=lambda _job: b""), "loses or changes the prompt"),
        (gives(stdin=lambda job: job.prompt.replace("\r\n", "\n").encode("utf-8", "replace")), "loses or changes"),
        (gives(stdin=lambda job: job.prompt.encode("ascii", "replace")), "loses or changes"),
        (gives(stdin=lambda job: job.prompt.encode("utf-8", "replace")[-65536:]), "loses or changes"),
        (gives(stdin=lambda job: job.prompt.lstrip("-").encode("utf-8", "replace")), "loses or changes"),
        (gives(stdin=lambda job: job.prompt.replace("{cwd}", job.cwd).encode("utf-8", "replace")), "loses or changes"),
        ({"launch": lambda job: into_file(job, mode=0o644)}, "others can read it"),
        ({"launch": lambda job: into_file(job, place=job.cwd)}, "outside the directory of the attempt"),
        ({"launch": lambda job: into_file(job, text="lost")}, "loses or changes the prompt"),
        ({"launch": strict}, "UnicodeEncodeError for half a character"),
        (gives(argv=lambda job: ("tool", job.task.target[-1:])), "half a character into argv"),
        (gives(speaks=lambda _job: None), "whether its agent speaks"),
        (gives(worker=lambda _job: "me"), "calls the worker 'me'"),
        (gives(cwd=lambda _job: "/"), "not in the directory of the job"),
        (gives(log=lambda _job: "log"), "an absolute path"),
        (gives(env=lambda job: {**job.env, "A=B": "c"}), "no process can be given"),
        (gives(env=lambda job: {**job.env, "A": "b\0"}), "no process can be given"),
        (gives(env=lambda job: {**job.env, "A": None}), "no process can be given"),
        (gives(env=lambda job: {**os.environ, **job.env}), "mixes the environment of this process"),
        (gives(env=lambda job: {k: v for k, v in job.env.items() if "FLEET_" not in k}), "takes .*FLEET_WORKER.* away"),
        (gives(env=lambda job: {**job.env, "FLEET_GENERATION": "9"}), "takes FLEET_GENERATION away"),
        (gives(env=lambda _job: {"PATH": "/bin"}), "takes AGENT_DIR"),
        (gives(env=lambda job: {k: v for k, v in job.env.items() if k != "A_VARIABLE"}), "does not pass on A_VARIABLE"),
    ],
)
def test_a_launch_that_breaks_a_promise_is_named(parts: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_provider(Tool(**parts), tmp_path, answer=ANSWER)


def says_done(self: Any, exit: Exit) -> Outcome:
    return Outcome(kind="done", result="yes") if exit.code == 0 else Outcome(kind="failed", reason="no")


def done_when_stopped(self: Reader, exit: Exit) -> Outcome:
    return Outcome(kind="done", result="so far") if exit.cause == "stopped" else Reader.outcome(self, exit)


def done_with_any_words(self: Any, line: str) -> list[Event]:
    self.result = line.strip().encode("utf-8", "replace").decode() or self.result
    return []


def raises_for(text: str) -> Callable[[Any, str], Iterator[Event]]:
    def feed(self: Reader, line: str) -> Iterator[Event]:
        if text in line:
            raise KeyError(text)
        return iter(Reader.feed(self, line))

    return feed


def parses(self: Any, line: str) -> list[Event]:
    import json

    json.loads(line)
    return []


def passes_half_on(self: Any, line: str) -> list[Event]:
    return [Event(kind="text", text=line)]


def raises_for_signals(self: Reader, exit: Exit) -> Outcome:
    return Outcome(kind="failed", reason="status " + "x" * exit.code) if exit.code else Reader.outcome(self, exit)


def changes_its_mind(self: Any, _exit: Exit) -> Outcome:
    self.asked = getattr(self, "asked", 0) + 1
    return Outcome(kind="failed", reason=f"asked {self.asked} times")


def different_each_time() -> Callable[[Any, Exit], Outcome]:
    numbers = itertools.count()

    def outcome(self: Any, exit: Exit) -> Outcome:
        if not self.result:
            return Reader.outcome(self, exit)
        self.number = getattr(self, "number", None) or next(numbers) + 1
        return Outcome(kind="done", result=f"{self.result} {self.number}")

    return outcome


def whole_lines_only(self: Any, line: str) -> list[Event]:
    if line == ANSWER[-1]:
        self.result = line
    return []


def counts_lines(self: Any, line: str) -> Iterable[Event]:
    self.lines = getattr(self, "lines", 0) + 1
    return Reader.feed(self, line)


def told_by_lines(self: Any, exit: Exit) -> Outcome:
    return Outcome(kind="done", result=f"in {self.lines} lines") if self.result else Reader.outcome(self, exit)


def gives_up_at_long_lines(self: Any, line: str) -> Iterable[Event]:
    self.spoilt = getattr(self, "spoilt", False) or len(line) > 10_000
    return [] if self.spoilt else list(Reader.feed(self, line))


def opens_the_project(job: Job) -> Reader:
    os.listdir(job.cwd)
    return Reader()


def needs_the_environment(job: Job) -> Reader:
    return Reader(path=Path(job.env["PATH"]))


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"reader": lambda _job: 1 // 0}, r"reader\(\) raised ZeroDivisionError"),
        ({"reader": opens_the_project}, r"reader\(\) raised FileNotFoundError"),
        ({"reader": needs_the_environment}, r"reader\(\) raised KeyError"),
        (reads(outcome=says_done), "done that printed nothing"),
        (reads(outcome=done_when_stopped), "done that printed nothing .cause stopped"),
        (reads(outcome=raises_for_signals, feed=lambda _self, _line: 1 // 0), "reader raised ZeroDivisionError"),
        (
            reads(outcome=lambda _self, exit: [][exit.code]),
            r"outcome\(\) for cause exited, status 0.* raised IndexError",
        ),
        (reads(outcome=lambda _self, _exit: None), "wanted an Outcome"),
        (reads(outcome=changes_its_mind), "changes its mind"),
        (reads(outcome=different_each_time()), "differently the second time"),
        (ends(kind="fine"), "an outcome of the kind 'fine'"),
        (ends(reason=""), "does not say why"),
        (ends(reason="\ud83d"), "cannot be written down"),
        (ends(session=None), "cannot be written down"),
        (ends(resets_at="soon"), "resets at 'soon'"),
        (ends(usage=Usage(input=-1)), "counts -1 for input"),
        (ends(usage=Usage(turns=True)), "counts True for turns"),
        (ends(usage=Usage(money=float("nan"))), "of money"),
        (ends(), "calls its own answer failed"),
        (reads(feed=parses), "reader raised JSONDecodeError"),
        (reads(feed=lambda _self, line: [] if line.isascii() else 1 // 0), "reader raised ZeroDivisionError"),
        (reads(feed=lambda _self, line: ("[[[[" in line and 1 // 0) or []), "reader raised ZeroDivisionError"),
        (reads(feed=lambda _self, line: (len(line) > 1 << 22 and 1 // 0) or []), "reader raised ZeroDivisionError"),
        (reads(feed=raises_for("! done: the")), "reader raised KeyError"),
        (reads(feed=lambda _self, _line: None), "reader raised TypeError"),
        (reads(feed=lambda _self, _line: ["text"]), "wanted an Event"),
        (reads(feed=lambda _self, _line: [Event(kind="news")]), "an event of the kind 'news'"),  # type: ignore[arg-type]
        (reads(feed=lambda _self, _line: [Event(kind="text", usage=7)]), "the usage 7"),  # type: ignore[arg-type]
        (reads(feed=passes_half_on), "half a character on"),
        (reads(feed=done_with_any_words), "done that printed only: You've hit your limit"),
        (reads(feed=whole_lines_only), "depends on how a line ends"),
        (reads(feed=counts_lines, outcome=told_by_lines), "when it comes in pieces"),
        (reads(feed=gives_up_at_long_lines), "loses its answer behind a long line"),
        (
            reads(outcome=lambda self, exit: Outcome(kind="done") if self.result else Reader.outcome(self, exit)),
            "nothing of what",
        ),
    ],
)
def test_a_reader_that_breaks_a_promise_is_named(parts: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_provider(Tool(**parts), tmp_path, answer=ANSWER)


@pytest.mark.parametrize(("clears", "sentence"), [(False, "share what they have read"), (True, "disturb each other")])
def test_readers_that_share_what_they_read_are_caught(clears: bool, sentence: str, tmp_path: Path) -> None:
    said: dict[str, str] = {}

    class Forgetful(Reader):
        """Clean when it is made, and then one with whatever else is read at the same time."""

        def __init__(self) -> None:
            said["result"] = ""

        @property
        def result(self) -> str:
            return said["result"]

        @result.setter
        def result(self, text: str) -> None:
            said["result"] = text

        def feed(self, line: str) -> Iterable[Event]:
            if clears and not line:
                said["result"] = ""
            return super().feed(line)

    with pytest.raises(AssertionError, match=sentence):
        check_provider(Tool(reader=lambda _job: Forgetful()), tmp_path, answer=ANSWER)


def test_a_provider_of_commands_is_done_without_a_word_but_only_by_its_status(tmp_path: Path) -> None:
    def launch(job: Job) -> Launch:
        path = Path(job.scratch) / "task.sh"
        path.write_bytes(job.task.target.encode("utf-8", "replace"))
        path.chmod(0o600)
        return launched(job, argv=("/bin/sh", str(path)), stdin=b"")

    check_provider(
        Tool(
            launch=launch,
            **reads(
                outcome=lambda self, exit: says_done(
                    self, replace(exit, code=0 if (exit.code, exit.cause, exit.signal) == (0, "exited", None) else 1)
                )
            ),
        ),
        tmp_path,
        need="command",
    )
    with pytest.raises(AssertionError, match=r"done that printed nothing .cause first_byte"):
        check_provider(Tool(launch=launch, **reads(outcome=says_done)), tmp_path, need="command")
