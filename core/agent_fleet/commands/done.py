"""`fleet done`: the holder of a task reports it as done, with what was observed."""

from __future__ import annotations

from agent_fleet.commands import Shared
from agent_fleet.commands.reporting import LEASE, proof
from agent_fleet.commands.spec import Option, Spec
from agent_fleet.errors import FleetError
from agent_fleet.queue import finish


def done(shared: Shared, task: str, result: str, generation: int | None, agent: str, force: bool) -> None:
    text = shared.text(result, "the result")
    if not text.strip():
        raise FleetError("bad_input", "an empty result is no evidence", hint="say what the system said back")
    queue = shared.queue
    mine = proof(shared, task, generation=generation, agent=agent, force=force)
    place = finish.holding(queue, task, mine)
    body = queue.body(place.path, task) or {}
    record = {"outcome": "done", "result": text, "charged": False, "by": "agent"}
    if body.get("check"):
        record |= _run_check(shared, task, str(body["check"]))
    finish.finish(queue, task, mine, "done", record)
    shared.emit({"id": task, "state": "done", "check": record.get("check")}, lambda: f"{task} is done")


def _run_check(shared: Shared, task: str, text: str) -> dict[str, object]:
    from agent_fleet.run import check

    verdict = check.run(text, cwd=shared.root, environ=shared.environ, scratch=shared.queue.path("logs"))
    if not verdict.passed:
        raise FleetError(
            "refused",
            f"the check of {task} failed: {verdict.why}",
            hint="go on working, or report `fleet block` or `fleet fail`; the task is still yours",
            details=tuple(verdict.output.splitlines()[-10:]),
        )
    return {"check": verdict.as_record()}


command_line = Spec(
    "done",
    "Report task ID as done. The result says what was observed; a task with a check is done only if the check passes.",
    "task",
    "ID",
    (Option("--result", "What the system said back; `-` reads standard input.", required=True), *LEASE),
    done,
)
