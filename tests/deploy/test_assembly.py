"""What many agents returned, put together: duplicates linked, a verdict by coverage, and pages on which every text is data."""

from __future__ import annotations

import json
from pathlib import Path

from support.deployments import hired
from support.runs import Site


def test_a_deployment_ends_with_a_report_in_three_forms(tmp_path: Path) -> None:
    site = hired(Site(tmp_path))
    lines = ["elttob", "<script>alert(1)</script>", "fail one"]
    told = site.json(
        *("deploy", "--task", "Turn it round", "--inputs", "-", "--parts", "2", "--force", "--stagger", "0"),
        stdin="\n".join(lines).encode(),
        status=1,
    )
    assert told["verdict"] == "no verdict: only 2 of 3 were answered"
    assert told["duplicates"]["answers"] == 2
    files = {Path(file).name: Path(file).read_text() for file in told["files"]}
    assert set(files) == {"report.json", "report.md", "report.html"}
    assert len(json.loads(files["report.json"])["entries"]) == 2
    assert "<script>" not in files["report.html"]
    for page in (files["report.md"].replace("\\", ""), files["report.html"]):
        assert page.index("fail one: unreachable, no answer") < page.index("elttob · t")
    assert site.json("report", "d1", status=1)["verdict"] == told["verdict"]
    assert "no verdict" in site.fleet("report", "d1").out
