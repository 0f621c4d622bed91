"""A deployment worked by agents over an API: many in one process, each on its own items, and nothing else of the queue."""

from __future__ import annotations

import json
import time
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
        sheets = {Path(file).suffix: Path(file).read_text() for file in report["files"]}
        assert json.loads(sheets[".json"])["cost"] == {"tokens": report["tokens"], "money": report["money"]}
        said = f"cost: used {report['tokens']:,} tokens; money: {report['money']['known']:.4f} US dollars"
        assert all(said in sheets[form].replace("\\", "") for form in (".md", ".html"))
        assert lab.json("cost", "--run", "d1")["total"]["tokens"]["total"] == report["tokens"] > 0
        assert lab.state(other) == "inbox"
        assert lab.is_clean()


def test_an_estimate_by_what_was_measured_holds_for_the_run_that_follows(tmp_path: Path) -> None:
    """The band is of ten agents that have worked before; the same job again stays within it."""
    words = ("deploy", "--agents", "5", "--parts", "10", "--task", "Read", "--inputs", "-", "--force", "--stagger", "0")
    lines = "".join(f"line {n}\n" for n in range(10))
    with serving() as server:
        lab = Lab(tmp_path, server, config="[api]\nseats = 5\n")
        lab.json(*words, stdin=lines.encode())
        band = lab.json(*words, "--estimate", stdin=lines.encode())
        assert (
            band["basis"][0] == "measured: 10 attempts of this kind of agent in this project, whatever they worked on"
        )
        began = time.monotonic()
        report = lab.json(*words, stdin=lines.encode())
        seconds = time.monotonic() - began
    for name, figure in (("tokens", report["tokens"]), ("money", report["money"]["known"]), ("seconds", seconds)):
        assert band[name]["low"] <= figure * 1.0001 and figure <= band[name]["high"] * 1.0001, name
