"""Run the full suite and write docs/validation.md with its figures.

    python -m tests.statistical.report --jobs 2
    python -m tests.statistical.report --parts geweke,sbc     # redo some parts only
    python -m tests.statistical.report --parts geweke --new   # cases without a result only

Results are kept in docs/validation/results.json, from which the page is made.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from dibpnmf.inference.chain import SCHEMES
from dibpnmf.priors import PRIORS

from . import page
from .cases import CASES, parse_case
from .errors import FULL_LEVEL
from .exact import compare, problems
from .geweke import Outcome, geweke
from .mutants import MUTANTS, PROCESSOR_SECONDS, Mutant, run_checks
from .recovery import SETTINGS, recover, recover_parameters
from .sbc import calibrate

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "validation" / "results.json"
SEED = 20_160
GEWEKE_SWEEPS = 64_000
EXACT_SWEEPS = 12_800
RECOVERY_SWEEPS = 25_600
N_REPLICATES = 208

FREE = problems([((2, 2), 1), ((2, 3), 1), ((2, 2), 2), ((2, 3), 2)], list(PRIORS))
FIXED = problems([((2, 2), 1), ((2, 3), 1), ((2, 2), 2), ((2, 3), 2)], ["fixed"])
N_RECOVERIES = len(SCHEMES) * (len(SETTINGS) + len(PRIORS))

Row = dict[str, Any]


def _row(outcome: Outcome, **labels: Any) -> Row:
    name, value = outcome.worst
    return labels | {
        "passed": outcome.is_accepted,
        "worst": abs(value),
        "function": name,
        "limit": outcome.threshold,
        "statistics": [round(x, 3) for x in outcome.statistics.values()],
    }


def geweke_row(name: str) -> Row:
    case = parse_case(name)
    outcome = geweke(case, GEWEKE_SWEEPS, GEWEKE_SWEEPS // 2, SEED, FULL_LEVEL, len(CASES))
    return _row(outcome, case=name)


def exact_row(index: int) -> Row:
    problem = (FIXED + FREE)[index]
    is_large = problem.K == 2 and problem.shape == (2, 3)
    outcome = compare(
        problem, EXACT_SWEEPS, 9 if is_large else 12, SEED, FULL_LEVEL, len(FIXED) + len(FREE)
    )
    group = "/".join((problem.prior, problem.likelihood, problem.scheme, problem.data))
    return _row(outcome, case=group, problem=str(problem))


def recovery_row(name: str, scheme: str) -> Row:
    if name in PRIORS:
        outcome = recover_parameters(name, scheme, RECOVERY_SWEEPS, SEED, FULL_LEVEL, N_RECOVERIES)
        return _row(outcome, prior=name, scheme=scheme, setting="θ learned")
    setting = next(s for s in SETTINGS if str(s) == name)
    outcome = recover(setting, scheme, RECOVERY_SWEEPS, SEED, FULL_LEVEL, N_RECOVERIES)
    return _row(outcome, prior=setting.prior, scheme=scheme, setting=name)


def sbc_row(name: str) -> Row:
    ranks = calibrate(parse_case(name), N_REPLICATES, SEED)
    p_values = ranks.p_values()
    worst = min(p_values, key=p_values.__getitem__)
    limit = FULL_LEVEL / (len(p_values) * len(CASES))
    return {
        "case": name,
        "passed": p_values[worst] > limit,
        "p": p_values[worst],
        "function": worst,
        "limit": limit,
        "effective": ranks.effective,
        "counts": ranks.counts(),
    }


CONTROL = "unchanged (control)"
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def mutant_row(name: str, *checks: str) -> Row:
    """Put a mutant, or the unchanged package, through checks."""
    mutant = BY_NAME.get(name)
    seconds = PROCESSOR_SECONDS if mutant else 3_600
    with tempfile.TemporaryDirectory() as folder:
        reasons = run_checks(Path(folder), mutant, checks, seconds)
    caught = any(reasons.values())
    return {"mutant": name, "passed": caught == bool(mutant), "reasons": reasons}


def mutant_tasks(mutants: list[Mutant]) -> list[tuple[str, ...]]:
    """The control, with every check that one of these mutants has, and the mutants."""
    checks = dict.fromkeys(check for mutant in mutants for check in mutant.checks)
    return [(CONTROL, *checks), *((mutant.name, *mutant.checks) for mutant in mutants)]


PARTS: dict[str, tuple[Callable[..., Row], list[tuple[Any, ...]]]] = {
    "geweke": (geweke_row, [(str(case),) for case in CASES]),
    "exact": (exact_row, [(i,) for i in range(len(FIXED) + len(FREE))]),
    "recovery": (
        recovery_row,
        [(str(x), scheme) for x in [*SETTINGS, *PRIORS] for scheme in SCHEMES],
    ),
    "sbc": (sbc_row, [(str(case),) for case in CASES]),
    "mutants": (mutant_row, mutant_tasks(MUTANTS)),
}


def _commit() -> str:
    """Commit of the sources, marked if they have been changed since."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True
        )
        return done.stdout.strip()

    changed = " with local changes" if git("status", "--porcelain", "src") else ""
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + changed


