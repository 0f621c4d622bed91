"""A deployment worked by agents over an API: many in one process, each on its own items, and nothing else of the queue."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from support.api_lab import Lab, serving
from support.procs import wait_until


def test_a_thousand_inputs_are_covered_once_by_a_hundred_agents_in_one_process(tmp_path: Path) -> None:
    lines = [f"https://site.example/{n}" for n in range(1000)]
    with serving() as server:
        lab = Lab(tmp_path, server, config="[api]\nseats = 100\n")
        other = lab.add("somebody else's")
        report = lab.json(
            *("deploy", "--agents", "100", "--task", "Research these 1000 URLs", "--inputs", "-"),
            *("--force", "--stagger", "0"),
            stdin="\n".join(lines).encode(),
        )
        assert report["coverage"]["answered"] == 1000
        assert {item["input"]: item["value"] for item in report["items"]} == {line: line[::-1] for line in lines}
        assert server.calls == 100, "each part is paid for once"
        assert report["money"]["known"] > 0
        sheets = {Path(file).suffix: Path(file).read_text() for file in report["files"]}
        assert json.loads(sheets[".json"])["cost"] == {"tokens": report["tokens"], "money": report["money"]}
        said = f"cost: used {report['tokens']:,} tokens; money: {report['money']['known']:.4f} US dollars"
        assert all(said in sheets[form].replace("\\", "") for form in (".md", ".html"))
        assert lab.json("cost", "--run", "d1")["total"]["tokens"]["total"] == report["tokens"] > 0
        assert lab.state(other) == "inbox"
        assert lab.is_clean()


def test_an_estimate_by_what_was_measured_holds_for_the_run_that_follows(tmp_path: Path) -> None:
    """The band is of ten agents that have worked before; the same job again stays within it."""
    words = ("deploy", "--agents", "5", "--parts", "10", "--task", "Read", "--inputs", "-", "--force", "--stagger", "0")
    lines = "".join(f"line {n}\n" for n in range(10))
    with serving() as server:
        lab = Lab(tmp_path, server, config="[api]\nseats = 5\n")
        lab.json(*words, stdin=lines.encode())
        band = lab.json(*words, "--estimate", stdin=lines.encode())
        assert (
            band["basis"][0] == "measured: 10 attempts of this kind of agent in this project, whatever they worked on"
        )
        began = time.monotonic()
        report = lab.json(*words, stdin=lines.encode())
        seconds = time.monotonic() - began
    for name, figure in (("tokens", report["tokens"]), ("money", report["money"]["known"]), ("seconds", seconds)):
        assert band[name]["low"] <= figure * 1.0001 and figure <= band[name]["high"] * 1.0001, name


def test_a_deployment_beside_another_has_room_for_its_own_tasks_and_is_told_who_fills_its_cap(tmp_path: Path) -> None:
    """What waits for another run is no work of this one; the cap is one of the project, and says who has used it up."""
    deploy = ("deploy", "--force", "--stagger", "0")
    with serving() as server:
        lab = Lab(tmp_path, server)
        (tmp_path / "lines").write_text("a\nb\nc\nd\n")
        wide = ("--inputs", str(tmp_path / "lines"), "--agents", "1", "--parts", "4")
        with lab.start(*deploy, "--task", "slow\nSLEEP 600", *wide) as slow:
            try:
                wait_until(lambda: server.calls, "the first is at work")
                report = lab.json(
                    *(*deploy, "--task", "B", "--need", "browser", "--agents", "2", "--inputs", "-"), stdin=b"1\n2\n"
                )
                assert report["coverage"]["answered"] == 2, report
                full = "lane api is full with 1 at work: the cap you asked for"
                assert {each["name"]: each["why"] for each in lab.json("why", "t2")["reasons"]} == {"cap": full}
                with lab.start("resume-run", "d1", "--force") as second:
                    assert second.stderr is not None
                    told = second.stderr.readline().decode()
                    second.kill()
                why = "the cap you asked for, 1, in which those count that others have at work: 1 in r1"
                assert told == f"waiting for what others work on: cap: {why}\n"
            finally:
                slow.kill()
                for pid in lab.alive():
                    os.kill(pid, signal.SIGKILL)


def test_a_person_at_a_deployment_is_told_that_all_its_calls_wait_and_for_what(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a\nb\nc\n")
    with serving() as server:
        lab = Lab(tmp_path, server, config="[api]\nbackoff = 1\nretries = 50\n[throttle]\nbackoff = 30\n")
        words = ("--task", "wall\nSTATUS 501", "--inputs", str(tmp_path / "lines"), "--force", "--stagger", "0")
        with lab.start("deploy", *words) as deploy:
            try:
                assert deploy.stderr is not None
                told = next(line for line in map(bytes.decode, deploy.stderr) if line.startswith("calls of anthropic"))
            finally:
                deploy.kill()
                for pid in lab.alive():
                    os.kill(pid, signal.SIGKILL)
    assert f" at {server.url}: " in told and " wait; none begins after failures" in told
    assert "the last of which met an error of the server (500 and above); one is to try " in told
