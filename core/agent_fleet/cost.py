"""What a worker costs on this machine, remembered between runs.

One JSON file: `{"format": 1, "workers": {provider: {lane: [[memory, cores, at], …]}}}`, memory in bytes, newest sample
last. It only ever helps to guess better, so nothing that is wrong with it stops a run: it is put in words, and the
default is used.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from agent_fleet.model import Cost

FORMAT: Final = 1
WINDOW: Final = 64
PERCENTILE: Final = 0.75
LEAST_CORES: Final = 0.05
MAX_FILE: Final = 8 << 20
LOCK_SECONDS: Final = 2.0

Sample = tuple[float, float, float]
Samples = dict[str, dict[str, list[Sample]]]


class CostBook:
    """The costs in the file at `path`. `warnings` collects, in words, what could not be read or written."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.warnings: list[str] = []
        self._recorded: set[tuple[str, str]] = set()

    def cost(self, provider: str, lane: str, *, default_memory: float, default_cores: float) -> Cost:
        """The 75th percentile (nearest rank) of the last samples, or the default if there is none."""
        samples = self._load().get(provider, {}).get(lane, [])
        if not samples:
            return Cost(provider=provider, lane=lane, memory=default_memory, cores=default_cores, basis="default")
        return Cost(
            provider=provider,
            lane=lane,
            memory=_percentile([sample[0] for sample in samples]),
            cores=max(LEAST_CORES, _percentile([sample[1] for sample in samples])),
            basis="measured" if (provider, lane) in self._recorded else "remembered",
            samples=len(samples),
            at=samples[-1][2],
        )

    def record(self, provider: str, lane: str, memory_bytes: float, cores: float) -> None:
        """Add one worker's cost. A sample that no worker can have (no memory, no finite number) is left out."""
        if not (math.isfinite(memory_bytes) and math.isfinite(cores) and memory_bytes > 0 and cores >= 0):
            self._warn(f"a cost of {memory_bytes} bytes and {cores} cores was left out")
            return
        try:
            os.makedirs(os.path.dirname(self.path) or ".", mode=0o700, exist_ok=True)
            with self._locked():
                samples = self._load(set_aside=True)
                window = samples.setdefault(provider, {}).setdefault(lane, [])
                window.append((float(memory_bytes), float(cores), time.time()))
                del window[:-WINDOW]
                self._save(samples)
        except OSError as error:
            self._warn(f"the cost of a worker was not kept: {error.strerror or error} ({self.path})")
            return
        self._recorded.add((provider, lane))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among the writers of this directory. Raises OSError if another holds it too long."""
        folder = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            deadline = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.005)
            yield
        finally:
            os.close(folder)

    def _load(self, *, set_aside: bool = False) -> Samples:
        """All samples. A file that is not ours to understand counts as empty and, if asked for, gets out of the way."""
        try:
            content = _contents(self.path)
            return {} if content is None else _parsed(content)
        except _NewerError as newer:
            if set_aside:
                raise OSError(0, str(newer)) from None
            self._warn(f"{self.path}: {newer}")
        except ValueError as error:
            self._set_aside(str(error)) if set_aside else self._set_aside_alone()
        except OSError as error:
            if set_aside:
                raise
            self._warn(f"remembered costs cannot be read: {error.strerror or error} ({self.path})")
        return {}

    def _set_aside_alone(self) -> None:
        try:
            with self._locked():
                self._load(set_aside=True)
        except OSError as error:
            self._warn(f"a damaged file could not be moved away: {error.strerror or error} ({self.path})")

    def _set_aside(self, why: str) -> None:
        number = 1
        while os.path.lexists(f"{self.path}.corrupt-{number}"):
            number += 1
        os.rename(self.path, f"{self.path}.corrupt-{number}")
        self._warn(f"remembered costs were damaged ({why}) and are now in {self.path}.corrupt-{number}")

    def _save(self, samples: Samples) -> None:
        temporary = f"{self.path}.tmp"  # one name is enough: the writer is alone
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump({"format": FORMAT, "workers": samples}, file, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, self.path)
        except OSError:
            if os.path.lexists(temporary):
                os.unlink(temporary)
            raise

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


class _NewerError(Exception):
    """The file was written by a newer version, so it is neither damaged nor to be written."""


def _percentile(values: list[float]) -> float:
    return sorted(values)[math.ceil(PERCENTILE * len(values)) - 1]


def _contents(path: str) -> bytes | None:
    """The file's bytes; None if there is none. Raises ValueError for what is no file of a sensible size, OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode):
            raise ValueError("it is no regular file")
        if seen.st_size > MAX_FILE:
            raise ValueError("it is too large")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_FILE)
    finally:
        os.close(descriptor)


def _parsed(content: bytes) -> Samples:
    """The samples in a file. Raises ValueError for any other form than the one above, _NewerError for a later one."""
    try:
        body = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(body, dict) or not isinstance(body.get("format"), int):
        raise ValueError("it has no format version")
    if body["format"] > FORMAT:
        raise _NewerError("it was written by a newer version of fleet and is left alone")
    samples: Samples = {}
    try:
        for provider, lanes in body["workers"].items():
            samples[provider] = {lane: [_sample(each) for each in window] for lane, window in lanes.items()}
    except (KeyError, TypeError, AttributeError):
        raise ValueError("it is not a table of samples") from None
    return samples


def _sample(each: object) -> Sample:
    if not isinstance(each, list) or len(each) != 3:
        raise ValueError("a sample is not three numbers")
    for number in each:
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < math.inf:
            raise ValueError("a sample holds what is no amount")
    if each[0] <= 0:
        raise ValueError("a sample holds no memory")
    return float(each[0]), float(each[1]), float(each[2])
