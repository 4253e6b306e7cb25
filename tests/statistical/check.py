"""Run single checks from the command line, against whichever dibpnmf is first on the path.

    python -m tests.statistical.check geweke:bivariate-beta/exponential/joint/complete:16000

Each check prints one line; the exit status is 1 if any of them rejects the sampler. Mutants
(see mutants.py) and their control run the same commands with the same seeds.
"""

from __future__ import annotations

import argparse
import resource
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import dibpnmf

from .cases import CASES, parse_case
from .errors import FAST_LEVEL
from .exact import Problem, compare
from .geweke import Outcome, geweke
from .recovery import SETTINGS, recover, recover_parameters

SEED = 31
MARK = "CHECK"


def _run_geweke(case: str, sweeps: str) -> Outcome:
    n = int(sweeps)
    return geweke(parse_case(case), n, n // 2, SEED, FAST_LEVEL, len(CASES))


def _run_exact(prior: str, likelihood: str, scheme: str, data: str, sweeps: str) -> Outcome:
    problem = Problem(prior, likelihood, scheme, data, (2, 2), 2)
    return compare(problem, int(sweeps), 11, SEED, FAST_LEVEL, len(CASES))


def _run_recovery(prior: str, scheme: str, sweeps: str) -> Outcome:
    """All settings of a prior and its learned parameters; the worst of them is reported."""
    outcomes = [
        recover(setting, scheme, int(sweeps), SEED, FAST_LEVEL, len(CASES))
        for setting in SETTINGS
        if setting.prior == prior
    ]
    outcomes.append(recover_parameters(prior, scheme, int(sweeps), SEED, FAST_LEVEL, len(CASES)))
    return max(outcomes, key=lambda outcome: abs(outcome.worst[1]) / outcome.threshold)


def _run_tests(path: str) -> Outcome:
    """Run a file of tests, as an outcome: one statistic, the exit status."""
    status = pytest.main(["-q", "-x", "--no-header", "-p", "no:xdist", path])
    return Outcome({path: float(status)}, 0.5)


RUNNERS: dict[str, Callable[..., Outcome]] = {
    "geweke": _run_geweke,
    "exact": _run_exact,
    "recovery": _run_recovery,
    "tests": _run_tests,
}


def run_check(spec: str) -> bool:
    """Run one check, print its line, and say whether the sampler passed."""
    kind, *arguments = spec.split(":")
    try:
        outcome = RUNNERS[kind](*arguments)
    except Exception as error:  # a sampler that crashes or leaves the finite numbers is rejected
        traceback.print_exc()
        print(f"{MARK}\t{spec}\trejected\t{type(error).__name__}", flush=True)
        return False
    verdict = "passed" if outcome.is_accepted else "rejected"
    name, value = outcome.worst
    detail = "exit status" if kind == "tests" else f"{name}: {abs(value):.1f}"
    print(f"{MARK}\t{spec}\t{verdict}\t{detail}", flush=True)
    return outcome.is_accepted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checks", nargs="+")
    parser.add_argument("--source", type=Path, help="refuse to run on any other dibpnmf")
    parser.add_argument("--seconds", type=int, help="processor time after which to give up")
    arguments = parser.parse_args()
    if arguments.seconds:
        # Not of the clock: a busy machine must not look like a sampler that diverges.
        resource.setrlimit(resource.RLIMIT_CPU, (arguments.seconds, arguments.seconds + 5))
    found = Path(dibpnmf.__file__).resolve().parent
    if arguments.source and found != arguments.source.resolve():
        parser.error(f"dibpnmf is {found}, not {arguments.source}")
    results = [run_check(spec) for spec in arguments.checks]  # all of them, even after a failure
    return int(not all(results))


if __name__ == "__main__":
    raise SystemExit(main())