def new_tasks(part: str, old: list[Row]) -> list[tuple[Any, ...]]:
    """Tasks of a part that names its rows by their first argument, without those that have one."""
    known = {row.get("case", row.get("mutant")) for row in old}
    if part == "mutants":
        return mutant_tasks([mutant for mutant in MUTANTS if mutant.name not in known])
    return [task for task in PARTS[part][1] if task[0] not in known]


def joined(old: list[Row], rows: list[Row]) -> list[Row]:
    """Old rows and new ones; the control's checks, old and new, in one row."""
    controls = [row for row in [*old, *rows] if row.get("mutant") == CONTROL]
    others = [row for row in [*old, *rows] if row.get("mutant") != CONTROL]
    for row in controls[1:]:
        controls[0]["reasons"] |= row["reasons"]
        controls[0]["passed"] &= row["passed"]
    return controls[:1] + others


def run_part(
    pool: ProcessPoolExecutor, part: str, commit: str, old: Row | None, only_new: bool
) -> Row:
    """Run the tasks of one part, or those without a result, and return its rows."""
    function, tasks = PARTS[part]
    known = old["rows"] if old and only_new else []
    if known:
        tasks = new_tasks(part, known)
    started = time.monotonic()
    futures = [pool.submit(function, *task) for task in tasks]
    rows = joined(known, [future.result() for future in futures])
    minutes = (time.monotonic() - started) / 60.0
    if old and known:
        first = old["commit"].partition(";")[0]
        commit = f"{first}; cases that were added or run again since, the last at {commit}"
        minutes += old["minutes"]
    failed = [row for row in rows if not row["passed"]]
    print(f"{part}: {len(rows) - len(failed)} of {len(rows)} as they should be, "
          f"{minutes:.1f} minutes", flush=True)  # fmt: skip
    for row in failed:
        print("  ", {key: row[key] for key in row if key not in ("statistics", "counts")})
    return {"rows": rows, "commit": commit, "minutes": minutes}


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--new", action="store_true", help="run what has no result yet only")
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.new and set(options.parts.split(",")) - {"geweke", "sbc", "mutants"}:
        parser.error("--new goes with --parts geweke, sbc or mutants")
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    commit = _commit()  # of what is about to be imported, whatever is changed meanwhile
    # Fresh processes: numba's compiler must not be forked while its locks are held.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        for part in options.parts.split(","):
            results[part] = run_part(pool, part, commit, results.get(part), options.new)
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            RESULTS.write_text(json.dumps(results, ensure_ascii=False), "utf-8")
            page.write(results, ROOT / "docs", "python -m tests.statistical.report")
    return int(not all(row["passed"] for part in results.values() for row in part["rows"]))


if __name__ == "__main__":
    sys.exit(main())
