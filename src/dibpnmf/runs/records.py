"""A chain's record and state, to and from named arrays."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from dibpnmf.inference.gibbs import Problem, State
from dibpnmf.posterior import Alignment, ChainRecord, CompactDraw
from dibpnmf.runs.frames import Arrays, below, flatten

# Lists of a record that get one entry a draw: numbers or arrays of them.
_PER_DRAW = [f.name for f in fields(ChainRecord) if f.default_factory is list and f.name != "draws"]


def draw_arrays(record: ChainRecord, at: int) -> Arrays:
    """Everything that a record holds of one draw."""
    arrays = {name: np.asarray(getattr(record, name)[at]) for name in _PER_DRAW}
    if record.keep_draws:
        arrays |= _draw_to_arrays(record.draws[at])
    return arrays


def append_draw(record: ChainRecord, arrays: Arrays) -> None:
    """Give a record one more draw, as it was."""
    for name in _PER_DRAW:
        value = arrays[name]
        getattr(record, name).append(value if value.ndim else value.item())
    if record.keep_draws:
        record.draws.append(_draw_from_arrays(arrays))


def _draw_to_arrays(draw: CompactDraw) -> Arrays:
    return flatten("draw", {f.name: getattr(draw, f.name) for f in fields(draw)})


def _draw_from_arrays(arrays: Arrays) -> CompactDraw:
    M, N = (arrays[f"draw/shape/{t}"].item() for t in range(2))
    index, values = (
        (arrays[f"draw/{name}/0"], arrays[f"draw/{name}/1"]) for name in ("index", "values")
    )
    return CompactDraw((M, N), arrays["draw/K"].item(), index, values)


def summary_arrays(record: ChainRecord) -> Arrays:
    """What a record without draws has summed up so far."""
    arrays: Arrays = {}
    for K, (at, draw) in record.best.items():
        arrays |= flatten(f"best/{K}", {"at": at} | _draw_to_arrays(draw))
    if record.aligned is not None:
        arrays |= flatten("aligned", vars(record.aligned))
    return arrays


def restore_summary(record: ChainRecord, arrays: Arrays) -> None:
    """Give a record without draws back what it had summed up."""
    best = below(arrays, "best")
    for K in {key.partition("/")[0] for key in best}:
        part = below(best, K)
        record.best[int(K)] = (part["at"].item(), _draw_from_arrays(part))
    aligned = below(arrays, "aligned")
    if aligned:
        units = (aligned["_units/0"], aligned["_units/1"])
        record.aligned = Alignment(units)
        record.aligned.n = aligned["n"].item()
        record.aligned._units = units
        for name in ("totals", "mean", "inclusion"):
            setattr(record.aligned, name, aligned[name])


def state_arrays(state: State) -> Arrays:
    """Everything that a sweep updates."""
    return flatten("state", {f.name: getattr(state, f.name) for f in fields(state)})


def state_from_arrays(problem: Problem, arrays: Arrays) -> State:
    """Make the state anew; the type of the prior's part is that of any of its states."""
    kind = type(problem.prior.init(problem.stream(0, 0), 1))
    parts: dict[str, Any] = {}
    for f in fields(State):
        inner = below(arrays, f"state/{f.name}")
        if f.name == "prior":
            parts[f.name] = kind(**inner)
        elif inner:
            parts[f.name] = tuple(inner[str(position)] for position in range(len(inner)))
        else:
            value = arrays.get(f"state/{f.name}")
            parts[f.name] = value.item() if value is not None and not value.ndim else value
    return State(**parts)
