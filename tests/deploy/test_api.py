"""A deployment worked by agents over an API: many in one process, each on its own items, and nothing else of the queue."""

from __future__ import annotations

from pathlib import Path

from support.api_lab import Lab, serving


def test_a_thousand_inputs_are_covered_once_by_a_hundred_agents_in_one_process(tmp_path: Path) -> None:
    lines = [f"https://site.example/{n}" for n in range(1000)]
    with serving() as server:
        lab = Lab(tmp_path, server, config="[api]\nseats = 100\n")
        other = lab.add("somebody else's")
        report = lab.json(
            *("deploy", "--agents", "100", "--task", "Research these 1000 URLs", "--inputs", "-"),
            *("--force", "--stagger", "0"),
            stdin="\n".join(lines).encode(),
        )
        assert report["coverage"]["answered"] == 1000
        assert {item["input"]: item["value"] for item in report["items"]} == {line: line[::-1] for line in lines}
        assert server.calls == 100, "each part is paid for once"
        assert report["money"]["known"] > 0
        assert lab.json("cost", "--run", "d1")["total"]["tokens"]["total"] == report["tokens"] > 0
        assert lab.state(other) == "inbox"
        assert lab.is_clean()
