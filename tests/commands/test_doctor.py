from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.child import child
from support.distributions import install

CHECK = """
from agent_fleet.api import Finding, hookimpl

class Odd:
    name = 'odd'
    def run(self, root):
        {body}

@hookimpl
def fleet_checks():
    yield Odd()
"""


def doctor(site: Path, *arguments: str, **environ: str) -> tuple[int, str]:
    environ = {"FLEET_PROVIDERS_DEFAULT": "command", "GIT_CEILING_DIRECTORIES": str(site.parent)} | environ
    done = child("-m", "agent_fleet", "--project", str(site), "doctor", *arguments, site=site, **environ)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def check(site: Path, body: str) -> None:
    points = {"agent_fleet.checks": {"odd": "fleet_odd"}}
    install(site, "fleet-odd", modules={"fleet_odd.py": CHECK.replace("{body}", body)}, entry_points=points)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / ".agents" / "inbox").mkdir(parents=True)
    return tmp_path


def test_a_healthy_project_ends_with_status_0_and_a_line_for_every_finding(site: Path) -> None:
    status, out = doctor(site)
    assert status == 0, out
    assert "ok       lanes: the lane headless can be used" in out
    assert "ok       filesystem: the file system of the queue takes locks" in out
    assert " distribution: agent_fleet " in out  # a warning, if this checkout hides an installed copy


def test_a_fault_ends_with_status_1_and_its_hint_in_both_forms(site: Path) -> None:
    check(site, "return [Finding(level='fault', text='the roof leaks', hint='mend it')]")
    status, out = doctor(site)
    assert status == 1
    assert "FAULT    odd: the roof leaks\n         hint: mend it" in out
    status, out = doctor(site, "--json")
    answer = json.loads(out)
    assert status == 1
    assert (answer["ok"], answer["code"], answer["error"]) == (False, "unhealthy", "one fault was found")
    assert {"check": "odd", "level": "fault", "text": "the roof leaks", "hint": "mend it"} in answer["findings"]


@pytest.mark.parametrize("body", ["raise OSError('no')", "raise SystemExit", "return []", "return ['fine']"])
def test_a_check_that_raises_or_says_nothing_sensible_is_itself_a_fault(site: Path, body: str) -> None:
    check(site, body)
    status, out = doctor(site)
    assert status == 1
    assert "FAULT    odd: the check" in out
    assert "filesystem: the file system of the queue takes locks" in out


def test_a_warning_is_no_fault(site: Path) -> None:
    check(site, "return [Finding(level='warning', text='it rains'), Finding(level='unknown', text='or not')]")
    (site / ".agents" / "config.toml").write_text("[run]\nstager = 1\n", encoding="utf-8")
    status, out = doctor(site)
    assert status == 0, out
    assert "warning  odd: it rains" in out
    assert "unknown  odd: or not" in out
    assert "did you mean run.stagger?" in out


def test_a_lane_or_provider_that_cannot_be_used_is_a_fault_with_the_reason(site: Path) -> None:
    status, out = doctor(site, FLEET_LANES_AGENT="nosuch", FLEET_PROVIDERS_DEFAULT="claude", PATH="/nonexistent")
    assert status == 1
    assert "FAULT    lanes: no lanes plugin 'nosuch'" in out
    assert "FAULT    providers: the provider claude cannot be used: " in out


def test_a_broken_plugin_is_a_fault_that_names_its_distribution(site: Path) -> None:
    points = {"agent_fleet.lanes": {"bad": "nosuchmodule"}}
    install(site, "fleet-bad", version="6.6", entry_points=points)
    status, out = doctor(site)
    assert status == 1
    assert "FAULT    plugins: lanes.bad from fleet-bad 6.6: ModuleNotFoundError" in out


def test_another_fleet_on_the_path_and_an_agent_that_is_not_there_are_named(site: Path) -> None:
    (site / "bin").mkdir()
    (site / "bin" / "fleet").write_text("#!/bin/sh\necho some other program\n")
    (site / "bin" / "fleet").chmod(0o755)
    (site / ".agents" / "config.toml").write_text('[agents.gone]\nargv = ["no-such-agent"]\nprompt = "stdin"\n')
    status, out = doctor(site, PATH=f"{site}/bin:/usr/bin:/bin")
    assert status == 1
    assert "FAULT    program: `fleet` on the path is another program" in out
    assert "warning  providers: the provider gone cannot be used: " in out


def test_fix_hides_the_queue_but_leaves_what_git_tracks_to_the_person(site: Path) -> None:
    for words in (("init", "-q"), ("add", "-f", ".agents/inbox/x")):
        (site / ".agents" / "inbox" / "x").touch()
        subprocess.run(["git", "-C", str(site), *words], check=True)
    (site / ".agents" / "queue.json").write_text('{"format": 1}')
    status, out = doctor(site, "--fix")
    assert status == 1
    assert "ok       queue: mended: the clone's exclude file names the queue" in out
    assert "ok       queue: git ignores the queue" in out
    assert "FAULT    queue: git tracks a file of the queue\n         hint: `git rm -r -q --cached -- .agents`" in out
    listed = subprocess.run(["git", "-C", str(site), "ls-files"], capture_output=True, text=True, check=True)
    assert listed.stdout == ".agents/inbox/x\n"
