"""Starts the agent, as a module or by the path of this file: `python -I -S __main__.py` needs nothing but Python."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    from agent_fleet.testing.agent import MOST
    from agent_fleet.testing.agent.events import result
    from agent_fleet.testing.agent.modes import MODES
    from agent_fleet.testing.agent.script import script_of

    signal.alarm(int(MOST["seconds"]) + 60)
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    script = script_of(prompt, os.environ)
    act = MODES.get(script.mode)
    if act is None:
        result("failed", reason=f"there is no mode {script.mode!r}")
        return 2
    return act(script)


if __name__ == "__main__":
    sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))
    sys.exit(main())
