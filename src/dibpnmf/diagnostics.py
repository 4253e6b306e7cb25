"""Whether a run can be trusted: R-hat and ESS of the label-free scalars, and words for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

Floats = NDArray[np.float64]
Diagnostics = dict[str, dict[str, float]]


class InterruptedWarning(UserWarning):
    """Sampling was interrupted, and the results rest on the draws made until then."""


class LikelihoodWarning(UserWarning):
    """The data plainly contradict the likelihood that was chosen."""


MAX_R_HAT, MIN_ESS = 1.05, 50.0
TRUNCATED_SHARE = 0.1  # share of draws in which the last columns may be in use
_FEWEST = 4  # draws below which chains cannot be compared


def diagnose(scalars: dict[str, Floats]) -> Diagnostics:
    """R-hat, bulk and tail ESS of the scalars, and mean acceptance rates.

    A scalar that never moves in any chain has nothing to converge: R-hat 1, full ESS. R-hat
    compares halves of the chains, so that it exists for a single chain too; it is infinite
    where each chain stays at a value of its own, and both are NaN below four draws (eight of a
    single chain).
    """
    out: Diagnostics = {"r_hat": {}, "ess_bulk": {}, "ess_tail": {}}
    for name, values in scalars.items():
        if name != "acceptance":
            numbers = _diagnose_one(np.asarray(values, dtype=np.float64))
            for statistic, number in zip(out, numbers, strict=True):
                out[statistic][name] = number
    out["acceptance"] = {"entries": float(np.mean(scalars["acceptance"]))}
    return out


def _diagnose_one(x: Floats) -> tuple[float, float, float]:
    from arviz_stats.base.array import array_stats

    if x.shape[1] >= _FEWEST and np.all(x == x.flat[0]):
        return 1.0, float(x.size), float(x.size)
    # A single chain is compared with itself, its first half with its second.
    half = x.shape[1] // 2
    chains = x if len(x) > 1 else x[:, : 2 * half].reshape(2, half)
    if chains.shape[1] < _FEWEST:
        return np.nan, np.nan, np.nan
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(all="ignore"):
        # Of location and of spread. Two values only may leave no spread to compare (NaN).
        parts = [float(array_stats.rhat(chains, method=m, **axes)) for m in ("z_scale", "folded")]
        r_hat = max((part for part in parts if not np.isnan(part)), default=np.inf)
        bulk = float(array_stats.ess(x, method="bulk", **axes))
        tail = float(array_stats.ess(x, method="tail", prob=(0.05, 0.95), **axes))
    return r_hat, bulk, tail


def doubts_about_draws(
    diagnostics: Diagnostics, n_warmup: int, n_draws: int
) -> Iterator[tuple[type[Warning], str]]:
    """Yield a warning that names the scalars that have not converged, and what to do."""
    rough = []
    for name, r_hat in diagnostics["r_hat"].items():
        ess = min(diagnostics["ess_bulk"][name], diagnostics["ess_tail"][name])
        if np.isnan(r_hat) or np.isnan(ess):
            rough.append(f"{name} (too few draws for R-hat and ESS)")
        elif r_hat > MAX_R_HAT or ess < MIN_ESS:
            rough.append(f"{name} (R-hat {r_hat:.2f}, ESS {ess:.0f})")
    if rough:
        text = (
            f"The chains have not converged: {', '.join(rough)}; wanted are R-hat <= "
            f"{MAX_R_HAT} and ESS >= {MIN_ESS:.0f}. Raise n_warmup and n_draws (now "
            f"{n_warmup} and {n_draws}); if R-hat stays high the posterior has several modes, "
            "and point estimates come from the best of them."
        )
        yield ConvergenceWarning, text


def doubts_about_truncation(
    touched: float, max_components: int
) -> Iterator[tuple[type[Warning], str]]:
    """Yield a warning if the share of draws that use the last columns is not small."""
    if touched > TRUNCATED_SHARE:
        text = (
            f"The last of {max_components} columns are in use in {touched:.0%} of the draws, so "
            f"the truncation may bind. Pass max_components={2 * max_components} or more."
        )
        yield UserWarning, text
