"""Names of models as they may stand in an argument list."""

from __future__ import annotations

import re

from agent_fleet.api import FleetError

NAME = re.compile(r"[A-Za-z0-9][\w.:/@\[\]+-]{0,199}", re.ASCII)


def model_name(name: str) -> str:
    """The name, or an empty text. Raises `bad_input` for one that a program could take for an option."""
    if name and not NAME.fullmatch(name):
        raise FleetError(
            "bad_input",
            f"{name[:40]!r} is no name of a model",
            hint="a name begins with a letter or digit, without spaces",
        )
    return name
