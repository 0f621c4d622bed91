"""Texts by how often each letter stands in them: a stand-in for a model that one has already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from agent_fleet.api import Embedder, hookimpl

if TYPE_CHECKING:
    import numpy


class Letters:
    name = "letters"
    version = ""
    calibration: tuple[float, float, float, float] | None = None

    def usable(self) -> str | None:
        return None

    def embed(self, texts: Sequence[str]) -> numpy.ndarray[Any, Any]:
        import numpy

        rows = numpy.zeros((len(texts), 26), numpy.float32)
        for row, text in enumerate(texts):
            for letter in text.lower():
                if "a" <= letter <= "z":
                    rows[row, ord(letter) - ord("a")] += 1
        rows /= numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        return rows


@hookimpl
def fleet_embedders() -> Iterable[Embedder]:
    yield Letters()
