"""The suite must reject samplers that are broken on purpose, and nothing else."""

from __future__ import annotations

import pytest

from .mutants import MUTANTS, make_copy, run_checks

QUICK = [mutant for mutant in MUTANTS if mutant.is_quick]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_snippet_occurs_once(mutant, tmp_path):
    """A mutant that no longer changes anything would prove nothing."""
    make_copy(tmp_path, mutant)


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_mutant_is_rejected(mutant, tmp_path):
    check = mutant.checks[0]
    assert run_checks(tmp_path, mutant, (check,))[check]


def test_control_is_accepted(tmp_path):
    """The same commands with the same seeds pass on an unchanged copy."""
    checks = tuple(dict.fromkeys(mutant.checks[0] for mutant in QUICK))
    assert run_checks(tmp_path, None, checks) == dict.fromkeys(checks, "")
