"""What was learned, in plain words: how many factors, how well they fit, whether to trust it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dibpnmf.diagnostics import MAX_R_HAT, MIN_ESS, TRUNCATED_SHARE
from dibpnmf.report.reconstruction import Fit

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF

GOOD, CARE, BAD, UNKNOWN = "good", "care", "bad", "unknown"
_CENTRAL = ("log_likelihood", "n_components")  # without these nothing is settled
_CLEARLY = 0.1  # of variance explained, beyond what is expected
# Relative difference of means from which it is told, and from which it is a doubt. With as much
# noise as signal the posterior is skewed, and its mean above the data where the model is right too.
_OFF, _FAR_OFF = 0.1, 0.25
_MEANINGS = {
    "log_likelihood": "fit to the data (log likelihood)",
    "n_components": "number of factors",
    "n_active": "factors in use, tiny ones included",
    "tau_rows": "size of the rows' loadings (τ of rows)",
    "tau_columns": "size of the columns' loadings (τ of columns)",
}


@dataclass(frozen=True)
class Verdict:
    """A judgement: its level, a headline, and sentences that explain it."""

    level: str
    headline: str
    sentences: tuple[str, ...]


def meaning(scalar: str) -> str:
    """What a diagnosed quantity is."""
    return _MEANINGS.get(scalar, f"the prior's parameter {scalar}")


def percent(share: float) -> str:
    """A share in percent, never 0% or 100% unless it is."""
    if 0.0 < share < 0.01:
        return "less than 1%"
    if 0.99 < share < 1.0:
        return "more than 99%"
    return f"{share:.0%}"


def counted(n: int, noun: str) -> str:
    """A number with its noun: 1 factor, 2 factors."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def about_number(model: DIBPNMF) -> Verdict:
    """How many factors there are, and how sure that is."""
    K, counts = model.n_components_, model.component_counts_
    if model.n_components is not None:
        text = f"The number was fixed at {K} before fitting, not learned."
        return Verdict(UNKNOWN, counted(K, "factor"), (text,))
    sure = counts.get(K, 0.0)
    headline = f"{counted(K, 'factor')}, with probability {percent(sure)}"
    others = sorted(((p, k) for k, p in counts.items() if k != K), reverse=True)
    named = [f"{k} has {percent(p)}" for p, k in others[:3] if p >= 0.01]
    sentences = [] if others else ["Every draw of every chain has this number."]
    if named:
        sentences.append("Of other numbers, " + _and(named) + ".")
    if len(counts) > 1:
        low, high = _interval(counts)
        if low < high:
            sentences.append(f"With probability 90% or more it lies between {low} and {high}.")
    sentences.append(
        f"A factor counts if it carries at least {100.0 * model.min_share:g}% of the "
        f"reconstruction; tiny ones included, {model.n_active_} are in use."
    )
    settled = sure >= 0.5 and about_scalar(model, "n_components")[0] == GOOD
    return Verdict(GOOD if settled else CARE, headline, tuple(sentences))


def _interval(counts: dict[int, float]) -> tuple[int, int]:
    """Equal-tailed 90% interval of the number of factors."""
    numbers = sorted(counts)
    below = np.cumsum([counts[k] for k in numbers])
    low, high = (int(np.searchsorted(below, q - 1e-12)) for q in (0.05, 0.95))
    return numbers[low], numbers[min(high, len(numbers) - 1)]


def about_fit(model: DIBPNMF, fit: Fit | None) -> Verdict:
    """How well the reconstruction meets the data."""
    if fit is None:
        return Verdict(
            UNKNOWN, "Not judged here",
            ("The report was made without the data, so they cannot be compared with the "
             f"reconstruction. The log likelihood is {model.log_likelihood_:,.1f}.",),
        )  # fmt: skip
    low, high = fit.expected
    noise = model.likelihood
    range_ = f"{percent(max(low, 0.0))} to {percent(max(high, 0.0))}"
    expected = f"Data that followed the model, with its {noise} noise, would give {range_}: "
    if fit.explained < low - _CLEARLY:
        level = BAD if fit.explained < low / 2.0 else CARE
        verdict = "there is more in the data than the factors say, or noise of another kind."
    elif fit.explained > high + _CLEARLY:
        level = GOOD
        verdict = ("the data are less noisy than the model takes them to be, and its intervals "
                   "wider than they need be.")  # fmt: skip
    else:
        level, verdict = GOOD, "it fits as well as can be asked."
    sentences = [expected + verdict]
    if abs(fit.excess) > _OFF:
        level = CARE if level == GOOD and abs(fit.excess) > _FAR_OFF else level
        where = "above" if fit.excess > 0.0 else "below"
        sentences.append(f"On average it lies {percent(abs(fit.excess))} {where} the data.")
    if fit.auc is not None:
        sentences.append(f"Of a zero and a non-zero cell, it gives the non-zero one the larger "
                         f"value {percent(fit.auc)} of the time.")  # fmt: skip
    sentences.append("Measured on the cells it was fitted to.")
    how_much = percent(fit.explained) if fit.explained > 0.0 else "none"
    headline = f"It explains {how_much} of the variation between cells"
    return Verdict(level, headline, tuple(sentences))


