"""Static vectors of words from the distribution `wordllama`, whose weights lie in its wheel: no network, no download, no torch.

The two files are read directly: `WordLlama.load` of 0.4.0 looks for its tokenizer in a directory that the wheel does not have and
then asks a model hub, and importing the package takes most of a second.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from agent_fleet.api import Embedder, FleetError, hookimpl

if TYPE_CHECKING:
    import numpy

WEIGHTS = ("weights", "l2_supercat_256.safetensors")
TOKENIZER = ("tokenizers", "l2_supercat_tokenizer_config.json")
INSTALL = "pip install 'agent-fleet[dedup]'"


class WordLlama:
    """Means of word vectors, of 256 numbers."""

    name = "wordllama"
    # Set by logistic regression on the tuning part of tests/data, over pairs that no fact decides; for these weights only.
    calibration: tuple[float, float, float, float] | None = (5.5, 2.91, -0.68, -4.0)

    def __init__(self) -> None:
        self._loaded: tuple[Any, Any] | None = None

    @property
    def version(self) -> str:
        """That of the distribution in which the weights lie."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version(self.name)
        except PackageNotFoundError:
            return ""

    def usable(self) -> str | None:
        """None, or what is not installed."""
        missing = [name for name in ("numpy", "safetensors", "tokenizers") if importlib.util.find_spec(name) is None]
        if missing:
            return f"{missing[0]} is not installed; {INSTALL}"
        if _directory() is None:
            return f"wordllama is not installed, or without its weights; {INSTALL}"
        return None

    def embed(self, texts: Sequence[str]) -> numpy.ndarray[Any, Any]:
        """One row of unit length for each text. Raises `unusable` where a part is not installed."""
        import numpy

        table, tokenizer = self._parts()
        rows = numpy.zeros((len(texts), table.shape[1]), numpy.float32)
        for row, encoded in enumerate(tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            if encoded.ids:
                rows[row] = table[encoded.ids].mean(0)
        rows /= numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        return rows

    def _parts(self) -> tuple[Any, Any]:
        if self._loaded is None:
            directory, why = _directory(), self.usable()
            if why or directory is None:
                raise FleetError("unusable", f"wordllama cannot be used: {why}", hint=INSTALL)
            import numpy
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer

            (table,) = load_file(os.path.join(directory, *WEIGHTS)).values()
            tokenizer = Tokenizer.from_file(os.path.join(directory, *TOKENIZER))
            tokenizer.no_padding()
            tokenizer.no_truncation()
            self._loaded = table.astype(numpy.float32), tokenizer
        return self._loaded


def _directory() -> str | None:
    """Where the package lies, found without importing it; None if it or one of its files is not there."""
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.origin:
        return None
    directory = os.path.dirname(spec.origin)
    files = (os.path.join(directory, *parts) for parts in (WEIGHTS, TOKENIZER))
    return directory if all(os.path.isfile(file) for file in files) else None


@hookimpl
def fleet_embedders() -> Iterable[Embedder]:
    yield WordLlama()
