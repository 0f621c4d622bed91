from __future__ import annotations

import json
import platform

from agent_fleet import __version__
from support.child import child


def test_the_version_is_told_to_people_and_programs() -> None:
    assert child("-m", "agent_fleet", "version").stdout.startswith(
        f"fleet {__version__} (Python {platform.python_version()}"
    )
    answer = json.loads(child("-m", "agent_fleet", "version", "--json").stdout)
    assert (answer["version"], answer["python"]) == (__version__, platform.python_version())
