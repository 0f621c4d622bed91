"""What becomes of tasks that `fleet run` works: the queue is real, and so is every process."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

from support.project import BOOT
from support.runs import QUICK, Site, gone, overlap


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_command_that_succeeds_is_done_with_what_it_printed(site: Site) -> None:
    task = site.command("echo seen 'quo\"ted' $((1 + 1))")
    answer = site.work()

    assert site.state(task) == "done"
    assert 'seen quo"ted 2' in site.record(task)["result"]
    assert site.record(task)["charged"] is False
    assert site.fleet("log", task).out == 'seen quo"ted 2\n'
    assert answer.out.startswith("r1: 1 done; 1 attempt")
    assert site.is_clean()


def test_a_command_that_fails_is_tried_again_and_then_failed_with_each_cause(site: Site) -> None:
    task = site.command("echo no such thing; exit 3")
    answer = site.work("--json", status=1)

    assert site.state(task) == "failed"
    assert [record["charged"] for record in site.records(task)] == [True, True, True]
    assert all(record["reason"] == "exited 3: no such thing" for record in site.records(task))
    assert answer.data["states"] == {"failed": 1}
    assert answer.data["attempts"] == 3
    assert site.is_clean()


def test_a_check_that_passes_makes_it_done_and_is_kept(site: Site) -> None:
    task = site.command("echo made > made.txt", "--check", "cat made.txt")
    site.work()

    assert site.state(task) == "done"
    assert site.record(task)["check"] == {
        **site.record(task)["check"],
        "command": "cat made.txt",
        "code": 0,
        "output": "made\n",
    }


def test_a_check_that_fails_is_stronger_than_the_word_of_the_worker(site: Site) -> None:
    site.configure(QUICK + "[queue]\nmax_attempts = 1\n")
    task = site.command("echo all is well", "--check", "echo it is not; exit 4")
    site.work(status=1)

    record = site.record(task)
    assert site.state(task) == "failed"
    assert (record["outcome"], record["charged"]) == ("failed", True)
    assert record["reason"] == "the check failed: it exited 4"
    assert (record["check"]["output"], record["check"]["code"]) == ("it is not\n", 4)


def test_what_a_check_starts_does_not_outlive_it(site: Site) -> None:
    task = site.command("true", "--check", "setsid sleep 300 & echo $! > ../pid; exit 0")
    site.work()

    assert site.state(task) == "done"
    gone([int((site.root.parent / "pid").read_text())])


def test_needs_come_first_and_their_dependents_after(site: Site) -> None:
    first = site.command("sleep 0.3; echo a >> order")
    second = site.command("echo b >> order", "--needs", first)
    third = site.command("echo c >> order", "--needs", first, "--needs", second, "--priority", "1")
    site.work()

    assert (site.root / "order").read_text() == "a\nb\nc\n"
    assert [site.state(task) for task in (first, second, third)] == ["done"] * 3


def test_what_needs_a_failed_task_waits_and_the_run_ends_saying_so(site: Site) -> None:
    site.configure(QUICK + "[queue]\nmax_attempts = 1\n")
    first = site.command("exit 1")
    second = site.command("echo never", "--needs", first)
    answer = site.work("--json", status=1)

    assert site.state(second) == "inbox"
    assert answer.data["waiting"] == 1
    assert "1 wait for other tasks" in answer.data["why"]


def test_a_host_has_one_worker_at_a_time_and_others_go_beside(site: Site) -> None:
    site.configure('[agents.visit]\nargv = ["sh", "-c", "sleep 0.3; echo seen it"]\n')
    hosts = {name: [site.add(f"https://{name}.example/{n}", "--provider", "visit") for n in range(3)] for name in "ab"}
    site.work()
    spans = {name: [span for task in tasks for span in site.intervals()[task]] for name, tasks in hosts.items()}

    assert site.counts()["done"] == 6
    for each in spans.values():
        assert not any(overlap(*pair) for pair in itertools.combinations(each, 2))
    assert any(overlap(one, other) for one in spans["a"] for other in spans["b"])


def test_tasks_on_overlapping_paths_never_run_together(site: Site) -> None:
    paths = ["src", "src/a.py", "src/*.py", "docs", "doc?/x"]
    tasks = [site.command("sleep 0.2", "--touches", path) for path in paths]
    site.work()
    spans = [site.intervals()[task][0] for task in tasks]
    source, docs = spans[:3], spans[3:]

    assert site.counts()["done"] == 5
    assert not any(overlap(*pair) for pair in itertools.combinations(source, 2))
    assert not overlap(*docs)
    assert any(overlap(one, other) for one in source for other in docs)


def test_serial_tasks_run_one_at_a_time_and_are_shown(site: Site) -> None:
    site.configure('[agents.slow]\nargv = ["sh", "-c", "echo hello from $FLEET_TASK; sleep 0.3"]\n')
    tasks = [site.add(f"step {n}", "--need", "serial", "--provider", "slow") for n in range(3)]
    answer = site.work()
    spans = [site.intervals()[task][0] for task in tasks]

    assert site.counts()["done"] == 3
    assert not any(overlap(*pair) for pair in itertools.combinations(spans, 2))
    assert all(f"{task}  text: hello from {task}" in answer.err for task in tasks)


def test_priority_decides_the_order_and_age_among_equals(site: Site) -> None:
    for priority in ("5", "9", "1", "5"):
        site.command(f"echo {priority} >> order; echo x", "--priority", priority)
    site.fleet("run", "--force", "--max", "1")

    assert [event["task"] for event in site.events("claimed")] == ["t3", "t1", "t4", "t2"]
    assert (site.root / "order").read_text().split() == ["1", "5", "5", "9"]


def test_text_reaches_the_shell_as_it_is_however_long(site: Site) -> None:
    nasty = "printf '%s\\n' 'a\"b' \"it's\" '`id`' '$HOME' '%s'\nprintf 'line two\\n'\n# " + "x" * 1_000_000
    (site.root.parent / "big").write_text(nasty)
    task = site.json("add", "-", "--need", "command", stdin=nasty.encode())["id"]
    site.work()

    assert site.fleet("log", task).out == "a\"b\nit's\n`id`\n$HOME\n%s\nline two\n"


def test_a_command_that_came_from_outside_is_not_run_and_stops_no_other(site: Site) -> None:
    # `add` refuses one; here it has found its way into a queue all the same
    task = site.command("echo stolen > stolen")
    path = next(site.dir.glob(f"inbox/*/*/*/{task}.g0.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "trust": "outside"}))
    other = site.command("echo fine")
    answer = site.work(status=1)

    assert (site.state(task), site.state(other)) == ("failed", "done")
    assert not (site.root / "stolen").exists()
    assert site.record(task)["outcome"] == "refused"
    assert f"{task}  not started" in answer.err
    assert site.is_clean()


def test_a_worker_may_report_by_itself_and_that_counts(site: Site) -> None:
    done = site.command("fleet done $FLEET_TASK --result 'I saw it' && echo told")
    blocked = site.command("fleet block $FLEET_TASK --reason 'login required: shop.example' > /dev/null; exit 1")
    site.work(env={"PATH": f"{_bin(site)}:/usr/bin:/bin"})

    assert (site.state(done), site.state(blocked)) == ("done", "blocked")
    assert site.record(done)["result"] == "I saw it"
    assert site.record(blocked)["reason"] == "login required: shop.example"
    assert site.is_clean()


def test_the_outcome_of_a_worker_is_measured_and_used_by_the_next_plan(site: Site) -> None:
    assert site.json("plan")["cost"]["basis"] == "default"
    site.command("python3 -c 'import time; block = bytearray(60_000_000); time.sleep(1.5)'")
    site.work()
    cost = site.json("plan")["cost"]
    site.command("true")
    cost = site.json("plan")["cost"]

    assert (cost["provider"], cost["basis"], cost["samples"]) == ("command", "remembered", 1)
    # the child of the shell is counted, not the shell alone
    assert 60_000_000 < cost["memory"] < 200_000_000


def _bin(site: Site) -> Path:
    """A directory with a `fleet` that runs these sources."""
    directory = site.root.parent / "bin"
    directory.mkdir(exist_ok=True)
    script = directory / "fleet"
    path = site.environment()["PYTHONPATH"]
    script.write_text(f"#!/bin/sh\nPYTHONPATH='{path}' exec '{sys.executable}' -c '{BOOT}' \"$@\"\n")
    script.chmod(0o755)
    return directory
