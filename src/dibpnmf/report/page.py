"""The page: gathers words, charts and factors, and writes them as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import tempfile
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from dibpnmf import __version__
from dibpnmf._validation import whole_number
from dibpnmf.report import charts, factors, names, reconstruction, words
from dibpnmf.report.words import Verdict

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF
    from dibpnmf.observations import Observations

_LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")
_BARS = ("Bars are the columns' weights; the paler a bar, the less sure it is that the column "
         "belongs to the factor.")  # fmt: skip
_IMAGES = "The stronger a pixel's colour, the larger its weight; lists tell how sure each pixel is."
_MARKS = {words.GOOD: "✓", words.CARE: "!", words.BAD: "✕", words.UNKNOWN: "·"}


def write_report(
    model: DIBPNMF,
    path: str | os.PathLike[str],
    *,
    data: Any = None,
    image_shape: tuple[int, int] | None = None,
    title: str | None = None,
    row_names: Iterable[Any] | None = None,
    column_names: Iterable[Any] | None = None,
) -> Path:
    """Write what a fitted model found as one HTML file that needs no network.

    Parameters
    ----------
    model : DIBPNMF
        Fitted.
    path : path-like
        The file; one that exists is replaced, in one step.
    data : array-like, sparse matrix, DataFrame or Observations, optional
        The fitted matrix, to compare with its reconstruction.
    image_shape : (height, width), optional
        The columns are the pixels of an image of this shape, line by line.
    title : str, optional
        Headline of the page.
    row_names, column_names : iterable, optional
        Shown in place of those of a DataFrame; numbers from 1 where there are none.

    Returns
    -------
    Path
        The file written.
    """
    check_is_fitted(model)
    path = Path(path)
    if not path.parent.is_dir():
        raise ValueError(f"path must lie in a folder that exists; there is no {path.parent}.")
    if path.is_dir():
        raise ValueError(f"path must be a file; {path} is a folder.")
    image = _image_shape(image_shape, model._shape[1])
    rows = names.row_names(model, data, row_names)
    columns = names.column_names(model, data, column_names, image)
    observations = None if data is None else reconstruction.read_data(model, data)
    text = _page(model, title, _gather(model, observations, rows, columns, image))
    _write(path, text)
    return path


def _image_shape(shape: Any, n_columns: int) -> tuple[int, int] | None:
    if shape is None:
        return None
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise TypeError(f"image_shape must be (height, width); got {shape!r}.")
    height, width = (whole_number("image_shape", part, 1) for part in shape)
    if height * width != n_columns:
        raise ValueError(f"image_shape must have as many pixels as the data columns, "
                         f"{n_columns}; got {height} × {width} = {height * width}.")  # fmt: skip
    return height, width


def _gather(
    model: DIBPNMF,
    observations: Observations | None,
    rows: list[str],
    columns: list[str],
    image: tuple[int, int] | None,
) -> dict[str, Any]:
    """Everything the page shows: charts, factors, rows; and the fit, for the words."""
    sample = None if observations is None else reconstruction.sample_cells(model, observations)
    fit = None if sample is None else reconstruction.judge(model, sample)
    described = factors.describe(model, rows, columns, image)
    short = [factors.short(factor) for factor in described]
    by_columns, by_rows = factors.similarities(model)
    drawn = {
        "counts": charts.number_of_factors(model),
        "traces": charts.traces(model),
        "rowsUse": charts.factors_used((model.embedding_ > 0.0).sum(axis=1), "row"),
        "columnsUse": charts.factors_used((model.components_ > 0.0).sum(axis=0), "column"),
    }
    maps = reconstruction.maps(model, observations, sample)
    drawn |= charts.heat_maps(maps, rows, columns)
    if sample is not None:
        drawn["curve"] = charts.data_against_mean(reconstruction.curve(sample))
    if described:
        drawn["shares"] = charts.factor_shares(described, short)
        drawn["reach"] = charts.factor_reach(described, short, model._shape)
    if len(described) > 1:
        drawn["similarColumns"] = charts.similarity(by_columns, short, "columns")
        drawn["similarRows"] = charts.similarity(by_rows, short, "rows")
    return {
        "charts": drawn,
        "templates": {"columns": charts.columns_of_factor(), "row": charts.factors_of_row()},
        "factors": described,
        "short": short,
        "rows": factors.row_shares(model, rows),
        "shape": list(model._shape),
        "image": image is not None,
        "fit": fit,
        "similar": [words.about_similarity(by_columns, "columns"),
                    words.about_similarity(by_rows, "rows")],
    }  # fmt: skip


def _page(model: DIBPNMF, title: str | None, found: dict[str, Any]) -> str:
    """Fill the template; texts are escaped here, names reach the page as data only."""
    M, N = model._shape
    fit = found.pop("fit")
    similar = found.pop("similar")
    scripts = [*(_asset(name) for name in _LIBRARIES), _asset("page.js")]
    slots = {
        "policy": _policy(scripts),
        "title": html.escape(title or f"What was found in {M:,} rows and {N:,} columns"),
        "style": _asset("style.css"),
        "subtitle": html.escape(_subtitle(model)),
        "number": _card("How many factors?", words.about_number(model)),
        "fit": _card("How well do they fit?", words.about_fit(model, fit)),
        "trust": _card("Can I trust it?", words.about_trust(model)),
        "factorsText": html.escape(_IMAGES if found["image"] else _BARS),
        "diagnostics": _diagnostics(model),
        "acceptance": html.escape(_acceptance(model)),
        "sparsity": html.escape(words.about_sparsity(model)),
        "similarColumns": html.escape(similar[0]),
        "similarRows": html.escape(similar[1]),
        "settings": _settings(model),
        "version": html.escape(__version__),
        "payload": _json(found),
        "licences": _asset("LICENSES.txt"),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    template = _asset("page.html")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: slots[match[1]], template)


def _subtitle(model: DIBPNMF) -> str:
    M, N = model._shape
    observed = model._facts["n_observed"]
    cells = "all cells observed" if observed == M * N else f"{observed:,} cells observed"
    return (f"{words.counted(M, 'row')} × {words.counted(N, 'column')}, {cells}. "
            f"{model.prior} prior, {model.likelihood} likelihood.")  # fmt: skip


def _card(question: str, verdict: Verdict) -> str:
    sentences = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in verdict.sentences)
    return (
        f'<article class="card {verdict.level}"><h3>{html.escape(question)}</h3>'
        f'<p class="verdict"><span class="mark" aria-hidden="true">{_MARKS[verdict.level]}</span>'
        f"{html.escape(verdict.headline)}</p>{sentences}</article>"
    )


def _diagnostics(model: DIBPNMF) -> str:
    """Lines of the table of R-hat and ESS."""
    lines = []
    for name in model.diagnostics_["r_hat"]:
        level, text = words.about_scalar(model, name)
        r_hat, bulk, tail = (
            model.diagnostics_[part][name] for part in ("r_hat", "ess_bulk", "ess_tail")
        )
        lines.append(
            f'<tr><th scope="row">{html.escape(words.meaning(name))}</th>'
            f'<td class="{level}"><span class="mark" aria-hidden="true">{_MARKS[level]}</span>'
            f"{html.escape(text)}</td>"
            f"<td>{r_hat:.3f}</td><td>{bulk:,.0f}</td><td>{tail:,.0f}</td></tr>"
        )
    return "\n".join(lines)


def _acceptance(model: DIBPNMF) -> str:
    rate = model.diagnostics_["acceptance"]["entries"]
    return f"Proposed entries were accepted {words.percent(rate)} of the time."


def _settings(model: DIBPNMF) -> str:
    """Every parameter, as terms and definitions."""
    return "\n".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(repr(value))}</dd></div>"
        for name, value in sorted(model.get_params().items())
    )


def _asset(name: str) -> str:
    return files("dibpnmf.report").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(scripts: list[str]) -> str:
    """Let the page's own scripts run, known by their hash, and nothing else; no network."""
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _json(found: dict[str, Any]) -> str:
    """JSON in which no character can end or open an HTML element."""
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _write(path: Path, text: str) -> None:
    """Write under a temporary name, then rename: never half a report."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
