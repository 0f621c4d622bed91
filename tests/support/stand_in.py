"""A program that stands in for Claude Code and Codex under an account: it takes note of how it was called, and calls the hooks.

What it does is told by `told.json` beside it: `session` (the conversation it says it has), `sleep` (seconds), `until` (a file that
must be there first), `more` (payloads
of further calls of the session's hook), `status`. Dispatched by a run it also knows `claims` (it works as a crew does) and `limits`
(by the name of a home, the limit that it meets: `rateLimitType`, `resetsAt`).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

PROGRAM = r"""#!{python} -I
import json, os, subprocess, sys, time, tomllib
here = os.path.dirname(os.path.realpath(__file__))
name = os.path.basename(sys.argv[0])
if "app-server" in sys.argv:
    sys.exit(1)
told = {}
try:
    with open(here + "/told.json") as file:
        told = json.load(file)
except FileNotFoundError:
    pass
home = os.environ.get("CLAUDE_CONFIG_DIR") or os.environ.get("CODEX_HOME", "")
record = {
    "name": name, "argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ), "pid": os.getpid(),
    "stdin": "" if os.isatty(0) else sys.stdin.read(), "hooks": [],
}
session = told.get("session", "s-" + name)
def keep(kind):
    # under its name only when it is whole: tests read it the moment that it is there
    temporary = f"{here}/{kind}-{os.getpid()}.tmp"
    with open(temporary, "w") as file:
        json.dump(record, file)
    os.rename(temporary, f"{here}/{kind}-{time.time_ns()}.json")
if "--output-format" in sys.argv:
    # dispatched by a run: an answer with the verdict that the last prompt asks for
    import re
    session = sys.argv[sys.argv.index("--session-id" if "--session-id" in sys.argv else "--resume") + 1]
    nonce = (re.findall(r"FLEET-([0-9a-z]+) DONE", record["stdin"]) or ["none"])[-1]
    keep("call")
    print(json.dumps({"type": "system", "subtype": "init", "session_id": session, "cwd": os.getcwd()}), flush=True)
    def fleet(*words):
        code = "from agent_fleet.cli import main; main()"
        done = subprocess.run([sys.executable, "-c", code, *words, "--json"], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None
    took, limit = [], told.get("limits", {}).get(os.path.basename(home))
    while told.get("claims") and not (limit and took) and (found := fleet("claim", os.environ["FLEET_AGENT"])):
        took.append(found["id"])
        if not limit:
            fleet("done", found["id"], "--result", "did it")
    with open(f"{here}/took-{time.time_ns()}.json", "w") as file:
        json.dump({"took": took, "home": home}, file)
    time.sleep(told.get("sleep", 0))
    while not os.path.exists(told.get("until", here)):
        time.sleep(0.02)
    if limit:
        info = {"status": "rejected", **limit}
        print(json.dumps({"type": "rate_limit_event", "rate_limit_info": info, "session_id": session}))
        print(json.dumps({"type": "result", "subtype": "success", "is_error": True, "terminal_reason": "api_error",
                          "api_error_status": 429, "api_error": "usage_limit_reached", "session_id": session,
                          "result": "You've hit your limit"}), flush=True)
        sys.exit(1)
    print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "session_id": session,
                      "num_turns": 1, "result": f"did it\n\nFLEET-{nonce} DONE", "usage": {}}), flush=True)
    sys.exit(0)
def call(words, payload, shell):
    done = subprocess.run(words, shell=shell, input=payload, capture_output=True, text=True)
    record["hooks"].append([done.returncode, done.stdout, done.stderr])
def hooks(event, payload):
    for file in ("settings.json", "hooks.json"):
        try:
            with open(os.path.join(home, file)) as opened:
                groups = json.load(opened).get("hooks", {}).get(event, [])
        except FileNotFoundError:
            continue
        for group in groups:
            for hook in group["hooks"]:
                call(hook["command"], payload, True)
def notify(payload):
    try:
        with open(os.path.join(home, "config.toml"), "rb") as opened:
            words = tomllib.load(opened).get("notify")
    except FileNotFoundError:
        words = None
    if words:
        call([*words, payload], "", False)
if home:
    for payload in [{"session_id": session, "hook_event_name": "SessionStart"}, *told.get("more", [])]:
        hooks("SessionStart", json.dumps(payload))
    if os.path.exists(os.path.join(home, ".claude.json")):
        with open(os.path.join(home, ".claude.json")) as opened:
            state = json.load(opened)
        state["numStartups"] = state.get("numStartups", 0) + 1
        with open(os.path.join(home, ".claude.json"), "w") as opened:
            json.dump(state, opened)
        os.makedirs(os.path.join(home, "plugins"), exist_ok=True)
keep("call")
time.sleep(told.get("sleep", 0))
record["hooks"] = []
hooks("Stop", json.dumps({"session_id": session, "hook_event_name": "Stop"}))
notify(json.dumps({"type": "agent-turn-complete", "thread-id": session}))
keep("end")
sys.exit(told.get("status", 0))
"""


class StandIn:
    """The program under the names `claude` and `codex` in a directory of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True)
        for name in ("claude", "codex"):
            self.install(name)

    def install(self, name: str, *, note: str = "") -> Path:
        program = self.place / name
        # not `format`: the program is full of braces
        program.write_text(PROGRAM.replace("{python}", sys.executable) + note)
        program.chmod(0o755)
        return program

    def tell(self, **told: Any) -> None:
        (self.place / "told.json").write_text(json.dumps(told))

    def calls(self, kind: str = "call") -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.place.glob(f"{kind}-*.json"))]

    def last(self, number: int = 1, *, kind: str = "call", patience: float = 30.0) -> dict[str, Any]:
        """The call with this number, waited for."""
        deadline = time.monotonic() + patience
        while len(found := self.calls(kind)) < number:
            assert time.monotonic() < deadline, f"{len(found)} of {number} calls"
            time.sleep(0.02)
        return found[number - 1]
