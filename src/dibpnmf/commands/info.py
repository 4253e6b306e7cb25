"""dibpnmf info: what a run's folder holds, and how far the run has come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dibpnmf.commands.endings import in_one_line
from dibpnmf.commands.runs import run_argument


@click.command()
@run_argument
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
def info(run: Path, as_json: bool) -> None:
    """Tell what RUN holds."""
    with in_one_line():
        table = describe(run)
        click.echo(json.dumps(table, indent=2) if as_json else "\n".join(_in_words(table)))


def describe(run: Path) -> dict[str, Any]:
    """Everything about a run that is read without its draws."""
    from dibpnmf.runs.folder import HEADER, RunFolder, read_json

    folder = RunFolder(run)
    parameters = folder.known_header().parameters
    sweeps = parameters["n_warmup"] + parameters["n_draws"] * parameters["n_thin"]
    saved = [folder.chain(chain).saved() for chain in range(parameters["n_chains"])]
    is_done = all(chain is not None and chain.sweep >= sweeps for chain in saved)
    status = "running" if folder.is_in_use() else "done" if is_done else "stopped"
    return {
        "run": str(run),
        "status": status,
        "chains": [
            {"sweeps": chain.sweep if chain else 0, "draws": chain.n_draws if chain else 0}
            for chain in saved
        ],
        "sweeps_per_chain": sweeps,
        **read_json(run / HEADER),
        "summary": folder.summary(),
    }


def _seed(table: dict[str, Any]) -> str:
    """What to give as --seed or random_state to repeat the run."""
    given = table.get("random_state")
    return str(given) if given is not None else "not a number that was given; see run.json"


def _in_words(table: dict[str, Any]) -> list[str]:
    from dibpnmf.commands.options import in_options
    from dibpnmf.summary import in_words

    advice = {"running": "", "done": "", "stopped": "; fit --resume goes on with it"}
    data = table["data"]
    lines = [
        f"Run: {table['run']}, started {table['started']} with dibpnmf "
        f"{table['versions']['dibpnmf']}",
        f"Status: {table['status']}{advice[table['status']]}",
    ]
    lines += [
        f"Chain {n}: {c['sweeps']} of {table['sweeps_per_chain']} sweeps, {c['draws']} draws"
        for n, c in enumerate(table["chains"], 1)
    ]
    given = ", ".join(f"{k} {v}" for k, v in table["parameters"].items() if v is not None)
    lines += [f"Parameters: {given}", f"Seed: {_seed(table)}"]
    if table["summary"] is None:
        if table["status"] == "done":
            lines.append("Not summarised yet: fit --resume does it")
        return [*lines, f"Data: {data['rows']} rows × {data['columns']} columns"]
    return [*lines, *(in_options(line) for line in in_words(table["summary"]))]