def about_scalar(model: DIBPNMF, name: str) -> tuple[str, str]:
    """Level and words for one diagnosed quantity."""
    r_hat, bulk, tail = (
        model.diagnostics_[part][name] for part in ("r_hat", "ess_bulk", "ess_tail")
    )
    ess = min(bulk, tail)
    if np.isnan(r_hat) or np.isnan(ess):
        return BAD, "too few draws to judge"
    if np.ptp(model._scalars[name]) == 0.0:
        return GOOD, "good: the same in every draw"
    if r_hat > MAX_R_HAT:
        return BAD, "the chains disagree"
    if ess < MIN_ESS:
        return CARE, "too few independent draws"
    return GOOD, "good"


def about_trust(model: DIBPNMF) -> Verdict:
    """Whether the chains have converged, and what to do if not."""
    levels = {name: about_scalar(model, name) for name in model.diagnostics_["r_hat"]}
    rough = [name for name, (level, _) in levels.items() if level != GOOD]
    central = [name for name in rough if name in _CENTRAL]
    sentences = [*_about_chains(model, levels, rough), *_about_run(model)]
    if central:
        return Verdict(BAD, "Not yet", tuple(sentences))
    if rough or len(sentences) > 1:
        return Verdict(CARE, "With care", tuple(sentences))
    return Verdict(GOOD, "Yes", tuple(sentences))


def _about_chains(
    model: DIBPNMF, levels: dict[str, tuple[str, str]], rough: list[str]
) -> list[str]:
    n_chains, n_draws = model._scalars["log_likelihood"].shape
    run = f"{counted(n_chains, 'chain')} of {counted(n_draws, 'draw')}"
    if not rough:
        agree = "agree" if n_chains > 1 else "is steady"
        return [f"The {run} {agree}, on everything that was checked."]
    verdicts = dict.fromkeys(levels[name][1] for name in rough)
    named = [
        f"{verdict.capitalize()}: {_and([meaning(n) for n in rough if levels[n][1] == verdict])}."
        for verdict in verdicts
    ]
    remedy = (
        f"Run longer: raise the warm-up (now {model.n_warmup}) and the draws (now "
        f"{model.n_draws}). If the chains still disagree, the data admit several answers; what "
        "is shown below is the likeliest that was found."
    )
    settled = "have" if n_chains > 1 else "has"
    return [f"The {run} {settled} not settled.", *named, remedy]


def _about_run(model: DIBPNMF) -> list[str]:
    out = []
    n_chains, n_draws = model._scalars["log_likelihood"].shape
    if n_chains == 1:
        out.append("A single chain cannot show whether another would find something else: run "
                   "several.")  # fmt: skip
    if n_draws < model.n_draws:
        out.append(f"The run was stopped early: {counted(n_draws, 'draw')} instead of "
                   f"{model.n_draws:,}.")  # fmt: skip
    if model.n_components is None and model._touched > TRUNCATED_SHARE:
        out.append(
            f"The model had room for {model.max_components_} factors, and used the last ones in "
            f"{percent(model._touched)} of the draws: give it more room (max_components="
            f"{2 * model.max_components_})."
        )
    return out + model._contradictions


def about_sparsity(model: DIBPNMF) -> str:
    """How many factors a row and a column use."""
    K = model.n_components_
    if K == 0:
        return "There are no factors to use."
    rows, columns = (model.embedding_ > 0.0).sum(axis=1), (model.components_ > 0.0).sum(axis=0)
    return (
        f"Of {counted(K, 'factor')}, a row uses {rows.mean():.1f} on average and a column "
        f"{columns.mean():.1f}. {_none(rows, 'row')} and {_none(columns, 'column')} use none: the "
        "background is enough for them."
    )


def _none(used: np.ndarray, noun: str) -> str:
    return counted(int(np.sum(used == 0)), noun)


def about_similarity(cosines: np.ndarray, what: str) -> str:
    """Name the two factors that are most alike."""
    K = len(cosines)
    if K < 2:
        return "It takes two factors to compare them."
    upper = np.where(np.triu(np.ones((K, K)), 1) > 0.0, cosines, -1.0)
    i, j = np.unravel_index(int(np.argmax(upper)), upper.shape)
    value = float(cosines[i, j])
    if value < 0.005:
        return f"No two factors have anything to speak of in common by their {what}."
    return (f"Most alike by their {what}: factors {i + 1} and {j + 1}, with {value:.2f} "
            "(0 is nothing in common, 1 the same).")  # fmt: skip


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
