"""What a server answers beside messages, and what becomes of the task, of the agents and of the provider's gate."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fleet.throttle.shared import every
from support.api_lab import ApiServer, Lab, serving


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with serving() as found:
        yield found


def calls_of(server: ApiServer, name: str) -> int:
    return int(server.count()["calls"].get(name, 0))


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
@pytest.mark.parametrize("trouble", ["STATUS 429:0.2", "STATUS 529", "STATUS 503", "STATUS 500", "CUT"])
def test_a_trouble_that_passes_costs_a_second_call_and_nothing_else(
    tmp_path: Path, server: ApiServer, provider: str, trouble: str
) -> None:
    lab = Lab(tmp_path, server, provider=provider)
    name = f"{provider}-{trouble.replace(' ', '').replace(':', '')}"
    (task,) = lab.batch([f"name={name}\n{trouble}\nONCE\nSAY found it"])
    with lab.host(1) as host:
        assert host.wait(180) == 0
    record = lab.record(task)
    assert (record["outcome"], record["result"], record["charged"]) == ("done", "found it", False)
    assert calls_of(server, name) == 2
    assert record["usage"]["partial"] is (trouble == "CUT")  # what was cut was paid for all the same


def test_a_wall_of_one_server_does_not_hold_up_another_under_the_same_account(
    tmp_path: Path, server: ApiServer
) -> None:
    state, config = str(tmp_path / "state"), "[api]\nretries = 0\n"
    walled = Lab(tmp_path / "walled", server, config=config)
    walled.batch(["name=elsewhere\nSTATUS 429:3600"])
    with walled.host(1, AGENT_FLEET_STATE_DIR=state) as host:
        assert host.wait(180) == 0
    with serving() as other:
        lab = Lab(tmp_path / "free", other, config=config)
        (task,) = lab.batch(["SAY found it"])
        with lab.host(1, AGENT_FLEET_STATE_DIR=state) as host:
            assert host.wait(180) == 0
        assert (lab.record(task)["outcome"], other.calls) == ("done", 1)
    assert sorted(shared.names["endpoint"] for shared in every(state)) == sorted((server.url, other.url))
    assert [shared.look().closing.until is None for shared in every(state)].count(False) == 1


def test_a_wait_that_the_server_asks_for_is_kept(tmp_path: Path, server: ApiServer) -> None:
    lab = Lab(tmp_path, server)
    (task,) = lab.batch(["name=patience\nSTATUS 429:1.5\nONCE\nSAY found it"])
    began = time.monotonic()
    with lab.host(1) as host:
        assert host.wait(180) == 0
    assert time.monotonic() - began >= 1.5
    assert lab.record(task)["outcome"] == "done"


@pytest.mark.parametrize(
    ("status", "kind"), [("429", "limit"), ("429:3600", "limit"), ("529", "overload"), ("401", "auth")]
)
def test_a_wall_gives_the_task_back_and_closes_the_gate(
    tmp_path: Path, server: ApiServer, status: str, kind: str
) -> None:
    lab = Lab(tmp_path, server, config="[api]\nseats = 2\nretries = 1\n")
    name = f"wall{status.replace(':', '-')}"
    lab.batch([f"name={name}-{n}\nSTATUS {status}" for n in range(10)])
    with lab.driving(room=("--force", "--max", "2")) as driver:
        until = time.monotonic() + 180
        while not lab.events("disbanded"):
            assert time.monotonic() < until
            time.sleep(0.05)
        driver.kill()
    told = lab.events("disbanded")[0]
    assert told["outcome"] == kind, told
    assert lab.counts() == {"inbox": 10}
    asked = sum(n for each, n in server.count()["calls"].items() if each.startswith(name))
    most = 2 if status in ("401", "429:3600") else 4  # two agents, and one more try where that could help
    assert 1 <= asked <= most
    assert (lab.dir / "gates.json").exists()


def test_what_waits_for_its_turn_before_a_wall_of_hours_is_given_back(tmp_path: Path, server: ApiServer) -> None:
    lab = Lab(tmp_path, server, config="[api]\nretries = 0\n[throttle]\ncalls = 1\n")
    lab.batch([f"name=hours{n}\nSLEEP 0.3\nSTATUS 429:3600" for n in range(10)])
    with lab.host(5) as host:
        out, _ = host.communicate(timeout=180)
    assert host.returncode == 0, out
    assert b'"limit"' in out
    assert lab.counts() == {"inbox": 10}
    assert not any(lab.records(f"t{n}") for n in range(1, 11)), "nobody is charged"
    assert sum(n for each, n in server.count()["calls"].items() if each.startswith("hours")) == 1


@pytest.mark.parametrize("status", ["400", "404", "413"])
def test_a_request_that_is_wrong_fails_its_task_alone(tmp_path: Path, server: ApiServer, status: str) -> None:
    lab = Lab(tmp_path, server, config="[queue]\nmax_attempts = 1\n")
    wrong, right = lab.batch([f"name=wrong{status}\nSTATUS {status}", "SAY found it"])
    with lab.host(2) as host:
        assert host.wait(180) == 0
    assert lab.record(wrong)["outcome"] == "failed"
    assert lab.record(wrong)["reason"] == f"HTTP {status}: scripted"
    assert calls_of(server, f"wrong{status}") == 1
    assert lab.record(right)["outcome"] == "done"


def test_without_a_key_nothing_is_claimed_and_the_reason_says_which(tmp_path: Path, server: ApiServer) -> None:
    lab = Lab(tmp_path, server)
    lab.batch(["SAY found it"])
    with lab.host(1, ANTHROPIC_API_KEY="") as host:
        out, _ = host.communicate(timeout=180)
    assert host.returncode == 1
    assert b"ANTHROPIC_API_KEY holds no key" in out
    assert lab.counts() == {"inbox": 1}


def test_without_a_model_no_task_is_charged(tmp_path: Path, server: ApiServer) -> None:
    lab = Lab(tmp_path, server)
    lab.batch(["SAY found it", "SAY found it"])
    named = lab.add("SAY found it", "--model", "another")
    (lab.dir / "config.toml").write_text("[run]\nstagger = 0\n")
    with lab.host(1) as host:
        out, _ = host.communicate(timeout=180)
    assert b"no model is named" in out
    assert lab.counts() == {"inbox": 3}
    assert lab.records(named) == []


@pytest.mark.parametrize("url", ["http://example.com", "ftp://127.0.0.1", "http://user:pw@127.0.0.1", "nothing"])
def test_a_key_is_not_sent_in_the_clear_to_another_machine(tmp_path: Path, server: ApiServer, url: str) -> None:
    lab = Lab(tmp_path, server)
    lab.batch(["SAY found it"])
    with lab.host(1, ANTHROPIC_BASE_URL=url) as host:
        out, _ = host.communicate(timeout=180)
    assert host.returncode == 1
    assert b"provider.anthropic.url" in out
    assert lab.counts() == {"inbox": 1}


def test_a_single_task_is_dispatched_where_the_lane_has_no_seats(tmp_path: Path, server: ApiServer) -> None:
    lab = Lab(tmp_path, server, config="")
    task = lab.add("name=alone\nECHO DONE", "--lane", "headless")
    lab.agents(1)
    record = lab.record(task)
    assert (record["outcome"], record["result"]) == ("done", "I looked.")
    assert record["usage"]["cache_read"] == 300


@pytest.mark.parametrize("chosen", [0, 40])
def test_a_server_that_always_says_429_sees_no_more_calls_than_the_cap_of_the_run(
    tmp_path: Path, server: ApiServer, chosen: int
) -> None:
    """A hundred agents, each of which would try nine times, and a driver that would start them again."""
    more = f"[throttle]\nattempts = {chosen}\nbackoff = 0.01\nlongest = 0.02\nfailures = 1000\n"
    lab = Lab(tmp_path, server, config=f"[api]\nseats = 100\nretries = 8\n{more}")
    lab.batch([f"name=storm{chosen}-{n}\nSTATUS 429" for n in range(100)])
    env = {"FLEET_RUN_BACKOFF": "0.2", "FLEET_API_BACKOFF": "0.01"}
    with lab.driving(room=("--force", "--max", "100"), env=env) as driver:
        answer = driver.end()
    assert "the run has made all of its" in answer.err
    calls = sum(n for name, n in server.count()["calls"].items() if name.startswith(f"storm{chosen}-"))
    assert 0 < calls <= (chosen or 300)
    assert lab.counts() == {"inbox": 100}


def test_a_host_that_may_open_few_files_has_fewer_seats_and_says_so(tmp_path: Path, server: ApiServer) -> None:
    lab = Lab(tmp_path, server, config="[throttle]\ncalls = 100\n")
    lab.batch([f"name=few{n}\nSLEEP 0.1\nSAY found it" for n in range(60)])
    with lab.host(100, files=64) as host:
        out, _ = host.communicate(timeout=180)
    assert host.returncode == 0, out
    assert b"24 of 100 seats are used, as no more than 64 files may be open" in out
    assert b"Too many open files" not in out
    assert lab.counts() == {"done": 60}, out


def test_a_shortage_of_files_ends_nothing_and_charges_nobody(tmp_path: Path, server: ApiServer) -> None:
    """Of 64 files 24 are taken by something else, as tools might: the 24 seats do not all get a connection at once."""
    lab = Lab(tmp_path, server, config="[throttle]\ncalls = 100\n")
    tasks = lab.batch([f"name=short{n}\nSLEEP 0.5\nSAY found it" for n in range(60)])
    with lab.host(100, files=64, taken=24) as host:
        out, _ = host.communicate(timeout=180)
    assert host.returncode == 0, out
    assert b"wait" in out and b"Too many open files" in out
    assert lab.counts() == {"done": 60}, out
    assert all(len(lab.records(task)) == 1 for task in tasks)
    assert sum(n for each, n in server.count()["calls"].items() if each.startswith("short")) == 60
