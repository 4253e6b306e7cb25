"""A fitted model in a few numbers, for summary.json and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dibpnmf.diagnostics import doubts_about_draws, doubts_about_truncation

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF


def summarise(model: DIBPNMF) -> dict[str, Any]:
    """Number of factors, fit, sparsity and trust, as a table that JSON can hold."""
    draws = [len(record) for record in model._records]
    doubts = [text for _, text in doubts_about_draws(model.diagnostics_, model.n_warmup,
                                                     model.n_draws)]  # fmt: skip
    converged = not doubts
    if model.n_components is None:
        truncation = doubts_about_truncation(model._touched, model.max_components_)
        doubts += [text for _, text in truncation]
    is_complete = len(draws) == model.n_chains and min(draws) >= model.n_draws
    doubts += model._contradictions
    return {
        "status": "done" if is_complete else "interrupted",
        "converged": converged,
        "doubts": doubts,
        "contradictions": model._contradictions,  # of data and likelihood; among the doubts
        "data": {
            name: model._facts[name] for name in ("n_rows", "n_columns", "n_observed", "mean")
        },
        "draws_per_chain": draws,
        "n_components": model.n_components_,
        "component_counts": model.component_counts_,
        "n_active": model.n_active_,
        "shares": model.shares_,
        "row_density": float(np.mean(model.embedding_ > 0.0)) if model.n_components_ else 0.0,
        "column_density": float(np.mean(model.components_ > 0.0)) if model.n_components_ else 0.0,
        "log_likelihood": model.log_likelihood_,
        "epsilon": model.epsilon_,
        "max_components": model.max_components_,
        "diagnostics": model.diagnostics_,
    }


def in_words(summary: dict[str, Any]) -> list[str]:
    """Say what was found, and how far to trust it, a line each."""
    data, draws = summary["data"], summary["draws_per_chain"]
    cells = data["n_rows"] * data["n_columns"]
    missing = cells - data["n_observed"]
    lines = [
        f"Data: {data['n_rows']} rows × {data['n_columns']} columns"
        + (f", {missing / cells:.0%} of the cells missing" if missing else ""),
        factors_in_words(summary["component_counts"]),
        f"Sparsity: a row uses {summary['row_density']:.0%} of the factors, a column "
        f"{summary['column_density']:.0%}",
    ]
    if summary["status"] != "done":
        lines.append(f"Interrupted: this rests on {sum(draws)} draws, {draws} per chain.")
    doubts = summary["doubts"] or [f"the chains agree ({sum(draws)} draws from {len(draws)})."]
    return [*lines, *(f"Trust: {doubt}" for doubt in doubts)]


def factors_in_words(counts: dict[int, float]) -> str:
    """Say how many factors there are, and how probable other numbers of them."""
    probability = {int(K): p for K, p in counts.items()}
    mode = max(probability, key=lambda K: probability[K])
    others = ", ".join(
        f"{K} with {p:.0%}" for K, p in sorted(probability.items()) if mode != K and p >= 0.01
    )
    sure = f"probability {probability[mode]:.0%}" + (f"; {others}" if others else "")
    return f"Factors found: {mode} ({sure})"
