"""What was sent to a terminal, as text: no control sequences, and no more than a terminal would have left."""

from __future__ import annotations

import re
from typing import Final

# ECMA-48: control sequences, string controls (OSC, DCS, APC, PM, SOS), and two-character escapes
ESCAPES: Final = (
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
CONTROLS: Final = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
_FORWARD: Final = r"\x1b\[(\d{0,3})C"
_ELSEWHERE: Final = r"\x1b\[[\d;]*[ABEFHfd]|\x1b[DEM]"
_ERASED: Final = r"[^\b]\x08(?: \x08)?"


def well_formed(text: str) -> str:
    """The text with every lone surrogate replaced, so that it can be written as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def plain(line: str) -> str:
    """The line as a terminal would leave it: colours gone, and what a carriage return overwrote gone."""
    line = line.rstrip("\r\n")
    if "\x1b" in line or "\x9b" in line:
        line = re.sub(ESCAPES, "", line)
    line = line[line.rfind("\r") + 1 :]
    return well_formed(re.sub(CONTROLS, "", line))


def rows(line: str) -> list[str]:
    """The rows of a screen that one line of a terminal's output was painted on, without blank ones if there are several.

    A program that paints moves the cursor instead of ending lines. What it painted is kept in the order of painting.
    """
    line = re.sub(_FORWARD, lambda found: " " * int(found[1] or 1), line)
    pieces = re.split(_ELSEWHERE, line)
    if len(pieces) == 1:
        return [plain(re.sub(_ERASED, "", line) if "\b" in line else line)]
    painted = [plain(piece).rstrip() for piece in pieces]
    return [row for row in painted if row.strip()]
