"""Python in a process of its own, with the sources and whatever was installed for a test on its path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "core", *sorted((ROOT / "plugins").iterdir()))


def child(*arguments: str, site: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python and wait for it. `site` is the directory it runs in and imports from; nothing else of ours is inherited."""
    path = os.pathsep.join(str(each) for each in [*SOURCES, *([site] if site else [])])
    env = {"PYTHONPATH": path, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"} | environ
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=env, cwd=str(site or ROOT), capture_output=True, text=True, timeout=120, check=False
    )
