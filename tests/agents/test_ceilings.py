"""No agent passes its ceilings: it is suspended in the middle of a stream, and no call begins that money could not pay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api_lab import ApiServer, Lab, serving
from support.procs import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with serving() as found:
        yield found


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_an_agent_that_would_use_ten_times_its_tokens_is_stopped_in_its_stream(
    tmp_path: Path, server: ApiServer, provider: str
) -> None:
    lab = Lab(tmp_path, server, provider=provider, config="[api]\ntokens = 1500\n")
    (task,) = lab.batch([f"name=much-{provider}\nWRITE 15000\nPACE 0.0005"])
    with lab.host(1) as host:
        assert host.wait(180) == 0
    record = lab.record(task)
    assert (record["outcome"], record["state"]) == ("budget", "failed")
    assert "1,500 allowed" in record["suspended"]
    assert 100 < record["result"].count("word ") < 1500 < 15000
    counted = sum(record["usage"][name] for name in ("input", "cache_write", "cache_read", "output", "reasoning"))
    assert 500 < counted <= 1500 * 1.1
    assert record["usage"]["partial"] is True
    assert f"much-{provider}" not in server.count()["answered"]


def test_what_is_read_from_a_cache_counts(tmp_path: Path, server: ApiServer) -> None:
    """The server reports 100 tokens of input, 20 written to a cache and 300 read from it: alone the last pass the ceiling."""
    lab = Lab(tmp_path, server, config="[api]\ntokens = 350\n")
    (task,) = lab.batch(["name=cached\nSAY found"])
    with lab.host(1) as host:
        assert host.wait(180) == 0
    assert lab.record(task)["outcome"] == "budget"


def test_the_second_attempt_has_what_the_first_has_left(tmp_path: Path, server: ApiServer) -> None:
    lab = Lab(tmp_path, server, config="[budget]\ntask_tokens = 800\n")
    (task,) = lab.batch(["name=again\nECHO FAILED: not yet"])
    with lab.host(1) as host:
        assert host.wait(180) == 0
    assert [record["outcome"] for record in lab.records(task)] == ["failed", "budget"]


@pytest.mark.parametrize("limit", ["run_money", "day_money"])
def test_with_ten_cents_no_call_begins_that_could_pass_them(tmp_path: Path, server: ApiServer, limit: str) -> None:
    """A call costs 0.03 by this price, and may cost 0.04 and a little: two may be on their way, and then none."""
    prices = '[prices."claude-haiku-4-5"]\ninput = 1.0\noutput = 5.0\n'
    lab = Lab(tmp_path, server, config=f"{prices}[budget]\n{limit} = 0.10\n[api]\nmax_output = 8000\nseats = 5\n")
    lab.batch([f"name={limit}{n}\nSLEEP 0.05\nWRITE 6000" for n in range(20)])
    answer = lab.agents(10)
    done = lab.counts()["done"]
    spent = lab.json("cost")["total"]["money"]["amount"]
    assert spent <= 0.10, answer
    assert "$0.1000 allowed, and the next call may cost" in answer.out
    assert done == 2, lab.counts()  # 0.03 each: a third could cost 0.04
    assert lab.counts() == {"done": 2, "inbox": 18}
    assert sum(n for name, n in server.count()["calls"].items() if name.startswith(limit)) == 2


def test_hosts_that_work_at_once_and_are_killed_never_bill_more_than_the_day_may_cost(
    tmp_path: Path, server: ApiServer
) -> None:
    """Each call costs 0.03 and may cost 0.04; what a killed host had on its way is billed, and told by nobody."""
    prices = '[prices."claude-haiku-4-5"]\ninput = 1.0\noutput = 5.0\n'
    lab = Lab(tmp_path, server, config=f"{prices}[budget]\nday_money = 0.60\n[api]\nmax_output = 8000\n")
    lab.batch([f"name=shared{n}\nSLEEP 0.3\nWRITE 6000" for n in range(60)])

    def calls() -> int:
        return sum(n for name, n in server.count()["calls"].items() if name.startswith("shared"))

    with lab.host(3) as first, lab.host(3) as second:
        wait_until(lambda: calls() >= 6, "both have asked")
        second.kill()
        with lab.host(3) as third:
            assert first.wait(60) == third.wait(60) == 0
    billed = calls() * (420 * 1.0 + 6000 * 5.0) / 1e6
    assert 0.30 < billed <= 0.60
    assert 8 <= lab.counts()["done"] <= calls()
    assert lab.json("cost")["total"]["money"]["amount"] <= billed * 1.01


def test_a_model_without_a_price_is_not_asked_under_a_limit_of_money(tmp_path: Path, server: ApiServer) -> None:
    lab = Lab(tmp_path, server, config="[budget]\nday_money = 5.0\n")
    before = server.calls
    (task,) = lab.batch(["name=unpriced\nSAY found"])
    with lab.host(1, FLEET_PROVIDER_ANTHROPIC_MODEL="nobody-knows-it") as host:
        out, _ = host.communicate(timeout=60)
    assert b"no price is known" in out
    assert lab.counts() == {"inbox": 1}
    assert lab.records(task) == []
    assert server.calls == before
