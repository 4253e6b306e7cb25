"""Charts in Vega-Lite, without colours of text or ground: the page adds those of its theme.

A chart is a specification and a table by columns. ``heads`` names the columns of the table
that the page offers beside it; heat maps have none, their text says what they show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dibpnmf.report.factors import label
from dibpnmf.report.reconstruction import Maps
from dibpnmf.report.words import meaning

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF

Floats = NDArray[np.float64]
Chart = dict[str, Any]

_TRACE = 400  # points of a chain's trace
# A little over the edges, or the ground would shine through between cells.
_CLOSE = {"type": "rect", "width": {"band": 1.2}, "height": {"band": 1.2}}
_LEVEL = {"labelAngle": 0, "labelOverlap": True, "labelSeparation": 4}  # labels of an axis


def _chart(
    description: str, mark: Any, encoding: dict[str, Any], table: dict[str, Any],
    heads: dict[str, str] | None = None, height: int = 260, **spec: Any,
) -> Chart:  # fmt: skip
    layers = {"mark": mark, "encoding": encoding} if mark is not None else {}
    return {
        "spec": {
            "description": description, "width": "container", "height": height,
            "autosize": {"type": "fit", "contains": "padding"}, **layers, **spec,
        },
        "table": table,
        "heads": heads,
    }  # fmt: skip


def _field(name: str, kind: str, title: str | None, **more: Any) -> dict[str, Any]:
    return {"field": name, "type": kind, "title": title, **more}


def number_of_factors(model: DIBPNMF) -> Chart:
    """Posterior of K, each bar divided by chain."""
    runs = [record.n_components for record in model._records]
    total = sum(len(run) for run in runs)
    found = sorted({K for run in runs for K in run})
    shown = list(range(max(found[0] - 2, 0), found[-1] + 3))
    scale = {"domain": [0, 1]} if max(model.component_counts_.values()) > 0.5 else {}
    rows = [
        (K, f"chain {c + 1}", run.count(K) / total)
        for K in found
        for c, run in enumerate(runs)
        if K in run
    ]
    chain = _field("chain", "nominal", "chain")
    encoding = {
        "x": _field("K", "ordinal", "number of factors",
                    axis=_LEVEL, scale={"domain": shown}),
        "y": _field("p", "quantitative", "posterior probability",
                    axis={"format": "%"}, scale=scale),
        "color": chain if len(runs) > 1 else {"value": {"expr": "accent"}},
        "tooltip": [_field("K", "ordinal", "factors"), chain,
                    _field("p", "quantitative", "probability", format=".1%")],
    }  # fmt: skip
    heads = {"K": "Number of factors", "chain": "Chain", "p": "Probability"}
    return _chart("Bar chart: posterior probability of each number of factors, by chain.",
                  "bar", encoding, _table("K chain p", rows), heads)  # fmt: skip


def traces(model: DIBPNMF) -> Chart:
    """Every diagnosed quantity, draw by draw and chain by chain; one is drawn at a time."""
    n_chains, n_draws = model._scalars["log_likelihood"].shape
    at = np.unique(np.linspace(0, n_draws - 1, min(_TRACE, n_draws)).astype(int))
    encoding = {
        "x": _field("draw", "quantitative", "draw", axis={"grid": False}, scale={"nice": False}),
        "y": _field("value", "quantitative", None, scale={"zero": False}),
        "color": _field("chain", "nominal", "chain"),
        "tooltip": [_field("chain", "nominal", "chain"), _field("draw", "quantitative", "draw"),
                    _field("value", "quantitative", "value", format=",.5~g")],
    }  # fmt: skip
    table = {
        "draw": np.tile(at + 1, n_chains).tolist(),
        "chain": np.repeat([f"chain {c + 1}" for c in range(n_chains)], at.size).tolist(),
    }
    mark = {"type": "line", "strokeWidth": 1, "interpolate": "linear"}
    chart = _chart("Line chart: the chosen quantity in each draw, one line a chain.",
                   mark, encoding, table)  # fmt: skip
    chart["quantities"] = [
        {"name": name, "title": meaning(name),
         "values": _digits(np.asarray(model._scalars[name])[:, at], 8)}
        for name in model.diagnostics_["r_hat"]
    ]  # fmt: skip
    return chart


def heat_maps(maps: Maps, rows: list[str], columns: list[str]) -> dict[str, Chart]:
    """Data and reconstruction as maps with one scale of colour."""
    scale = maps.mean if maps.data is None else maps.data
    high = float(np.nanquantile(scale, 0.99)) or float(np.nanmax(scale)) or 1.0
    out = {}
    for key, what, part in (("data", "data", maps.data), ("mean", "reconstruction", maps.mean)):
        if part is None:
            continue
        i, j = np.indices(part.shape)
        value = _field("v", "quantitative", f"mean of {what}", format=",.3~g")
        colour = _field("v", "quantitative", None, scale={"domain": [0, high], "clamp": True},
                        legend={"orient": "bottom", "gradientLength": 160,
                                "format": ",.2~g"})  # fmt: skip
        encoding = {
            "x": _field("j", "ordinal", "columns", axis={"labels": False, "ticks": False}),
            "y": _field("i", "ordinal", "rows", axis={"labels": False, "ticks": False}),
            "color": colour,
            "tooltip": [_field("row", "nominal", "row"), _field("column", "nominal", "column"),
                        value],
        }  # fmt: skip
        out[key] = _chart(
            f"Heat map of the {what}: {part.shape[0]} by {part.shape[1]} blocks of rows and "
            "columns, sorted by their main factor.",
            _CLOSE, encoding,
            {"i": i.ravel().tolist(), "j": j.ravel().tolist(), "v": _digits(part.ravel())},
            height=380,
            transform=[_lookup("i", "row", _members(maps.rows, rows)),
                       _lookup("j", "column", _members(maps.columns, columns))],
        )  # fmt: skip
        out[key]["canvas"] = True
    return out


def _members(blocks: Sequence[NDArray[np.int64]], names: list[str]) -> list[str]:
    return [
        names[block[0]]
        if block.size == 1
        else f"{names[block[0]]} to {names[block[-1]]} ({block.size} of them)"
        for block in blocks
    ]


def _lookup(key: str, name: str, names: list[str]) -> dict[str, Any]:
    values = [{key: at, name: text} for at, text in enumerate(names)]
    return {"lookup": key, "from": {"data": {"values": values}, "key": key, "fields": [name]}}


def data_against_mean(points: list[tuple[float, float, int]]) -> Chart:
    """Mean of the data where the reconstruction is small, and so on up."""
    line = {
        "mark": {"type": "line", "strokeDash": [5, 4], "strokeWidth": 1.5,
                 "color": {"expr": "muted"}, "tooltip": False},
        "encoding": {"x": _field("mean", "quantitative", "reconstruction"),
                     "y": _field("mean", "quantitative", "data")},
    }  # fmt: skip
    dots = {
        "mark": {"type": "point", "filled": True, "size": 70, "opacity": 0.9,
                 "color": {"expr": "accent"}},
        "encoding": {
            "x": _field("mean", "quantitative", "reconstruction", axis={"tickCount": 8}),
            "y": _field("data", "quantitative", "data"),
            "tooltip": [_field("mean", "quantitative", "reconstruction", format=",.3~g"),
                        _field("data", "quantitative", "data", format=",.3~g"),
                        _field("cells", "quantitative", "cells")],
        },
    }  # fmt: skip
    table = _table("mean data cells", [(*_digits(np.array(p[:2])), p[2]) for p in points])
    heads = {"mean": "Reconstruction", "data": "Data", "cells": "Cells"}
    return _chart("Dots: mean of the data against mean of the reconstruction, by twentieths of "
                  "the cells; the dashed line is where they would be equal.",
                  None, {}, table, heads, layer=[line, dots])  # fmt: skip


def factors_used(used: Floats, noun: str) -> Chart:
    """How many rows (columns) use how many factors."""
    numbers, counts = np.unique(used, return_counts=True)
    encoding = {
        "x": _field("n", "ordinal", f"factors that a {noun} uses",
                    axis=_LEVEL),
        "y": _field("count", "quantitative", f"{noun}s"),
        "tooltip": [_field("n", "ordinal", "factors used"),
                    _field("count", "quantitative", f"{noun}s", format=",")],
    }  # fmt: skip
    rows = list(zip(numbers.tolist(), counts.tolist(), strict=True))
    heads = {"n": "Factors used", "count": f"Number of {noun}s"}
    return _chart(f"Bar chart: number of {noun}s by how many factors they use.",
                  "bar", encoding, _table("n count", rows), heads, height=200)  # fmt: skip


def factor_reach(factors: list[dict[str, Any]], names: list[str], shape: tuple[int, int]) -> Chart:
    """How widely each factor is used, on both sides."""
    rows = [
        (factor["label"], name, factor["rowsUsing"] / shape[0], factor["columnsUsing"] / shape[1],
         factor["share"])
        for factor, name in zip(factors, names, strict=True)
    ]  # fmt: skip
    encoding = {
        "x": _field("rows", "quantitative", "share of rows that use it",
                    axis={"format": "%", "tickCount": 8}),
        "y": _field("columns", "quantitative", "share of columns that use it",
                    axis={"format": "%"}),
        "size": _field("share", "quantitative", None, legend=None, scale={"range": [40, 500]}),
        "tooltip": [_field("factor", "nominal", "factor"), _field("name", "nominal", "made of"),
                    _field("rows", "quantitative", "rows", format=".1%"),
                    _field("columns", "quantitative", "columns", format=".1%"),
                    _field("share", "quantitative", "share", format=".1%")],
    }  # fmt: skip
    heads = {"factor": "Factor", "rows": "Share of rows", "columns": "Share of columns"}
    return _chart("Dots: share of rows and share of columns that use each factor.",
                  {"type": "point", "filled": True, "opacity": 0.75}, encoding,
                  _table("factor name rows columns share", rows), heads)  # fmt: skip


def factor_shares(factors: list[dict[str, Any]], names: list[str]) -> Chart:
    """Share of each factor in the reconstruction."""
    rows = [
        (k + 1, factor["label"], name, round(factor["share"], 5))
        for k, (factor, name) in enumerate(zip(factors, names, strict=True))
    ]
    encoding = {
        "x": _field("k", "ordinal", "factor", axis=_LEVEL),
        "y": _field("share", "quantitative", "share of the reconstruction", axis={"format": "%"}),
        "tooltip": [_field("factor", "nominal", "factor"), _field("name", "nominal", "made of"),
                    _field("share", "quantitative", "share", format=".1%")],
    }  # fmt: skip
    heads = {"factor": "Factor", "name": "Made of", "share": "Share"}
    return _chart("Bar chart: share of each factor in the reconstruction.", "bar", encoding,
                  _table("k factor name share", rows), heads, height=200)  # fmt: skip


def similarity(cosines: Floats, names: list[str], what: str) -> Chart:
    """Map of the cosines between factors."""
    K = len(cosines)
    i, j = np.indices((K, K))
    full = [f"{label(k)}: {name}" for k, name in enumerate(names)]
    axis = {**_LEVEL, "ticks": False, "domain": False,
            "labelExpr": "datum.value + 1"}  # fmt: skip
    encoding = {
        "x": _field("j", "ordinal", "factor", axis=axis),
        "y": _field("i", "ordinal", "factor", axis=axis),
        "color": _field("v", "quantitative", None, scale={"domain": [0, 1]},
                        legend={"orient": "bottom", "gradientLength": 160}),
        "tooltip": [_field("first", "nominal", "one"), _field("second", "nominal", "other"),
                    _field("v", "quantitative", "likeness", format=".2f")],
    }  # fmt: skip
    chart = _chart(
        f"Heat map: cosine similarity of each pair of {K} factors by their {what}.", "rect",
        encoding,
        {"i": i.ravel().tolist(), "j": j.ravel().tolist(), "v": _digits(cosines.ravel())},
        height=340, transform=[_lookup("i", "first", full), _lookup("j", "second", full)],
    )  # fmt: skip
    chart["canvas"] = K > 20
    return chart


def columns_of_factor() -> dict[str, Any]:
    """Bars of a factor's columns, fainter where it is less sure that they belong to it.

    The page sets the height by the number of bars, here and in `factors_of_row`.
    """
    encoding = {
        "y": _field("name", "nominal", None, sort=None,
                    axis={"labelLimit": 130, "ticks": False, "domain": False}),
        "x": _field("weight", "quantitative", "weight in the factor",
                    axis={"format": "%", "tickCount": 4}),
        "opacity": _field("probability", "quantitative", None, legend=None,
                          scale={"domain": [0, 1], "range": [0.2, 1]}),
        "tooltip": [_field("name", "nominal", "column"),
                    _field("weight", "quantitative", "weight", format=".1%"),
                    _field("probability", "quantitative", "probability", format=".0%")],
    }  # fmt: skip
    text = "Bar chart: weights of the factor's largest columns."
    return _chart(text, "bar", encoding, {})["spec"]


def factors_of_row() -> dict[str, Any]:
    """Bars of a row's factors."""
    encoding = {
        "y": _field("factor", "nominal", None, sort=None,
                    axis={"labelLimit": 130, "ticks": False, "domain": False}),
        "x": _field("share", "quantitative", "share of the row's reconstruction",
                    axis={"format": "%", "tickCount": 4}),
        "tooltip": [_field("factor", "nominal", "factor"), _field("name", "nominal", "made of"),
                    _field("share", "quantitative", "share", format=".1%")],
    }  # fmt: skip
    text = "Bar chart: share of each factor in the row's reconstruction."
    return _chart(text, "bar", encoding, {})["spec"]


def _table(names: str, rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [row[at] for row in rows] for at, name in enumerate(names.split())}


def _digits(values: Floats, n: int = 4) -> Any:
    """Significant digits that a screen can show; nothing where there is no number."""
    if values.ndim > 1:
        return [_digits(line, n) for line in values]
    return [float(f"{value:.{n}g}") if np.isfinite(value) else None for value in values]
