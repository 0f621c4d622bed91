"""The contract of a provider: how it launches an agent. What its reader promises is in `readers`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from agent_fleet.errors import FleetError
from agent_fleet.model import Job, Launch, Need
from agent_fleet.protocols import Musters, Provider
from agent_fleet.testing.contract import asked, check_name, check_usable, is_writable, must
from agent_fleet.testing.crews import check_crews
from agent_fleet.testing.launches import CANARY, check_environment, new_job
from agent_fleet.testing.readers import check_reader

TEXTS = (
    "Fix the test.",
    "--help\n-n\n--dangerously-skip-permissions",
    "'\"`$(touch gone)` ; exit 3 | \\ $HOME {cwd} {prompt_file} {{model}} %s\r\n\ttab",
    "\u00e9\u4e16\U0001f680\u202e\u0301\ufeff\u2028",
    "a line of the largest prompt\n" * 36158,
)


def check_provider(
    provider: Provider, tmp_path: Path, *, answer: Sequence[str] = (), need: Need = "agent"
) -> list[Launch]:
    """Check how a provider launches and how it reads; returns its launches, one for each text that was tried.

    `answer` is the output, line by line, of an attempt that was done. `need` is "command" for a provider that runs the
    task's target itself, and whose exit status is the verdict: for it, no words are as good as any.
    """
    name = check_name(provider)
    check_usable(name, provider.usable)
    launches = []
    for number, text in enumerate(TEXTS):
        job = new_job(tmp_path / f"job{number}", text, need=need)
        with _canary():
            launch = asked(f"{name}.launch()", provider.launch, job)
        _check_launch(name, job, launch)
        _check_text(name, job, launch, text)
        launches.append(launch)
    _check_half_a_character(name, provider, tmp_path, need)
    check_reader(name, provider.reader, tmp_path / "gone", answer=answer, need=need)
    if isinstance(provider, Musters):
        check_crews(name, provider, tmp_path / "crews")
    return launches


def _check_launch(name: str, job: Job, launch: Launch) -> None:
    must(isinstance(launch, Launch), f"{name}.launch() gave {launch!r}, wanted a Launch")
    must(isinstance(launch.argv, tuple) and launch.argv, f"{name} launches {launch.argv!r}, wanted a tuple of texts")
    must(all(isinstance(word, str) for word in launch.argv), f"{name} puts something that is no text into argv")
    must(launch.argv[0], f"{name} launches a program without a name")
    must(isinstance(launch.stdin, bytes), f"{name} gives an input that is not bytes")
    must(isinstance(launch.speaks, bool), f"{name} does not say whether its agent speaks")
    must(launch.worker == job.worker, f"{name} calls the worker {launch.worker!r}, not {job.worker!r}")
    must(launch.cwd == job.cwd, f"{name} starts in {launch.cwd!r}, not in the directory of the job")
    must(os.path.isabs(launch.log), f"{name} names the log {launch.log!r}, wanted an absolute path")
    check_environment(name, job.env, launch.env)


def _check_text(name: str, job: Job, launch: Launch, text: str) -> None:
    """The text arrives unchanged by standard input or in a private file, and nowhere else."""
    needle = job.prompt.rpartition("\n")[2]
    must(
        not any(needle in word for word in launch.argv),
        f"{name} puts the prompt into argv, where every user can read it",
    )
    must(not any(needle in value for value in launch.env.values()), f"{name} puts the prompt into the environment")
    words = " ".join(launch.argv)
    must(len(text) < 20 or text[:4000] not in words, f"{name} puts a part of the prompt into argv")
    wanted = job.prompt.encode()
    holding = [path for path in _files(job, launch) if wanted in path.read_bytes()]
    shown = text[:30].encode("unicode_escape").decode()
    must(wanted in launch.stdin or holding, f"{name} loses or changes the prompt that begins with {shown!r}")
    for path in holding:
        mode = stat.S_IMODE(path.stat().st_mode)
        must(not mode & 0o077, f"{name} writes the prompt to {path.name} with mode {mode:o}: others can read it")
        inside = Path(job.scratch) in path.parents
        must(inside, f"{name} writes the prompt to {path}, outside the directory of the attempt")


def _check_half_a_character(name: str, provider: Provider, tmp_path: Path, need: Need) -> None:
    """A lone surrogate, as a badly cut text holds it, is refused with a sentence or replaced."""
    job = new_job(tmp_path / "half", "fine", need=need)
    task = replace(job.task, target=job.task.target + "\ud83d")
    try:
        launch = provider.launch(replace(job, prompt=job.prompt + "\ud83d", task=task))
    except FleetError:
        return
    except Exception as error:
        raise AssertionError(f"{name}.launch() raised {type(error).__name__} for half a character: {error}") from error
    must(all(is_writable(word) for word in launch.argv), f"{name} puts half a character into argv")


def _files(job: Job, launch: Launch) -> Iterator[Path]:
    """The files that may hold a prompt: below the job's directories, and those that an argument or a variable names."""
    seen: set[Path] = set()
    named = (
        Path(word) for word in (*launch.argv[1:], *launch.env.values()) if os.path.isabs(word) and len(word) < 4096
    )
    below = (path for place in (job.scratch, job.cwd) for path in Path(place).rglob("*"))
    for path in _regular((*named, *below)):
        if path not in seen:
            seen.add(path)
            yield path


def _regular(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        try:
            if path.is_file() and path.stat().st_size < 1 << 26:
                yield path
        except (OSError, ValueError):
            continue


@contextmanager
def _canary() -> Iterator[None]:
    """A variable of this process that no worker may see."""
    os.environ[CANARY] = "seen"
    try:
        yield
    finally:
        del os.environ[CANARY]
