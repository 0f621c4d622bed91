"""What many agents returned, put together: duplicates linked, a verdict by coverage, and pages on which every text is data."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from agent_fleet.aggregate.report import Report
from agent_fleet.deploy import assembly, coverage, dispatch
from agent_fleet.deploy.comparison import Comparison
from agent_fleet.deploy.coverage import Fate
from agent_fleet.deploy.record import Deployment, Settings, create
from agent_fleet.deploy.values import Item, Scope
from agent_fleet.queue import finish
from agent_fleet.queue.store import Queue
from agent_fleet.queue.task import Habits
from support.deployments import hired
from support.project import enlist, take
from support.runs import Site

HABITS = Habits()


def test_a_deployment_ends_with_a_report_in_three_forms(tmp_path: Path) -> None:
    site = hired(Site(tmp_path))
    lines = ["elttob", "<script>alert(1)</script>", "fail one"]
    told = site.json(
        *("deploy", "--task", "Turn it round", "--inputs", "-", "--parts", "2", "--force", "--stagger", "0"),
        stdin="\n".join(lines).encode(),
        status=1,
    )
    assert told["verdict"] == "no verdict: only 2 of 3 were answered"
    assert told["duplicates"]["answers"] == 2
    files = {Path(file).name: Path(file).read_text() for file in told["files"]}
    assert set(files) == {"report.json", "report.md", "report.html"}
    assert len(json.loads(files["report.json"])["entries"]) == 2
    assert json.loads(files["report.json"])["cost"] == {"tokens": None, "money": None}, "what nobody told is unknown"
    assert "<script>" not in files["report.html"]
    for page in (files["report.md"].replace("\\", ""), files["report.html"]):
        assert page.index("fail one: unreachable, no answer") < page.index("elttob · t")
    assert site.json("report", "d1", status=1)["verdict"] == told["verdict"]
    assert "no verdict" in site.fleet("report", "d1").out


def test_where_a_report_cannot_be_written_it_is_said_how_to_go_on_and_not_to_pay_again(tmp_path: Path) -> None:
    site = hired(Site(tmp_path))
    words = ("--force", "--stagger", "0")
    site.json("deploy", "--task", "Turn it round", "--inputs", "-", *words, stdin=b"one")
    page = site.dir / "deployments" / "d1" / "report.json"
    page.unlink()
    page.mkdir()
    answer = site.fleet("resume-run", "d1", *words)
    assert answer.status == 1
    assert "d1 cannot go on" in answer.err
    assert "go on with: fleet resume-run d1" in answer.err
    page.rmdir()
    assert site.json("resume-run", "d1", *words)["coverage"]["answered"] == 1


def small(*values: str) -> Deployment:
    items = tuple(Item(id=f"i{n}", value=value) for n, value in enumerate(values))
    scopes = (Scope(items=tuple(item.id for item in items)),)
    contract = {"type": ["string", "null"]}
    return Deployment(
        id="",
        instruction="Do",
        decomposer="items",
        source="-",
        digest="",
        items=items,
        scopes=scopes,
        settings=Settings(),
        contract=contract,
    )


def test_what_skips_an_item_makes_no_whole_and_the_report_and_the_answer_agree() -> None:
    deployment = small("a", "b")
    one, two = deployment.items
    for value in ("x", None):
        found = [
            Fate(item=one, kind="answered", value=value, task="t1"),
            Fate(item=two, kind="skipped", why="w", task="t1"),
        ]
        counted = coverage.coverage(found)
        report = assembly.assemble(deployment, found, [], Comparison(None, None))
        assert (counted.share, report.coverage.share) == (0.5, 0.5)
        assert report.verdict == "no verdict: only 1 of 2 were answered"
        assert [(gap.item, gap.why) for gap in report.gaps] == [("i1", "w")]


def test_what_is_open_is_no_failure_and_is_told_with_who_has_it(queue: Queue) -> None:
    scopes = tuple(Scope(items=(f"i{n}",)) for n in range(5))
    deployment = create(queue, replace(small("a", "b", "c", "d", "e"), scopes=scopes, settings=Settings(coverage=0)))
    dispatch.give_out(queue, deployment, HABITS)
    done, blocked, held = (take(queue, enlist(queue, f"worker-{n}")) for n in range(3))
    assert done and blocked and held
    outcome = {"outcome": "done", "result": '{"item": "i0", "value": "x"}', "reason": ""}
    finish.finish(queue, done.task, finish.Proof(generation=done.generation), "done", outcome)
    outcome = {"outcome": "blocked", "result": "", "reason": "captcha"}
    finish.finish(queue, blocked.task, finish.Proof(generation=blocked.generation), "blocked", outcome)
    given = coverage.given(queue, deployment)[:4]
    report = assembly.assemble(deployment, coverage.fates(deployment, given), given, Comparison(None, None))

    assert (report.coverage.answered, report.coverage.open, dict(report.coverage.failed)) == (1, 4, {})
    assert report.verdict == "no verdict yet: 1 of 5 were answered, 4 are open"
    assert [(gap.item, gap.became, gap.why) for gap in report.gaps] == [
        ("i1", "open", "t2 is blocked"),
        ("i2", "open", "t3 is at work, with worker-2"),
        ("i3", "open", "t4 is not started"),
        ("i4", "open", "not given out"),
    ]
    told, *pages = (Path(file).read_text() for file in assembly.keep(queue, deployment, report))
    assert json.loads(told)["coverage"]["open"] == 4
    for page in pages:
        assert "c: open, t3 is at work, with worker-2" in page.replace("\\", "")
        assert "4 open" in page


def test_many_may_write_the_same_report_at_once(queue: Queue) -> None:
    deployment = create(queue, small("a"))
    found = [Fate(item=deployment.items[0], kind="answered", value="x", task="t1")]
    report: Report = assembly.assemble(deployment, found, [], Comparison(None, None))
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: assembly.keep(queue, deployment, report), range(80)))
    assert all(json.loads(Path(files[0]).read_text())["coverage"]["answered"] == 1 for files in made)
    assert not list(Path(made[0][0]).parent.glob(".tmp-*"))
