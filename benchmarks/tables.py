"""The measured figures as tables: docs/benchmarks.md, and the part of the README that has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_BEGIN, _END = "<!-- benchmarks -->", "<!-- end of benchmarks -->"
_HEADER = """| what | compared with | measured | 10%-90% | to reach | |
|---|---|---|---|---|---|
"""


def replace_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_suffix(".part")
    temporary.write_text(text)
    temporary.replace(path)


def _line(row: dict[str, Any], load: float) -> str:
    verdict = "reached" if row["reached"] else "**not reached**"
    busy = f", machine busy ({load} jobs a core)" if load > 1.0 else ""
    return (
        f"| {row['what']} | {row['compared_with']} | {row['ratio']:.3g} | "
        f"{row['low']:.3g}-{row['high']:.3g} | {row['bar']} | {verdict}{busy} |\n"
    )


def write_tables(results: dict[str, Any], names: list[str]) -> None:
    """Write both tables from the results of these suites."""
    lines = "".join(
        _line(row, results[name]["load"]) for name in names for row in results[name]["rows"]
    )
    table = _HEADER + lines
    intro = (
        "# Benchmarks\n\nMade by `make bench`: ratios of things run in turn in one process, unless "
        "the line says otherwise. Medians with the range from the 10% to the 90% quantile.\n\n"
    )
    replace_text(_ROOT / "docs" / "benchmarks.md", intro + table)
    readme = _ROOT / "README.md"
    before, _, rest = readme.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    replace_text(readme, f"{before}{_BEGIN}\n{table}{_END}{after}")
