"""The guide's examples, run in the order they stand."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from dibpnmf.cli import main

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
GUIDE = (DOCS / "guide.md").read_text()
SECTIONS = dict(part.split("\n", 1) for part in GUIDE.split("\n## ")[1:])

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The last of"
)


def run_command(line: str) -> None:
    program, *arguments = shlex.split(line)
    assert program == "dibpnmf"
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in (0, 3), result.output
    print(f"$ {line}\n{result.output}")


@pytest.mark.parametrize("title", SECTIONS)
def test_examples(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(SECTIONS[title])
    assert len(blocks) >= 4
    namespace: dict[str, object] = {}
    for language, code in blocks:
        if language == "python":
            exec(compile(code, f"guide.md, {title}", "exec"), namespace)
        else:
            assert language == "sh"
            for line in code.strip().splitlines():
                run_command(line)


def test_the_three_kinds_of_data_are_there():
    assert list(SECTIONS) == ["Texts", "Ratings", "Images"]


def test_the_configuration_file_is_toml_that_fit_takes(tmp_path):
    page = (DOCS / "command-line.md").read_text()
    ((_, text),) = BLOCK.findall(page)
    tomllib.loads(text)
    (tmp_path / "fit.toml").write_text(text)
    arguments = ["fit", "nothing.csv", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(main, [*arguments, "--config", str(tmp_path / "fit.toml")])
    assert result.exit_code == 2
    assert "no such file" in result.stderr


def test_every_command_is_documented():
    page = (DOCS / "command-line.md").read_text()
    from dibpnmf.commands.lazy import COMMANDS

    assert all(f"dibpnmf {command} " in page for command in COMMANDS)
