"""`fleet clean`: what is ours and dead goes, all else stays, and everything is said."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from support.distributions import install
from support.procs import wait_until
from support.runs import Site

CLEANER = """
    from agent_fleet.api import Finding, hookimpl

    class Tidy:
        name = "tidy"
        def __init__(self, breaks):
            self.breaks = breaks
            self.name = "broken" if breaks else "tidy"
        def run(self, root):
            return [Finding(level="ok", text="fine")]
        def clean(self, root):
            if self.breaks:
                raise RuntimeError("no broom")
            open(root + "/swept", "a").close()
            yield Finding(level="ok", text="swept " + root)

    @hookimpl
    def fleet_checks(config):
        yield Tidy(False)
        yield Tidy(True)
"""


KNOWN = (("report", "r1"), ("show", "t1"), ("log", "t1"))


def old(site: Site, run: str) -> None:
    """Have a run be over for a month."""
    path = site.dir / "runs" / run / "driver.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ended": time.time() - 30 * 86400}))


def test_scratch_of_runs_long_over_goes_and_what_is_known_of_them_stays(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for _ in range(3):
        site.command("echo seen")
        site.work()
    old(site, "r1")
    old(site, "r2")
    before = [site.fleet(*words).out for words in KNOWN]
    workers = {run: site.dir / "runs" / run / "workers" for run in ("r1", "r2", "r3")}
    would = site.json("clean", "--dry-run")["removed"]
    assert [each["path"] for each in would] == [str(workers["r1"]), str(workers["r2"])]
    assert workers["r1"].exists()
    done = site.json("clean")["removed"]

    assert [each["path"] for each in done if each["what"] == "scratch"] == [str(workers["r1"]), str(workers["r2"])]
    assert [path.exists() for path in workers.values()] == [False, False, True]
    assert list((site.dir / "owners").iterdir()) == []
    assert [site.fleet(*words).out for words in KNOWN] == before
    assert site.is_clean()
    assert site.fleet("clean").out == "nothing to clean up\n"
    site.command("echo more")
    site.work()
    assert (site.dir / "runs" / "r4").is_dir()


def test_what_is_at_work_is_left_alone(tmp_path: Path) -> None:
    site = Site(tmp_path)
    task = site.command(
        'touch "$FLEET_TMP/mine" ../began; while ! test -e ../go; do sleep 0.05; done; test -e "$FLEET_TMP/mine"'
    )
    with site.driving() as driver:
        wait_until((tmp_path / "began").exists, "it works")
        assert site.json("clean")["removed"] == []
        (tmp_path / "go").touch()
        assert driver.end().status == 0
    assert site.state(task) == "done"


def test_files_that_somebody_died_over_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    site = Site(tmp_path)
    dead, alive, fresh = (site.dir / "owners" / f".tmp-{pid}-1" for pid in (2**22 + 1, os.getpid(), 2**22 + 2))
    for path in (dead, alive, fresh):
        path.touch()
        if path is not fresh:
            os.utime(path, (time.time() - 7200,) * 2)
    assert [each["path"] for each in site.json("clean")["removed"]] == [str(dead)]
    assert (dead.exists(), alive.exists(), fresh.exists()) == (False, True, True)


def test_whoever_can_clean_up_is_asked_and_one_that_cannot_costs_only_itself(tmp_path: Path) -> None:
    site = Site(tmp_path)
    points = {"agent_fleet.checks": {"tidy": "tidy_checks"}}
    install(tmp_path / "site", "tidy", modules={"tidy_checks.py": CLEANER}, entry_points=points)
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), site.environment()["PYTHONPATH"]])}
    would = site.json("clean", "--dry-run", env=env)
    assert {"tidy", "broken"} <= set(would["asked"]) and would["findings"] == []
    assert not (site.root / "swept").exists()
    found = {each["by"]: each for each in site.json("clean", env=env)["findings"] if each["by"] in ("tidy", "broken")}
    assert found["tidy"]["text"] == f"swept {site.root}"
    assert found["broken"]["level"] == "fault" and "no broom" in found["broken"]["text"]
    assert (site.root / "swept").exists()


def test_a_worker_does_not_clean_up_under_the_others(tmp_path: Path) -> None:
    assert Site(tmp_path).json("clean", env={"FLEET_WORKER": "x"}, status=2)["code"] == "refused"
