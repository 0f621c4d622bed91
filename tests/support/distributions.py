"""Distributions as an installer leaves them: modules, and a `*.dist-info` directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent


def install(
    site: Path,
    name: str,
    *,
    version: str = "1.0",
    modules: Mapping[str, str] | None = None,
    entry_points: Mapping[str, Mapping[str, str]] | None = None,
) -> Path:
    """Put a distribution into the directory `site`; `modules` are sources by file name. Returns its dist-info."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    lines = []
    for group, points in (entry_points or {}).items():
        lines += [f"[{group}]", *(f"{point} = {value}" for point, value in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    for file, source in (modules or {}).items():
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_text(dedent(source), encoding="utf-8")
    record = [*(modules or {}), *(f"{info.name}/{file}" for file in ("METADATA", "entry_points.txt", "RECORD"))]
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in record), encoding="utf-8")
    return info
