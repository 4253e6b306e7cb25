# ruff: noqa: E501
"""Parameters of DIBPNMF and options of the command line that are wrong, or odd."""

from __future__ import annotations

from pathlib import Path

import numpy as np

NAN, INF = float("nan"), float("inf")

_NUMBERS = (0, -1, 1.5, "5", None, True, [3], NAN, 10**30)

PARAMETERS: list[dict] = [
    *({"n_draws": value} for value in _NUMBERS),
    *({"n_warmup": value} for value in (-1, 1.5, "5", None, False, NAN, 2**32)),
    *({"n_thin": value} for value in (*_NUMBERS, 2**32)),
    *({"n_chains": value} for value in (*_NUMBERS, 10**9)),
    *({"n_components": value} for value in (0, -3, 2.5, "two", True, 10**12, [2], INF)),
    *({"max_components": value} for value in (0, -3, 2.5, "two", 10**12, {})),
    {"n_components": 2, "max_components": 3},
    *({"prior": value} for value in ("", "beta", None, 3, b"copula", ["copula"], "Copula")),
    *({"likelihood": value} for value in ("", "normal-ish", None, 3)),
    *({"scheme": value} for value in ("", "fast", None, 3)),
    *({"zeros": value} for value in ("", "ignored", None, True)),
    *({"epsilon": value} for value in ("", "none", None, 0, 0.0, -1, NAN, INF, 1e31, True, [1], 1e-300, 5e-324, 1e29)),
    *({"min_share": value} for value in (-0.1, 1.0, 2, NAN, INF, "small", None, 0, 0.999)),
    *({"init": value} for value in ("", [], None, "random", ["nmf", "x"], [None], 3, ("prior",))),
    *({"random_state": value} for value in (-1, 2**32, 1.5, "seed", [1], NAN, 2**32 - 1, np.int64(3))),
    *({"n_jobs": value} for value in (0, 1.5, "all", [1], True, 10**9, -(10**9))),
    *({"progress": value} for value in ("yes", None, 1, 0.5)),
    *({"keep_draws": value} for value in ("yes", None, 1, False)),
    *({"prior_params": value} for value in (
        3, "a=1", [("a", 1)], {"c": 1}, {"a": 0}, {"a": -1}, {"a": NAN}, {"a": INF}, {"a": "x"}, {"a": None},
        {"a": True}, {1: 2}, {"a_shape": 0}, {"a_rate": -1}, {"a_shape": NAN}, {"a": [1]}, {"": 1},
        {"a": 1e-300}, {"a": 1e300}, {"a": 1e-8, "b": 1e8}, {"a_shape": 1e-12}, {"a_rate": 1e12}, {"a_shape": 1e12},
    )),
    *({"prior": "copula", "prior_params": value} for value in (
        {"rho": 2}, {"rho": -2}, {"rho": NAN}, {"rho": "x"}, {"a": 1}, {"alpha1": 0}, {"rho": 1}, {"rho": -1},
        {"alpha1": 1e-300}, {"alpha2": 1e300},
    )),
    *({"prior": "gaussian-process", "prior_params": value} for value in (
        {"sigma": 0}, {"eta": 0}, {"sigma": -1}, {"alpha": NAN}, {"rho": 0.5}, {"s": 0}, {"sigma": None},
        {"sigma": 1e-9}, {"eta": 1e-9}, {"sigma": 1e9, "eta": 1e9}, {"alpha": 1e-300}, {"alpha": 1e300}, {"s": 1e-300}, {"s": 1e300},
    )),
    *({"checkpoint": value} for value in ("", 3, b"run", "a\0b", True, [], Path("/dev/null/run"), "/proc/nothing/run")),
    *({"checkpoint_every": value} for value in (-1, NAN, INF, "often", None)),
]  # fmt: skip

ARGUMENTS: list[list[str]] = [
    *([option, value] for option in ("--draws", "--warmup", "--thin", "--chains", "--seed", "--jobs",
                                     "--components", "--max-components")
      for value in ("", "x", "1.5", "-5", "99999999999999999999", "0x10", "nan")),
    *(["--epsilon", value] for value in ("", "x", "nan", "inf", "-1", "0", "1e31")),
    *(["--min-share", value] for value in ("", "x", "nan", "1", "-1")),
    *(["--checkpoint-every", value] for value in ("", "x", "nan", "-1")),
    *(["--prior", value] for value in ("", "beta", "\u202e", "bivariate-beta\n")),
    *(["--likelihood", value] for value in ("", "x")),
    *(["--scheme", value] for value in ("", "x")),
    *(["--layout", value] for value in ("", "cube", "triplets")),
    *(["--missing", value] for value in ("", "some")),
    *(["--init", value] for value in ("", "x")),
    *(["--prior-param", value] for value in ("", "a", "=1", "a=", "a=x", "a=nan", "a=-1", "c=1", "a=1=2")),
    *(["--image-shape", value] for value in ("", "8", "8x", "x8", "0x8", "-8x8", "8x8x8", "999999x999999", "3x3")),
    *(["--labels", value] for value in ("", "nothing", "/", "x\x1b[31m")),
    *(["--config", value] for value in ("", "nothing.toml", "/", ".")),
    *(["--na", value] for value in ("", "1", "\x00")),
    ["--nothing"], ["--draws"], ["--quiet=yes"], ["extra"], ["--out", ""], ["--out", "/dev/null"],
    ["--out", "/dev/null/run"], ["--out", "."], ["--out", "/proc/run"], ["--out", "x" * 5000],
    ["--components", "2", "--max-components", "3"], ["--resume"],
]  # fmt: skip
