"""A second pool checks a random sample of the answers: it finds what is wrong, is paid once, and is never the first one."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.aggregate.outputs import Output
from agent_fleet.aggregate.sampling import plan
from agent_fleet.aggregate.verification import Opinion
from agent_fleet.config import load
from agent_fleet.deploy.answers import Answer
from agent_fleet.deploy.checking import Bench
from agent_fleet.deploy.coverage import Fate, Given
from agent_fleet.deploy.orders import Order
from agent_fleet.deploy.record import Deployment, Second, Settings
from agent_fleet.deploy.second import appointed
from agent_fleet.deploy.values import Item, Scope
from agent_fleet.errors import FleetError
from agent_fleet.library import Fleet
from agent_fleet.plugins import Plugins
from agent_fleet.run.accounts import Access
from support.accounts import registry_text
from support.api_lab import MODEL, Lab, serving
from support.deployments import hired
from support.procs import wait_until
from support.runs import Site

ROOM = ("--force", "--stagger", "0")
OTHER = "claude-sonnet-4-5"


def lines(count: int, wrong: int) -> bytes:
    """So many inputs, every so-manieth of which is answered wrongly (0: none)."""
    return "\n".join(f"{'wrong' if wrong and n % wrong == 0 else 'right'}-{n}" for n in range(count)).encode()


def deploy(site: Site, given: bytes, *options: str, status: int = 0, task: str = "Turn it round") -> dict[str, Any]:
    arguments = ("deploy", "--task", task, "--inputs", "-", *ROOM, *options)
    return site.json(*arguments, stdin=given, status=status)


def checks(site: Site) -> list[dict[str, Any]]:
    files = sorted((site.dir / "deployments" / "d1" / "orders").glob("*.json"))
    return [order for file in files if (order := json.loads(file.read_text()))["checks"]]


def test_it_finds_a_pool_that_returns_a_fifth_of_wrong_answers(tmp_path: Path) -> None:
    with serving() as server:
        lab = Lab(tmp_path, server, config="[api]\nseats = 40\n")
        told = deploy(lab, lines(300, 5), "--agents", "30", "--verify-model", OTHER, "--seed", "one", status=1)
        check = told["verification"]
        assert told["coverage"]["whole"] is True
        assert check["standing"] == "failed"
        assert (check["population"], check["unknown"]) == (300, 0)
        sample = check["checked"]
        assert check["wrong"] > check["allowed"]
        assert check["least"] <= 60 / 300 <= check["most"], "the share that is really wrong lies where it says"
        assert check["least"] > check["terms"]["tolerated"] - 0.02
        inputs = {each["item"]: (each["input"], each["value"]) for each in told["items"]}
        wrong = [each for each in check["opinions"] if each["right"] is False]
        assert wrong and all(inputs[each["item"]] == (each["input"], each["input"]) for each in wrong)
        assert told["verdict"].startswith("not clean")
        assert "wrong" in told["why"]
        orders = checks(lab)
        assert sum(len(order["items"]) for order in orders) == sample < 100
        assert server.count()["models"] == {MODEL: 30, OTHER: len(orders)}, "each part and each check is paid for once"
        page = lab.fleet("report", "d1").out
        assert f"check by anthropic {OTHER}: failed" in page
        assert "95% confidence" in page
        sheet = (lab.dir / "deployments" / "d1" / "report.md").read_text()
        assert sheet.index("Wrong, by the check") < sheet.index("## items"), "what is wrong is told before all answers"
        again = lab.json("resume-run", "d1", *ROOM, status=1)
        assert again["verification"]["opinions"] == check["opinions"]
        assert server.calls == 30 + len(orders)
        assert lab.json("cost", "--run", "d1")["total"]["tokens"]["total"] == told["tokens"]
        assert lab.is_clean()


def test_an_estimate_says_what_it_leaves_out_and_starts_nothing(tmp_path: Path) -> None:
    site = checked_by_clerks(tmp_path)
    told = deploy(site, lines(300, 0), "--verify-provider", "auditor", "--estimate")
    assert "not in it: the check of up to 42 answers" in told["basis"]
    assert not (site.dir / "deployments").exists()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--verify",), "the second pool is the one that makes the answers"),
        (("--verify-provider", "anthropic"), "the second pool is the one that makes the answers"),
        (("--verify-model", MODEL), "the second pool is the one that makes the answers"),
        (("--verify-pool", "others"), "the second pool is the one that makes the answers"),
        (("--verify-model", OTHER, "--found", "0.01"), "tolerated < found"),
        (("--verify-model", OTHER, "--found", "0.051"), "takes more than"),
        (("--confidence", "0.9"), "--confidence is for a check"),
    ],
)
def test_what_would_check_nothing_is_refused_before_anything_starts(
    tmp_path: Path, options: tuple[str, ...], what: str
) -> None:
    with serving() as server:
        lab = Lab(tmp_path, server)
        registry = tmp_path / "accounts.toml"
        registry.write_text(registry_text(tmp_path, {"toy-1": {"pools": ["others"]}}))
        registry.chmod(0o600)
        words = ("deploy", "--task", "Turn it", "--inputs", "-", *ROOM, *options)
        answer = lab.fleet(*words, stdin=b"one\ntwo\n", env={"AGENT_FLEET_CONFIG": str(registry)})
        assert answer.status == 2, answer
        assert what in answer.err
        assert server.calls == 0
        assert not (lab.dir / "deployments").exists()


def checked_by_clerks(tmp_path: Path, seconds: float = 0.0) -> Site:
    """Clerks make the answers and auditors check them; both write down what they work on."""
    site = hired(Site(tmp_path), seconds)
    text = (site.root / ".agents" / "config.toml").read_text()
    row = next(line for line in text.splitlines() if line.startswith("argv"))
    site.configure(text + f"[agents.auditor]\n{row.replace('/ledger', '/audits')}\n")
    return site


def audits(site: Site) -> Counter[str]:
    return Counter((site.root.parent / "audits").read_text().split())


def test_a_check_that_is_killed_again_and_again_goes_on_and_asks_nobody_twice(tmp_path: Path) -> None:
    site = checked_by_clerks(tmp_path, 0.3)
    file = tmp_path / "inputs.txt"
    file.write_bytes(lines(60, 0))
    begin: tuple[str, ...] = ("deploy", "--task", "Turn it round", "--inputs", str(file), *ROOM, "--agents", "4")
    begin += ("--parts", "20", "--verify-provider", "auditor", "--seed", "one")
    for reached in (5, 20, 24):
        with site.start(*begin) as driver:
            wait_until(
                lambda: len(list(site.dir.glob("done/*/*.json"))) >= reached or driver.poll() is not None,  # noqa: B023
                "some parts are done",
            )
            assert driver.poll() is None
            driver.kill()
            driver.communicate(timeout=30)
        begin = ("resume-run", "d1", *ROOM)
    told = site.json(*begin)
    assert told["verification"]["standing"] == "passed"
    assert told["verdict"].startswith("clean")
    sample = told["verification"]["checked"]
    assert sum(len(order["items"]) for order in checks(site)) == sample
    assert audits(site) == Counter({item["id"]: 1 for order in checks(site) for item in order["items"]})
    assert site.is_clean()


def test_a_verdict_on_ones_own_answer_or_on_another_answer_says_nothing() -> None:
    second = Second(provider="other")
    answer = Fate(item=Item(id="i1", value="a"), kind="answered", value="b", provider="one", model="m", account="x")

    def said(of: object, **by: str) -> list[Opinion]:
        order = Order(deployment="d1", part=2, items=(Item(id="i1", value={"input": "a", "answer": of}),), checks=True)
        verdict = Answer(item="i1", kind="answered", value={"verdict": "right"})
        last = {"provider": by["provider"], "account": by["account"], "usage": {"models": [by["model"]]}}
        bench = Bench(second, [answer], [Given("t2", order, "done", {"i1": verdict}, last)])
        return list(bench.check([Output(task="t1", items=("i1",), value="b")]))

    assert said("b", provider="two", model="m", account="x")[0].right is True
    assert said("b", provider="one", model="m", account="x")[0].right is None
    assert said("c", provider="two", model="m", account="x") == []


@pytest.mark.parametrize(
    ("first", "second", "lane", "differ"),
    [
        ("left", "right", "headless", True),
        ("left", "both", "headless", False),
        ("left", "left", "headless", False),
        ("", "right", "headless", False),
        ("left", "right", "subagent", False),
    ],
)
def test_pools_of_one_provider_and_model_differ_where_they_share_no_account(
    tmp_path: Path, first: str, second: str, lane: str, differ: bool
) -> None:
    registry = tmp_path / "accounts.toml"
    pools = {"claude-1": ["left", "both"], "claude-2": ["right", "both"]}
    registry.write_text(
        registry_text(tmp_path, {name: {"provider": "claude", "pools": told} for name, told in pools.items()}).replace(
            "providers.toy", "providers.claude"
        )
    )
    registry.chmod(0o600)
    environ = {"AGENT_FLEET_CONFIG": str(registry)}
    config = load("/", queue_dir="", environ={})
    access = Access("/", config, Plugins(config, third_party=False), environ)
    item = Item(id="i1", value="a")
    deployment = Deployment(
        id="d0",
        instruction="",
        decomposer="items",
        source="",
        digest="",
        items=(item,),
        scopes=(Scope(items=("i1",)),),
        settings=Settings(provider="claude", pool=first, lane=lane),
    )
    if differ:
        assert appointed(deployment, Second(pool=second), access, lane).second == Second(
            provider="claude", pool=second, lane=lane
        )
        return
    with pytest.raises(FleetError, match="the one that makes the answers"):
        appointed(deployment, Second(pool=second), access, lane)


def test_a_program_names_the_second_pool_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = checked_by_clerks(tmp_path)
    for name, value in site.environment().items():
        monkeypatch.setenv(name, value)
    fleet = Fleet(site.root)
    job = fleet.decompose("Turn it round", inputs=["ab", "cd"], agents=1, verify={"provider": "auditor"})
    found = fleet.dispatch(job, force=True, stagger=0)
    assert found.values == ["ba", "dc"]
    assert (found.verification.standing, found.verification.checked) == ("passed", 2)
    with pytest.raises(FleetError, match="verify has no 'pol'"):
        fleet.decompose("Turn it round", inputs=["ab"], verify={"pol": "x"})


def test_a_pool_that_is_bad_is_found_while_it_works_and_gets_no_more_parts(tmp_path: Path) -> None:
    with serving() as server:
        lab = Lab(tmp_path, server, config="[api]\nseats = 3\n")
        options = ("--agents", "3", "--parts", "100", "--verify-model", OTHER, "--seed", "one")
        told = deploy(lab, lines(300, 2), *options, status=1, task="Turn it round\nSLEEP 0.1")
        check = told["verification"]
        assert check["standing"] == "failed"
        assert check["wrong"] > check["allowed"]
        assert told["verdict"].startswith("no verdict: only")
        assert told["why"] == f"{check['wrong']} of {check['checked']} checked answers are wrong"
        assert server.count()["models"][MODEL] < 100, "not every part was given out"
        assert lab.counts()["inbox"] > 0
        calls = server.calls
        again = lab.json("resume-run", "d1", *ROOM, status=1)
        assert again["verification"]["standing"] == "failed"
        assert server.calls == calls
        assert lab.is_clean()


def test_what_is_drawn_during_the_work_is_part_of_the_final_sample(tmp_path: Path) -> None:
    site = checked_by_clerks(tmp_path)
    options = ("--agents", "4", "--parts", "20", "--verify-provider", "auditor", "--seed", "one")
    told = deploy(site, lines(60, 0), *options)
    orders = checks(site)
    drawn = [item["id"] for order in orders for item in order["items"]]
    size = plan(60, tolerated=0.05, found=0.2, confidence=0.95).size
    assert len(drawn) == len(set(drawn)) == told["verification"]["checked"] == size
    who = [site.record(event["task"])["provider"] for event in site.events("finished")]
    assert "auditor" in who[: -len(orders)], "the first check ended before the last part"
