"""A machine with accounts, and a queue whose tasks need them; the programs are stand-ins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from agent_fleet.queue import records
from support.estate import ELSEWHERE, Estate
from support.project import BOOT

SETTINGS = """
[run]
stagger = 0
grace = 2
[accounts]
{accounts}
[provider.claude]
binary = "{binary}"
[provider.codex]
binary = "{codex}"
"""

DEADLY = """
import importlib, os, signal
def die():
    os.kill(os.getpid(), signal.SIGKILL)
place = importlib.import_module("{module}")
alive = place.{name}
def deadly(*given, **more):
    if "{when}" == "before":
        die()
    alive(*given, **more)
    die()
place.{name} = deadly
"""


class Yard(Estate):
    """An estate with a queue."""

    def open(self, *lines: str) -> Yard:
        self.json("init")
        text = SETTINGS.format(accounts="\n".join(lines), binary=self.binaries["claude"], codex=self.binaries["codex"])
        (self.dir / "config.toml").write_text(text)
        return self

    def work(self, *options: str, status: int = 0) -> str:
        answer = self.fleet("run", "--force", *options)
        assert answer.status == status, answer
        return answer.out + answer.err

    def records(self, task: str) -> list[dict[str, Any]]:
        return records.outcomes(self.queue(), task)

    def accounts(self) -> list[str]:
        """Under which account each call of the stand-in was made."""
        return [Path(call["env"]["CLAUDE_CONFIG_DIR"]).name for call in self.stand_in.calls()]

    def took(self) -> list[tuple[str, list[str]]]:
        """Which tasks each session claimed by itself, under which account."""
        return [(Path(each["home"]).name, each["took"]) for each in self.stand_in.calls("took")]

    def deadly(self, module: str, name: str, when: str, *arguments: str) -> int:
        """Run a command whose process is killed before or after its first call of this function; returns how it ended."""
        words = DEADLY.format(module=module, name=name, when=when) + ELSEWHERE.format(home=str(self.home)) + BOOT
        done = subprocess.run(
            [sys.executable, "-c", words, *arguments],
            cwd=self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=120,
        )
        return done.returncode
