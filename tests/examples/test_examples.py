"""The example distributions: built, installed by pip beside fleet in an environment of their own, and used there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
EXAMPLES = ("agent-fleet-acme", "agent-fleet-slurm")
PATIENCE = 600.0
MOST_LINES = 45
MORE_LINES = 25  # for accounts

ACME = """\
#!/bin/sh
cat >prompt.seen
echo '{"type": "text", "text": "I look."}'
echo '{"type": "answer", "text": "The test passes."}'
"""


class Installed:
    """A virtual environment in which fleet and the examples are installed, and a project to use them on."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.bin = place / "venv" / "bin"
        self.project = place / "project"
        self.programs = place / "programs"
        for directory in (self.project, self.programs, place / "home"):
            directory.mkdir(parents=True)

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of this process's own but what pip needs to find its index."""
        ours = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
        path = [str(self.programs), str(self.bin), os.defpath]
        return ours | {
            "PATH": os.pathsep.join(path),
            "HOME": str(self.place / "home"),
            "TMPDIR": str(self.place),
            "LANG": "C.UTF-8",
        }

    def run(self, *argv: str | Path, cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            [str(word) for word in argv],
            cwd=cwd or self.project,
            env=self.environment | dict(environ or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, (argv, done.stdout[-4000:], done.stderr[-4000:])
        return done.stdout

    def fleet(self, *arguments: str, **environ: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run(self.bin / "fleet", *arguments, "--json", environ=environ))
        return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place = Installed(tmp_path_factory.mktemp("examples"))
    wheels = place.place / "wheels"
    for source in (ROOT, *(ROOT / "examples" / name for name in EXAMPLES)):
        place.run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels), cwd=source)
    found = sorted(str(path) for path in wheels.glob("*.whl"))
    assert len(found) == 3
    venv.create(place.bin.parent, with_pip=True)
    named = [f"{path}[testing]" if "agent_fleet-" in path else path for path in found]
    place.run(place.bin / "python", "-m", "pip", "install", "--quiet", *named)
    place.programs.joinpath("acme").write_text(ACME)
    place.programs.joinpath("acme").chmod(0o700)
    place.fleet("init")
    return place


def test_the_provider_is_as_short_as_it_is_said_to_be() -> None:
    lines = (ROOT / "examples" / EXAMPLES[0] / "agent_fleet_acme.py").read_text().splitlines()
    begin, end = lines.index("ACCOUNTS = api.AccountSpec("), lines.index(")")
    more = end + 1 - begin + 6  # the method that hands it out, and empty lines
    assert more <= MORE_LINES
    assert len(lines) - more <= MOST_LINES


def test_they_are_listed_with_their_distributions(installed: Installed) -> None:
    listed = installed.fleet("plugins", SLURM_JOB_ID="77")
    rows = {row["name"]: row for row in listed["plugins"] if not row["builtin"]}
    assert {name: (row["family"], row["distribution"], row["usable"]) for name, row in rows.items()} == {
        "acme": ("providers", "agent-fleet-acme", True),
        "slurm": ("capacity", "agent-fleet-slurm", True),
    }
    assert listed["requirements"] == ["agent-fleet-acme==1.0.0", "agent-fleet-slurm==1.0.0"]
    assert listed["broken"] == []
    outside = {row["name"]: row for row in installed.fleet("plugins")["plugins"]}
    assert "no job of Slurm" in outside["slurm"]["why"]


def test_the_plan_counts_what_the_probe_says(installed: Installed) -> None:
    job = {"SLURM_JOB_ID": "77", "SLURM_MEM_PER_NODE": "1536", "SLURM_CPUS_ON_NODE": "64"}
    job["FLEET_CAPACITY_MAX_LOAD_PER_CORE"] = "10000"  # whatever else this machine is busy with
    (machine,) = [each for each in installed.fleet("plan", **job)["ceilings"] if each["name"] == "machine"]
    assert (machine["workers"], machine["source"]) == (1, "slurm job 77")
    assert "memory" in machine["why"]
    assert all("slurm" not in each["source"] for each in installed.fleet("plan")["ceilings"])


def test_the_probe_can_be_chosen_alone(installed: Installed) -> None:
    job = {"SLURM_JOB_ID": "77", "SLURM_MEM_PER_NODE": "1536", "SLURM_CPUS_ON_NODE": "3"}
    measured = installed.fleet("machine", FLEET_CAPACITY_PROBES="slurm", **job)
    found = {reading["quantity"]: reading["value"] for reading in measured["readings"]}
    assert (found["cores"], found["memory_limit"]) == (3, 1536 << 20)
    assert {reading["source"] for reading in measured["readings"]} == {"slurm job 77"}


def test_the_provider_works_a_task(installed: Installed) -> None:
    task = installed.fleet("add", "Fix the test.", "--provider", "acme")["id"]
    planned = installed.fleet("plan")
    assert [(each["id"], each["provider"]) for each in planned["first"]] == [(task, "acme")]
    assert installed.fleet("run", "--force")["states"] == {"done": 1}
    assert "Fix the test." in (installed.project / "prompt.seen").read_text()
    shown = installed.fleet("show", task)
    assert shown["state"] == "done"
    assert "The test passes." in json.dumps(shown)


@pytest.mark.parametrize("name", EXAMPLES)
def test_their_types_are_right_for_the_package_that_was_installed(installed: Installed, name: str) -> None:
    type_check(installed, copied(installed, name))


def test_a_mistake_in_the_types_is_seen(installed: Installed) -> None:
    source = copied(installed, EXAMPLES[0])
    module = source / "agent_fleet_acme.py"
    module.write_text(module.read_text().replace("worker=job.worker", "worker=7"))
    with pytest.raises(AssertionError, match="arg-type"):
        type_check(installed, source)


def type_check(installed: Installed, source: Path) -> None:
    options = ("--strict", "--python-executable", str(installed.bin / "python"), "--config-file", os.devnull)
    cache = ("--cache-dir", str(installed.place / "mypy"))
    installed.run(sys.executable, "-m", "mypy", *options, *cache, ".", cwd=source)


@pytest.mark.parametrize("name", EXAMPLES)
def test_their_own_tests_pass(installed: Installed, name: str) -> None:
    out = installed.run(
        installed.bin / "python", "-m", "pytest", "-q", "-W", "error", "tests", cwd=copied(installed, name)
    )
    assert " passed" in out


def copied(installed: Installed, name: str) -> Path:
    """The example in a place where nothing lies beside it and what is run there may leave files."""
    target = installed.place / "sources" / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "examples" / name, target)
    return target
