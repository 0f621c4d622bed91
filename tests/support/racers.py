"""Long-lived processes that do something at the same moment, round after round."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

PATIENCE = 120.0
FORK = multiprocessing.get_context("fork")


class Racers:
    """`race(...)` lets every process do one round at once and returns what each came to."""

    def __init__(self, ends: list[Connection]) -> None:
        self._ends = ends

    def race(self, *given: Any) -> list[Any]:
        for end in self._ends:
            end.send(given)
        found = []
        for end in self._ends:
            assert end.poll(PATIENCE), "a racer does not answer"
            ok, value = end.recv()
            assert ok, value
            found.append(value)
        return found


@contextmanager
def racers(number: int, act: Callable[..., Any]) -> Iterator[Racers]:
    """Fork `number` processes that call `act(index, *given)` in every round, after meeting at a barrier."""
    barrier = FORK.Barrier(number)
    pipes = [FORK.Pipe() for _ in range(number)]
    running = [FORK.Process(target=_run, args=(index, pipes[index][1], barrier, act)) for index in range(number)]
    for process in running:
        process.start()
    try:
        yield Racers([pipe[0] for pipe in pipes])
    finally:
        for near, far in pipes:
            try:
                near.send(None)
            except OSError:
                pass
            far.close()
        for process in running:
            process.join(PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        for near, _ in pipes:
            near.close()


def _run(index: int, end: Connection, barrier: Any, act: Callable[..., Any]) -> None:
    while (given := end.recv()) is not None:
        barrier.wait(PATIENCE)
        try:
            end.send((True, act(index, *given)))
        except BaseException:
            end.send((False, traceback.format_exc()))
