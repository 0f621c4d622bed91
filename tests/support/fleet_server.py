"""Commands run in forks of a process that has loaded the program: each is a process of its own, started fast."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.project import Answer

SERVE = """
import json, os, pwd, sys, tempfile
from agent_fleet import cli
import agent_fleet.clicked, agent_fleet.config, agent_fleet.plugins, agent_fleet.project, importlib, tomlkit
from agent_fleet.commands.table import COMMANDS
import agent_fleet.accounts.router, agent_fleet.accounts.editing, agent_fleet.commands.desk
import agent_fleet.commands.profiles.membership, agent_fleet.commands.profiles.identities
import agent_fleet.commands.profiles.listing, agent_fleet.commands.profiles.provisioning
for module, _, _ in COMMANDS.values():
    importlib.import_module("agent_fleet.commands." + module)
for line in sys.stdin:
    given = json.loads(line)
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        said.write(given["stdin"].encode("latin-1"))
        said.seek(0)
        child = os.fork()
        if child == 0:
            os.environ.clear()
            os.environ.update(given["env"])
            os.chdir(given["cwd"])
            if given["home"]:
                real, home = pwd.getpwuid, given["home"]
                pwd.getpwuid = lambda user: pwd.struct_passwd((*real(user)[:5], home, real(user)[6]))
            sys.path[:0] = given["env"].get("PYTHONPATH", "").split(os.pathsep)[:1]
            for number, file in ((0, said), (1, out), (2, err)):
                os.dup2(file.fileno(), number)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
            status = 99
            try:
                status = cli.run(given["arguments"])
            except BaseException:
                import traceback
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        print(json.dumps([status, out.read().decode(), err.read().decode()]), flush=True)
"""


class FleetServer:
    """Runs `fleet` in forks of one process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        home: Path | None = None,
        stdin: bytes = b"",
    ) -> Answer:
        """One command. With `home` its system says that this is the person's."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        where = {"cwd": str(cwd), "env": dict(env), "home": str(home or "")}
        given = {**where, "arguments": list(arguments), "stdin": stdin.decode("latin-1")}
        self._child.stdin.write(json.dumps(given) + "\n")
        self._child.stdin.flush()
        answer = Answer(*json.loads(self._child.stdout.readline()))
        assert "Traceback" not in answer.out + answer.err, answer.err
        return answer

    def close(self) -> None:
        self._child.communicate("", timeout=30)
