"""Scenarios C48 to C60: crashes, files that were spoiled, programs that change, and the doctor."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from support.estate import CLAUDE
from support.systems import Ours

Build = Callable[..., Ours]

HOLD = """
import sys
from agent_fleet.accounts.vault import Vault
with Vault(sys.argv[1]).lock("state", "a test"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_c48_the_death_of_a_lock_holder_keeps_nobody_waiting(one: Ours) -> None:
    if one.name == "peer":
        pytest.skip("its locks are taken by other means")
    command = [sys.executable, "-c", HOLD, str(one.kept)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=one.environment()) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert one.choose("t").status == 0


def test_c51_a_spoiled_lease_costs_itself_alone_and_can_be_mended(one: Ours) -> None:
    assert one.choose("a").status == 0
    one.lease_file("a").write_text("{torn")
    assert one.name == "peer" or one.lease_file("a").name in one.say("doctor").text
    assert one.choose("b").status == 0
    one.say("lease", "release", "--task", "a", "--force")
    assert one.choose("a").status == 0


def test_c57_a_newer_program_is_followed_where_the_person_says_so(one: Ours) -> None:
    one.stand_in.install("claude", note="# a newer one\n")
    found = one.choose("t")
    assert "claude-1" in json.dumps(found.data)
    assert found.is_refusal
    one.set("[settings]", "pin_policy", '"follow"')
    assert one.choose("t").status == 0


def test_c58_a_program_that_writes_its_own_files_stays_usable(one: Ours) -> None:
    for number in range(3):
        assert one.launch(f"t{number}", "--pool", "claude-crew", argv=[CLAUDE, "x"]).status == 0
    state = json.loads((one.home_of("claude-1") / ".claude.json").read_text())
    assert state["numStartups"] == 3
    assert one.choose("last").status == 0


def test_c60_the_doctor_finds_a_sound_machine_healthy(one: Ours) -> None:
    found = one.say("doctor", env=sound(one))
    assert (found.status, found.data["healthy"]) == (0, True), found


def sound(machine: Ours) -> dict[str, str]:
    return {"FLEET_PROVIDER_CLAUDE_BINARY": machine.binaries["claude"]}


def spoil_login(machine: Ours) -> None:
    (machine.home_of("claude-1") / ".credentials.json").unlink()


def spoil_modes(machine: Ours) -> None:
    machine.home_of("claude-1").chmod(0o755)


def spoil_hook(machine: Ours) -> None:
    path = machine.home_of("claude-1") / "settings.json"
    path.write_text("{}")


def spoil_program(machine: Ours) -> None:
    machine.stand_in.install("claude", note="# another\n")


def spoil_identity(machine: Ours) -> None:
    machine.login("claude-1", "somebody else")
    machine.tell("claude-1", 60.0)


def spoil_numbers(machine: Ours) -> None:
    machine.left_of("claude-1").unlink()
    (machine.kept / "quota" / "claude-1.json").unlink()


def spoil_lease(machine: Ours) -> None:
    machine.choose("a")
    machine.lease_file("a").write_text("{torn")


def spoil_state(machine: Ours) -> None:
    (machine.kept / "leases").mkdir(exist_ok=True, mode=0o700)
    (machine.kept / "leases").chmod(0o777)


def spoil_transaction(machine: Ours) -> None:
    place = machine.kept / "transactions" / "credential-recovery"
    place.mkdir(parents=True, mode=0o700)
    (machine.kept / "transactions").chmod(0o700)
    path = place / "x.json"
    path.write_text(json.dumps({"provider": "claude", "profile": "claude-1"}))
    path.chmod(0o600)


def spoil_registry(machine: Ours) -> None:
    machine.file.chmod(0o666)


def spoil_python(machine: Ours) -> None:
    (path,) = (machine.kept / "homes").glob("claude-1.json")
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "words": ["/gone/python", *found["words"][1:]]}))


def spoil_home(machine: Ours) -> None:
    home = machine.home_of("claude-1")
    home.rename(machine.top / "elsewhere")
    home.symlink_to(machine.top / "elsewhere")


def spoil_share(machine: Ours) -> None:
    (machine.top / "share" / "accounts").chmod(0o777)


def spoil_rights_of_login(machine: Ours) -> None:
    (machine.home_of("claude-1") / ".credentials.json").chmod(0o644)


def spoil_content_of_login(machine: Ours) -> None:
    (machine.home_of("claude-1") / ".credentials.json").write_text('{"claudeAiOauth": {"acc')


def spoil_reader(machine: Ours) -> None:
    machine.set("[settings]", "quota_binary", '"/nowhere/quota-axi"')


FAULTS: dict[Callable[[Ours], Any], tuple[str, str]] = {
    spoil_login: ("auth_required", "CLAUDE_CONFIG_DIR=.* auth login"),
    spoil_home: ("is no directory, or a link to one", "put the directory itself there"),
    spoil_share: ("homes of accounts lie in", "chmod 700"),
    spoil_rights_of_login: ("is not yours alone", "chmod 600"),
    spoil_content_of_login: ("credential_invalid", "CLAUDE_CONFIG_DIR=.* auth login"),
    spoil_reader: ("/nowhere/quota-axi", "install it"),
    spoil_modes: ("its home is not private", "provision"),
    spoil_hook: ("settings.json does not hold", "provision"),
    spoil_program: ("another program than the one that was pinned", "provision"),
    spoil_identity: ("identity_binding_remote_mismatch", "adopt"),
    spoil_numbers: ("file_unusable", "verify"),
    spoil_lease: ("counts for nothing", "set"),
    spoil_state: ("is not private", "chmod 700"),
    spoil_transaction: ("pending credential recovery", "finish or take back"),
    spoil_registry: ("accounts.toml", "chmod"),
    spoil_python: ("/gone/python", "provision"),
}


@pytest.mark.parametrize("spoil", FAULTS, ids=lambda each: each.__name__)
def test_c60_the_doctor_names_what_is_wrong_and_what_mends_it(one: Ours, spoil: Callable[[Ours], Any]) -> None:
    spoil(one)
    found = one.say("doctor", env=sound(one), cwd=one.top)
    assert (found.status, found.data["healthy"]) == (1, False), found
    rows = [each for each in found.data["findings"] if each["check"] == "accounts" and each["level"] != "ok"]
    said, mend = FAULTS[spoil]
    assert any(said in row["text"] for row in rows), rows
    assert any(re.search(mend, row["hint"] + row["text"]) for row in rows), rows
    assert all(row["hint"] for row in rows)


def test_a_machine_that_is_gone_is_told_as_it_is(one: Ours) -> None:
    shutil.rmtree(one.kept)
    assert one.choose("t").is_refusal
