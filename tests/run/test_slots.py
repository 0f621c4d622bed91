"""Numbers of workers: no two that live share one, whoever started them, and none is kept by the dead."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent_fleet import identity
from agent_fleet.run import slots
from support.procs import environment, new_mark
from support.racers import racers
from support.runs import Site

GONE = "1:1:gone:0:" + identity.identity_of().rpartition(":")[2]


def directory(tmp: Path, name: str) -> str:
    (tmp / name).mkdir(exist_ok=True)
    return str(tmp / name)


def take(tmp: Path, name: str, driver: str | None = None) -> int:
    environ = {"AGENT_FLEET_STATE_DIR": str(tmp / "state")}
    return slots.take(environ, mark=name, directory=directory(tmp, name), driver=driver or identity.identity_of())


def settle(tmp: Path, name: str) -> None:
    (tmp / name / "settled").touch()


def test_racers_never_share_a_number_and_the_smallest_free_one_is_taken(tmp_path: Path) -> None:
    with racers(8, lambda index, number: take(tmp_path, f"r{number}-w{index}")) as processes:
        for number in range(10):
            assert sorted(processes.race(number)) == list(range(8))
            for index in range(8):
                settle(tmp_path, f"r{number}-w{index}")
    assert [take(tmp_path, name) for name in "abc"] == [0, 1, 2]
    settle(tmp_path, "b")
    assert [take(tmp_path, name) for name in ("d", "e", "c")] == [1, 3, 2]


def test_a_number_is_free_when_everybody_who_could_use_it_is_provably_gone(tmp_path: Path) -> None:
    assert is_gone()
    assert take(tmp_path, "dead", GONE) == 0
    assert take(tmp_path, "heir") == 0
    with new_mark() as mark:
        assert take(tmp_path, mark, GONE) == 1
        with subprocess.Popen(["sleep", "300"], env=environment(mark)) as orphan:
            assert take(tmp_path, "beside it") == 2
            orphan.kill()
    assert take(tmp_path, "after it") == 1
    assert take(tmp_path, "of another machine", "77:1:boot:0:elsewhere") == 0


def is_gone() -> bool:
    return identity.is_alive(GONE) is False


def test_who_cannot_be_judged_keeps_the_number(tmp_path: Path) -> None:
    pid, start, boot, _, machine = identity.identity_of().split(":")
    assert take(tmp_path, "in another container", f"{pid}:{start}:{boot}:4:{machine}") == 0
    assert take(tmp_path, "here") == 1


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b"\xff"])
def test_a_damaged_record_costs_nothing_but_itself(tmp_path: Path, damage: bytes) -> None:
    assert [take(tmp_path, name) for name in "ab"] == [0, 1]
    (record,) = (tmp_path / "state" / "slots").glob("*/0.json")
    record.write_bytes(damage)
    assert take(tmp_path, "c") == 0
    assert take(tmp_path, "b") == 1


def test_ports_end_where_ports_end() -> None:
    assert (slots.port(20000, 0), slots.port(20000, 7)) == (20000, 20070)
    assert (slots.port(65000, 52), slots.port(65000, 53)) == (65520, None)


# a directory is made by exactly one: two workers with the same number at once, in whatever project, fail here
ALONE = (
    'mkdir "{held}/$FLEET_SLOT" && test -z "$(ls -A "$FLEET_TMP")" && touch "$FLEET_TMP/mine" && sleep 0.4 '
    '&& test "$(ls "$FLEET_TMP")" = mine && rmdir "{held}/$FLEET_SLOT" && echo $FLEET_SLOT $FLEET_PORT $FLEET_TMP'
)


def test_the_workers_of_two_projects_have_different_numbers_ports_and_files(tmp_path: Path) -> None:
    sites = [Site(tmp_path / name, "[run]\nstagger = 0\ngrace = 2\nport_base = 30000\n") for name in ("one", "two")]
    held = tmp_path / "held"
    held.mkdir()
    shared = {"AGENT_FLEET_STATE_DIR": str(tmp_path / "state"), "TMPDIR": str(tmp_path)}
    tasks = [(site, site.command(ALONE.format(held=held), "--check", "test -e $FLEET_TMP/mine")) for site in sites * 6]
    with sites[0].driving(env=shared) as first, sites[1].driving(env=shared) as second:
        assert (first.end().status, second.end().status) == (0, 0)

    told = [site.record(task)["result"].split()[-3:] for site, task in tasks]
    assert [len(site.records(task)) for site, task in tasks] == [1] * 12
    assert all(int(port) == 30000 + 10 * int(slot) for slot, port, _ in told)
    assert max(int(slot) for slot, _, _ in told) < 12  # four of each at once, and some that are being settled
    assert {slot for slot, _, _ in told} >= {"0", "1"}
    assert len({place for _, _, place in told}) == 12
    assert all(place.startswith(str(tmp_path)) and not Path(place).exists() for _, _, place in told)


def test_a_worker_works_without_a_number_where_none_can_be_had(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (tmp_path / "state").write_text("a file")
    task = site.command("echo slot: $FLEET_SLOT.")
    answer = site.work(env={"AGENT_FLEET_STATE_DIR": str(tmp_path / "state")})
    assert "slot: ." in site.record(task)["result"]
    assert "a worker has no FLEET_SLOT, FLEET_PORT and FLEET_TMP of its own" in answer.err


@pytest.mark.skipif(not identity.LINUX, reason="it reads /proc")
def test_a_worker_and_its_check_are_told_where_they_are_and_not_where_the_run_was_typed(tmp_path: Path) -> None:
    """A shell mends the variable for itself, so what it was given is looked at."""
    site = Site(tmp_path)
    given = "tr '\\0' '\\n' < /proc/$$/environ | grep -c"
    right = f'[ "$({given} "^PWD={site.root}$") $({given} ^OLDPWD=)" = "1 0" ]'
    below = site.root / "below"
    below.mkdir()
    task = site.command(f"{right} && echo right", "--check", right)
    answer = site.fleet("run", "--force", cwd=below, env={"PWD": str(below), "OLDPWD": "/"})
    assert (answer.status, site.state(task)) == (0, "done"), (answer, site.records(task))
