"""Files of a project that could give an agent orders or programs before anybody has read them. Instruction files are no such."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase


def controls_in(root: str, patterns: Iterable[str]) -> tuple[str, ...]:
    """Those of the patterns' files that are there: files, directories, and links wherever they lead.

    A pattern is a path below the project whose last part may hold `*`; capitals do not matter, as on some disks they do not.
    What cannot be looked at counts as there.
    """
    found: list[str] = []
    for pattern in patterns:
        folder, _, name = pattern.rpartition("/")
        try:
            names = os.listdir(os.path.join(root, folder))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            found.append(pattern)
            continue
        found += [
            f"{folder}/{each}" if folder else each for each in sorted(names) if fnmatchcase(each.lower(), name.lower())
        ]
    return tuple(dict.fromkeys(found))
