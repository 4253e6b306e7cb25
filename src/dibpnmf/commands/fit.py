"""dibpnmf fit: from a data file to a run's folder."""

from __future__ import annotations

import json
import secrets
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dibpnmf.commands.config import read_config
from dibpnmf.commands.endings import DONE, INTERRUPTED, NOT_CONVERGED, in_one_line
from dibpnmf.commands.options import PARAMETERS, in_options
from dibpnmf.commands.reporting import check_image_shape, image_shape_option, make_report

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF
    from dibpnmf.files import Table


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="Folder of the run, new or empty.",
)
@click.option("--resume", is_flag=True, help="Go on with the run in RUN, or start it.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    callback=read_config,
    is_eager=True,
    metavar="FILE.toml",
    help="Options from a file; those given here win.",
)
@click.option(
    "--layout",
    type=click.Choice(["auto", "table", "triplets"]),
    default="auto",
    show_default=True,
    help="Of CSV and TSV: a matrix, or row,col,value a line.",
)
@click.option(
    "--missing",
    type=click.Choice(["none", "absent", "zeros"]),
    default="none",
    show_default=True,
    help="Missing beside empty cells and NA: those that triplets or a "
    "sparse file do not have (absent), or all zeros.",
)
@click.option("--na", multiple=True, metavar="TEXT", help="A cell that is missing, as in -99.")
@click.option(
    "--labels",
    metavar="COLUMN|FILE",
    help="Known classes of the rows: a column of "
    "DATA, or a file with one a line. Compared with the factors, not used in fitting.",
)
@click.option(
    "--prior",
    default="bivariate-beta",
    show_default=True,
    help="bivariate-beta, copula or gaussian-process.",
)
@click.option(
    "--likelihood",
    default="exponential",
    show_default=True,
    help="Distribution of an entry given its mean: exponential, gaussian or poisson.",
)
@click.option(
    "--loadings",
    default="shared",
    show_default=True,
    help="Prior of the loadings: shared, per-factor or, for ratings, truncated-normal.",
)
@click.option("--scheme", default="joint", show_default=True, help="joint or literal.")
@click.option("--components", type=int, help="Fix the number of factors.")
@click.option("--max-components", type=int, help="The most columns a draw may use.")
@click.option(
    "--epsilon",
    default="auto",
    show_default=True,
    help="Background rate in units of the data's mean.",
)
@click.option(
    "--prior-param",
    multiple=True,
    metavar="NAME=NUMBER",
    help="A parameter of the prior, as in a=2.5; may be repeated.",
)
@click.option("--init", multiple=True, help="nmf or prior; may be repeated.")
@click.option(
    "--min-share",
    type=float,
    default=0.01,
    show_default=True,
    help="Least share of the total that a factor counts from.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), help="By default drawn; run.json has it."
)
@click.option("--warmup", type=int, default=500, show_default=True, help="Sweeps dropped.")
@click.option("--draws", type=int, default=500, show_default=True, help="Draws kept, per chain.")
@click.option("--thin", type=int, default=1, show_default=True, help="Sweeps per draw.")
@click.option("--chains", type=int, default=4, show_default=True)
@click.option(
    "--jobs",
    type=int,
    default=-1,
    show_default=True,
    help="Threads; -1 is all cores. The draws do not depend on it.",
)
@click.option(
    "--checkpoint-every",
    type=float,
    default=30.0,
    show_default=True,
    help="Seconds between checkpoints.",
)
@image_shape_option
@click.option("--no-report", is_flag=True, help="Write no report.html.")
@click.option("--quiet", is_flag=True, help="Nothing but the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.pass_context
def fit(ctx: click.Context, /, data: Path, out: Path, **options: Any) -> None:  # fmt: skip
    """Factorise DATA and keep the run in a folder.

    DATA is CSV or TSV (headers and names of rows are recognised), row,col,value triplets,
    Matrix Market, .npy, .npz, scipy's sparse .npz, Parquet or .h5ad; each may be gzipped.

    Exit codes: 0 done, 2 wrong input, 3 not converged (results kept), 130 interrupted (results
    kept), 1 disk or memory failed (what was saved is kept).
    """
    with in_one_line():
        model = _model(ctx, out, options)
        table, labels = _read(ctx, data, options)
        check_image_shape(options["image_shape"], table.shape[1])
        _fit(model, table, options["quiet"])
        code = _tell(model, out, labels, options)
    ctx.exit(code)


def _model(ctx: click.Context, out: Path, options: dict[str, Any]) -> DIBPNMF:
    """Make the estimator; what is not given on resuming is as the run has it."""
    from dibpnmf import _validation as check
    from dibpnmf._parameters import check_parameters
    from dibpnmf.estimator import DIBPNMF
    from dibpnmf.runs.errors import RunFolderError
    from dibpnmf.runs.folder import RunFolder

    check.path_or_none("--out", out)
    header = RunFolder(out).header()
    if header is not None and not options["resume"]:
        raise RunFolderError(f"{out} holds a run already; give --resume to go on with it, or "
                             "another folder.")  # fmt: skip
    known = header.parameters if header is not None else {}
    params = {
        name: _value(option, options[option])
        for option, name in PARAMETERS.items()
        if name not in known or ctx.get_parameter_source(option) is not ParameterSource.DEFAULT
    }
    if header is None and params["random_state"] is None:
        # A number that run.json keeps, so that the run can be repeated.
        params["random_state"] = secrets.randbelow(2**31)
    progress: bool | str = False if options["quiet"] or options["as_json"] else "auto"
    model = DIBPNMF(**{**known, **params, "checkpoint": out, "progress": progress})
    check_parameters(model)
    return model


def _value(option: str, value: Any) -> Any:
    """An option as the estimator takes it."""
    if option == "missing":
        return "observed" if value == "none" else "missing"
    if option == "epsilon" and value != "auto":
        return _number("--epsilon", value)
    if option == "init":
        return list(value) or "auto"
    if option == "prior_param":
        pairs = [pair.partition("=") for pair in value]
        return {name.strip(): _number(f"--prior-param {name}", v) for name, _, v in pairs} or None
    return value


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number; got {text!r}.") from None


def _read(
    ctx: click.Context, data: Path, options: dict[str, Any]
) -> tuple[Table, list[str] | None]:
    """Read the data, and labels from them or from a file of their own."""
    import scipy.sparse as sp

    from dibpnmf.commands.labels import read_labels
    from dibpnmf.files import read_table

    label = options["labels"]
    in_file = label is not None and Path(label).is_file()
    table = read_table(
        data, options["layout"], options["na"], options["missing"] == "zeros",
        None if in_file else label, options["missing"] == "absent",
    )  # fmt: skip
    if not sp.issparse(table.matrix):
        _check_layout(data, table, options)
    labels = read_labels(Path(label), table.shape[0]) if in_file else table.labels
    is_default = ctx.get_parameter_source("missing") is ParameterSource.DEFAULT
    if sp.issparse(table.matrix) and is_default and not (options["quiet"] or options["as_json"]):
        click.echo("Note: cells that the file does not list are taken as zeros; --missing absent "
                   "takes them as missing, --missing none stops this note.", err=True)  # fmt: skip
    return table, labels


def _check_layout(data: Path, table: Table, options: dict[str, Any]) -> None:
    """Refuse a table that was said to leave cells out, and tell of one that may be triplets."""
    read = f"{data} was read as a table of {table.shape[0]} rows × {table.shape[1]} columns"
    if options["missing"] == "absent":
        raise ValueError(
            "--missing absent is for files that leave cells out, triplets or sparse ones, and "
            f"{read}. If its lines are row,column,value give --layout triplets; the empty cells of "
            "a table are missing without --missing."
        )
    if (
        table.shape[1] == 3
        and table.row_names is None
        and not (options["quiet"] or options["as_json"])
    ):
        click.echo(f"Note: {read}; if its lines are row,column,value give --layout triplets.",
                   err=True)  # fmt: skip


def _fit(model: DIBPNMF, table: Table, quiet: bool) -> None:
    """Sample; doubts are part of the result, other warnings go to stderr."""
    from sklearn.exceptions import ConvergenceWarning

    from dibpnmf.diagnostics import InterruptedWarning, LikelihoodWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            matrix: Any = table.matrix
            model.fit(matrix, row_names=table.row_names, column_names=table.column_names)
        except KeyboardInterrupt as error:
            where = model.checkpoint
            raise KeyboardInterrupt(
                f"{error or 'interrupted'}; {where} is kept if sampling had begun: --resume"
            ) from error
    for warning in caught:
        told = (ConvergenceWarning, InterruptedWarning, LikelihoodWarning)
        text = in_options(str(warning.message))
        if not quiet and not issubclass(warning.category, told) and "The last of" not in text:
            click.echo(f"Warning: {text}", err=True)


def _tell(model: DIBPNMF, out: Path, labels: list[str] | None, options: dict[str, Any]) -> int:
    """Write the report, print the result, and return the exit code."""
    from dibpnmf.commands.labels import agreement
    from dibpnmf.runs.folder import REPORT, SUMMARY, RunFolder, read_json
    from dibpnmf.summary import in_words

    folder = RunFolder(out)
    summary = read_json(out / SUMMARY)
    if labels is not None:
        summary["labels"] = agreement(model, labels)
        folder.write_json(SUMMARY, summary)
    report = out / REPORT
    has_report = not options["no_report"]
    if has_report:
        make_report(model, out, report, options["image_shape"])
    if options["as_json"]:
        summary["doubts"] = [in_options(doubt) for doubt in summary["doubts"]]
        paths = {"run": str(out), "report": str(report) if has_report else None}
        click.echo(json.dumps(summary | paths, indent=2, allow_nan=False))
    else:
        lines = [in_options(line) for line in in_words(summary)] + [f"Run: {out}"]
        if labels is not None:
            found = ", ".join(f"{name} {value:.2f}" for name, value in summary["labels"].items())
            lines.insert(-1, f"Labels: {found}")
        if has_report:
            lines.append(f"Report: {report}")
        if summary["status"] != "done":
            lines.append(f"Interrupted: the same command with --resume goes on with {out}")
        click.echo("\n".join(lines))
    sys.stdout.flush()
    if summary["status"] != "done":
        return INTERRUPTED
    return DONE if summary["converged"] else NOT_CONVERGED
