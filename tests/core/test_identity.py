"""Who a process is: reused numbers, other boots, other machines, and whom a typed command acts for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agent_fleet
from agent_fleet import identity
from agent_fleet.errors import FleetError
from support import procs

linux_only = pytest.mark.skipif(not identity.LINUX, reason="reads /proc")


def changed(text: str, part: int, value: str) -> str:
    parts = text.split(":")
    parts[part] = value
    return ":".join(parts)


def test_this_process_is_alive_and_keeps_its_identity() -> None:
    mine = identity.identity_of()

    assert mine == identity.identity_of(os.getpid())
    assert mine.split(":")[0] == str(os.getpid())
    assert identity.is_alive(mine) is True


def test_a_process_that_does_not_exist_is_not_found() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    with pytest.raises(FleetError) as caught:
        identity.identity_of(child.pid)
    assert caught.value.code == "not_found"


def test_a_process_that_was_reaped_is_dead() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        who = identity.identity_of(child.pid)
        assert identity.is_alive(who) is True
        child.kill()
    assert identity.is_alive(who) is False


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen(["true"])
    try:
        who = identity.identity_of(child.pid)
        procs.wait_until(lambda: identity.is_alive(who) is False, "a zombie counts as gone")
        assert Path(f"/proc/{child.pid}").exists()
    finally:
        child.wait()


def test_a_reused_number_is_dead() -> None:
    assert identity.is_alive(changed(identity.identity_of(), 1, "1")) is False


def test_another_boot_of_this_machine_is_dead() -> None:
    assert identity.is_alive(changed(identity.identity_of(), 2, "0123456789ab")) is False


@pytest.mark.parametrize("part", [2, 3])
def test_another_machine_or_namespace_cannot_be_told(part: int) -> None:
    foreign = changed(identity.identity_of(), part, "0123456789ab")
    if part == 2:
        foreign = changed(foreign, 4, "feedfeedfeed")
    assert identity.is_alive(foreign) is None


def test_a_host_name_that_changed_while_it_ran_does_not_make_a_process_unknown() -> None:
    assert identity.is_alive(changed(identity.identity_of(), 4, "feedfeedfeed")) is True


@given(st.text(max_size=60))
def test_any_other_text_cannot_be_told(text: str) -> None:
    assert identity.is_alive(text) is None or text.count(":") == 4


@pytest.mark.parametrize("pid", ["0", "-1", "1.5", "", "²", str(2**40)])
def test_a_number_that_is_no_pid_cannot_be_told(pid: str) -> None:
    assert identity.is_alive(changed(identity.identity_of(), 0, pid)) is None


@linux_only
def test_a_pid_namespace_of_its_own_cannot_be_judged_from_here() -> None:
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no pid namespace can be made here")
    code = "from agent_fleet import identity; print(identity.identity_of())"
    core = os.path.dirname(os.path.dirname(agent_fleet.__file__))
    done = subprocess.run(
        [*unshare, sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": core}, capture_output=True, check=True
    )
    inside = done.stdout.decode().strip()
    assert inside.startswith("1:")
    assert identity.is_alive(inside) is None


@linux_only
def test_a_proc_of_another_namespace_is_not_believed() -> None:
    unshare = ["unshare", "--pid", "--fork"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no pid namespace can be made here")
    mine = identity.identity_of()
    code = f"from agent_fleet import identity; print(identity.is_alive({mine!r})); identity.identity_of()"
    core = os.path.dirname(os.path.dirname(agent_fleet.__file__))
    done = subprocess.run(
        [*unshare, sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": core}, capture_output=True, check=False
    )
    assert done.stdout.decode().strip() == "None"
    assert b"another pid namespace" in done.stderr


@linux_only
@pytest.mark.parametrize("name", ["a b", "a) R 1 (b", ") S 99 99", "((", "é)x"])
def test_a_name_with_blanks_and_parentheses_does_not_move_the_fields(tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "600"]) as child:
        try:
            procs.wait_until(lambda: (s := identity.read_stat(child.pid)) and s.comm == name, "exec")
            found = identity.read_stat(child.pid)
            assert found and found.ppid == os.getpid()
            assert identity.is_alive(identity.identity_of(child.pid)) is True
        finally:
            child.kill()


@linux_only
def test_a_main_thread_that_ended_before_its_process_is_still_alive() -> None:
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "print('up', flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            procs.wait_until(lambda: (s := identity.read_stat(child.pid)) and s.state == "Z", "the main thread ended")
            assert identity.is_alive(identity.identity_of(child.pid)) is True
        finally:
            child.kill()


@given(st.binary(max_size=80))
def test_a_torn_stat_line_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        identity.parse_stat(line)


def owner_seen_by(command: list[str], tmp_path: Path) -> tuple[int, int]:
    """(pid of `command`, the owner that a command typed below it would have)."""
    core = os.path.dirname(os.path.dirname(agent_fleet.__file__))
    env = {**os.environ, "PYTHONPATH": core, "OUT": str(tmp_path / "out"), "PY": sys.executable}
    with subprocess.Popen(command, env=env) as child:
        child.wait(procs.PATIENCE)
    return child.pid, int((tmp_path / "out").read_text())


ASK = """
import os
from agent_fleet.identity import ancestor_owner
with open(os.environ["OUT"], "w") as file:
    file.write(str(ancestor_owner(os.getpid())))
"""


def test_a_command_in_a_tools_shell_acts_for_the_agent_above_it(tmp_path: Path) -> None:
    ask = tmp_path / "ask.py"
    ask.write_text(ASK)
    shell = f"timeout 60 sh -c '\"$PY\" {ask}; true'; true"
    agent = [sys.executable, "-c", f"import subprocess; subprocess.run(['bash', '-c', {shell!r}], check=True)"]
    pid, owner = owner_seen_by(agent, tmp_path)

    assert owner == pid


def test_a_fleet_above_fleet_is_a_wrapper_too(tmp_path: Path) -> None:
    ask = tmp_path / "ask.py"
    ask.write_text(ASK)
    fleet = tmp_path / "fleet"
    fleet.write_text(f"import subprocess, sys; subprocess.run([sys.executable, {str(ask)!r}], check=True)")
    _, owner = owner_seen_by([sys.executable, str(fleet)], tmp_path)

    assert owner == os.getpid()


def test_the_hot_path_stays_light() -> None:
    code = "import sys, agent_fleet.identity as i; i.is_alive(i.identity_of()); print(*sys.modules)"
    core = os.path.dirname(os.path.dirname(agent_fleet.__file__))
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": core}, capture_output=True, check=True
    )
    heavy = {"dataclasses", "pathlib", "subprocess", "logging", "datetime", "psutil", "ctypes", "agent_fleet.model"}
    assert not heavy & (set(done.stdout.decode().split()) - baseline())


def baseline() -> set[str]:
    done = subprocess.run([sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, check=True)
    return set(done.stdout.decode().split())
