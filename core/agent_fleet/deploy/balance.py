"""Cutting a row of weights into pieces of about the same weight. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def balanced(weights: Sequence[float], parts: int) -> list[range]:
    """The row cut into `parts` pieces of neighbours, or as many as it has members, each as near to its fair share as it can be.

    The fair share is what is left over the pieces that are left, so a heavy member burdens nobody but its own piece. Weights
    below zero count as zero.
    """
    row = [max(0.0, float(weight)) for weight in weights]
    parts = min(parts, len(row))
    left = sum(row)
    pieces: list[range] = []
    start = 0
    for more in range(parts, 0, -1):
        share = left / more
        end = start + 1
        taken = row[start]
        while end < len(row) - (more - 1) and (more == 1 or taken + row[end] / 2 <= share):
            taken += row[end]
            end += 1
        pieces.append(range(start, end))
        start = end
        left -= taken
    return pieces
