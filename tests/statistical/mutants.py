"""Samplers broken on purpose: one change of the source each, and the checks that must object.

A mutant is a copy of the package in which one snippet, found exactly once, is replaced. The
checks run in a process of their own that imports the copy, so that everything is compiled
afresh. A check that rejects, crashes or does not end in time has caught the mutant.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import dibpnmf

from .check import MARK

ROOT = Path(__file__).parents[2]
SOURCE = Path(dibpnmf.__file__).parent
PROCESSOR_SECONDS = 200  # of all checks of a mutant, compilation included
NOT_REACHED = "not reached"

BB = "bivariate-beta/exponential/joint/complete"
BB_MISSING = "bivariate-beta/exponential/joint/missing"
BB_LITERAL = "bivariate-beta/exponential/literal/complete"
COPULA = "copula/exponential/joint/complete"
COPULA_LITERAL = "copula/exponential/literal/complete"
GP = "gaussian-process/exponential/joint/complete"
GP_LITERAL = "gaussian-process/exponential/literal/complete"
TRUNCATED = "bivariate-beta/gaussian/joint/missing/truncated-normal"
PER_FACTOR = "bivariate-beta/gaussian/joint/missing/per-factor"
LOADING_TWINS = "tests:tests/reference/test_loadings.py"
ROW_TWINS = "tests:tests/reference/test_rows.py"
POINT = "tests:tests/unit/test_point.py"
GRID_TWINS = "tests:tests/reference/test_grid_proposal.py"
PEAK_TWINS = "tests:tests/reference/test_peak_proposal.py"
FIRST_LOOK = "tests:tests/reference/test_first_look.py"
FACTORS = "tests:tests/reference/test_factors.py"
COUNTS = "tests:tests/reference/test_counts.py"
EXCHANGES = "tests:tests/reference/test_exchanges.py"
STREAMS = "tests:tests/unit/test_random.py"
PRIOR_TWINS = "tests:tests/reference/test_priors.py"
UNSEEN = "tests:tests/reference/test_unseen.py"
LABEL_TWINS = "tests:tests/reference/test_labels.py"
EXACT = "exact:fixed:exponential:joint:complete:6400"
EXACT_MISSING = "exact:fixed:exponential:joint:missing:6400"
EXACT_BB = "exact:bivariate-beta:exponential:joint:complete:6400"
GAUSSIAN = "copula/gaussian/joint/complete"
GAUSSIAN_MISSING = "gaussian-process/gaussian/joint/missing"
POISSON = "gaussian-process/poisson/joint/complete"
POISSON_MISSING = "bivariate-beta/poisson/joint/missing"
EXACT_GAUSSIAN = "exact:fixed:gaussian:joint:complete:6400"
EXACT_POISSON = "exact:fixed:poisson:joint:complete:6400"
NOISE_TWINS = "tests:tests/reference/test_noise.py"
RECOVER_BB = "recovery:bivariate-beta:joint:6400"
RECOVER_COPULA = "recovery:copula:joint:6400"
RECOVER_GP = "recovery:gaussian-process:joint:6400"


def geweke(case: str, sweeps: int = 16_000) -> str:
    return f"geweke:{case}:{sweeps}"


@dataclass(frozen=True)
class Mutant:
    """One wrong line, and the checks it is put through."""

    name: str
    file: str
    snippet: str
    replacement: str
    checks: tuple[str, ...]
    is_quick: bool = False  # run by the fast suite too, with its first check only


MUTANTS = [
    Mutant(
        "wrong sign of log λ",
        "likelihoods/exponential_sums.py",
        "return -sum_log(lines, BASE, LOAD, v, ",
        "return sum_log(lines, BASE, LOAD, v, ",
        (geweke(BB), ROW_TWINS, EXACT),
    ),
    Mutant(
        "ε dropped",
        "likelihoods/exponential.py",
        "build_mean(row, complete, cells, lists, A[i], lik.epsilon, i)",
        "build_mean(row, complete, cells, lists, A[i], 1e-12, i)",
        (geweke(BB), ROW_TWINS, EXACT),
    ),
    Mutant(
        "Jacobian of the stick ratios dropped",
        "priors/pair_moves.py",
        "value = log_given(target.given, target.given_next, x, rest, after)\n",
        "value = log_given(target.given, target.given_next, x, rest, after) - x\n",
        (geweke(BB), PRIOR_TWINS, RECOVER_BB),
    ),
    Mutant(
        "last stick given −log μ_K",
        "priors/pair_moves.py",
        "    if target.is_unseen:\n        return value",
        "    value -= x if target.is_last else 0.0\n    if target.is_unseen:\n        return value",
        (geweke(BB), PRIOR_TWINS, RECOVER_BB),
    ),
    Mutant(
        "Hastings term of the truncated beta dropped",
        "priors/pair_literal.py",
        "log_ratio += c * (log_nu[t, k] - new[t])",
        "log_ratio += 0.0",
        (geweke(BB_LITERAL), PRIOR_TWINS, "recovery:bivariate-beta:literal:6400"),
    ),
    Mutant(
        "μ for its ratio in θ (copula)",
        "priors/fgm_copula.py",
        "            total += log_nu[side, k]\n",
        "            total += np.sum(log_nu[side, : k + 1])\n",
        (geweke(COPULA_LITERAL), geweke(COPULA, 64_000), PRIOR_TWINS, RECOVER_COPULA),
    ),
    Mutant(
        "μ for its ratio in θ (Gaussian process)",
        "priors/gp_moves.py",
        "            log_mu += state.log_nu[k]\n        theta[0] = ",
        "            log_mu += (K - k) * state.log_nu[k]\n        theta[0] = ",
        (geweke(GP_LITERAL), geweke(GP, 64_000), PRIOR_TWINS, RECOVER_GP),
    ),
    Mutant(
        "copula α without its margins",
        "priors/fgm_copula.py",
        "return log_nu.shape[1] * math.log(alpha) + alpha * total + log_of(density)",
        "return log_of(density)",
        (geweke(COPULA), PRIOR_TWINS, RECOVER_COPULA),
    ),
    Mutant(
        "sign of ρ flipped in its own update",
        "priors/fgm_copula.py",
        "value += math.log1p(x * target.weights[k])",
        "value += math.log1p(-x * target.weights[k])",
        (geweke(COPULA), PRIOR_TWINS),
    ),
    Mutant(
        "Jacobian of log a dropped",
        "priors/pair_moves.py",
        "value = target.prior_shape * x - target.prior_rate * margin\n",
        "value = (target.prior_shape - 1.0) * x - target.prior_rate * margin\n",
        (geweke(BB), PRIOR_TWINS, RECOVER_BB),
    ),
    Mutant(
        "exponents of the bivariate beta exchanged (literal)",
        "priors/bivariate_beta.py",
        "a * (log_x + log1mexp(log_y))\n        + b * (log_y + log1mexp(log_x))",
        "a * (log_x + log1mexp(log_x))\n        + b * (log_y + log1mexp(log_y))",
        (PRIOR_TWINS, geweke(BB_LITERAL, 64_000)),
    ),
    Mutant(
        "exponents of the bivariate beta exchanged",
        "priors/bivariate_beta.py",
        "return a * (log_x + log_next) + b * math.log(rest)",
        "return b * (log_x + log_next) + a * math.log(rest)",
        (geweke(BB, 64_000), PRIOR_TWINS, RECOVER_BB),
    ),
    Mutant(
        "normaliser of a stick given the other with one power too few",
        "priors/bivariate_beta.py",
        "- (a + b + 1.0) * math.log(neither)",
        "- (a + b) * math.log(neither)",
        (geweke(BB), PRIOR_TWINS, RECOVER_BB),
    ),
    Mutant(
        "shape of the bivariate beta without 1 − ν¹ν²",
        "priors/bivariate_beta.py",
        "total += log_nu[side, k] - log1mexp(log_other + log_nu[side, k])",
        "total += log_nu[side, k]",
        (geweke(BB), PRIOR_TWINS, RECOVER_BB),
    ),
    Mutant(
        "stick of the copula that does not see the other",
        "priors/fgm_copula.py",
        "    return value + math.log(density)\n",
        "    return value\n",
        (geweke(COPULA), PRIOR_TWINS, RECOVER_COPULA),
    ),
    Mutant(
        "τ over all entries (joint)",
        "loadings/exponential.py",
        "tau[t] = draw_rate(s, n, total)",
        # The cases' matrices are 3 × 4.
        "tau[t] = draw_rate(s, (3.0 + t) * counts.shape[1], total)",
        (geweke(BB, 6_400), EXACT_BB, RECOVER_BB),
        is_quick=True,
    ),
    Mutant(
        "τ over entries that are on (literal)",
        "inference/literal.py",
        "draw_rate(s, float(kept[t].size), float(kept[t].sum()))",
        "draw_rate(s, float((state.loadings[t] > 0.0).sum()), float(state.loadings[t].sum()))",
        (geweke(BB_LITERAL, 256_000), "recovery:bivariate-beta:literal:6400"),
    ),
    Mutant(
        "scale move with p = n1 − n2 + 1",
        "loadings/exponential.py",
        "p = counts[0] - counts[1]\n",
        "p = counts[0] - counts[1] + 1.0\n",
        (geweke(BB), LABEL_TWINS, EXACT),
    ),
    Mutant(
        "scale move with p = n1 − n2 − 1",
        "loadings/exponential.py",
        "p = counts[0] - counts[1]\n",
        "p = counts[0] - counts[1] - 1.0\n",
        (geweke(BB), LABEL_TWINS, EXACT),
    ),
    Mutant(
        "swap without its ratio",
        "inference/labels.py",
        "log_ratio += gap * (log_odds[t, k] - log_odds[t, j])",
        "log_ratio += 0.0",
        (geweke(BB, 6_400), LABEL_TWINS, EXACT),
        is_quick=True,
    ),
    Mutant(
        "balance of τ with p = 1",
        "loadings/exponential.py",
        "log_gig_draw(s, 0.0, 2.0 * tau[1], 2.0 * tau[0])",
        "log_gig_draw(s, 1.0, 2.0 * tau[1], 2.0 * tau[0])",
        (geweke(BB), LABEL_TWINS, EXACT_BB),
    ),
    Mutant(
        "tail refreshed without its ratio",
        "priors/pair_moves.py",
        "log_ratio = _log_tail(trial.log_nu, sizes, r) - _log_tail(log_nu, sizes, r)",
        "log_ratio = 0.0",
        (geweke(BB), PRIOR_TWINS, RECOVER_BB),
    ),
    Mutant(
        "unseen columns taken for empty ones by the sticks",
        "priors/unseen.py",
        "    if both_used < 0.9:\n        return math.log1p(-both_used)\n",
        "    if both_used < 0.9:\n        return empty + other_empty\n",
        (geweke(BB), PRIOR_TWINS, RECOVER_BB),
    ),
    Mutant(
        "one side of unseen columns with the size of the other",
        "priors/gp_state.py",
        "column.size1 * log_ndtr(-x1))",
        "column.size0 * log_ndtr(-x1))",
        (geweke(GP), PRIOR_TWINS, RECOVER_GP),
    ),
    Mutant(
        "unseen columns drawn with too few entries of X",
        "inference/unseen.py",
        "columns_only = log1mexp(empty1) - empty1\n",
        "columns_only = log1mexp(empty1)\n",
        (geweke(BB), UNSEEN, RECOVER_BB),
    ),
    Mutant(
        "entries after the first drawn from all rows",
        "inference/unseen.py",
        "binomial(s, size - 1 - min(first, size - 1), log_odds)",
        "binomial(s, size - 1, log_odds)",
        (geweke(BB), UNSEEN, RECOVER_BB),
    ),
    Mutant(
        "stretch without the Jacobian of its sticks",
        "priors/pair_moves.py",
        "            value -= x  # Jacobian of the stick\n",
        "",
        (geweke(BB), PRIOR_TWINS, RECOVER_BB),
    ),
    Mutant(
        "stretch that does not see that its columns are unseen",
        "priors/pair_moves.py",
        "unseen = multiplied(unseen, 1.0 - both_used)",
        "unseen = multiplied(unseen, 1.0)",
        (geweke(BB), PRIOR_TWINS, RECOVER_BB),
    ),
    Mutant(
        "stretch without 1 − ν¹ν² of its sticks",
        "priors/bivariate_beta.py",
        " - (own + other + 1.0) * log_of(neither)",
        "",
        (geweke(BB), PRIOR_TWINS, RECOVER_BB),
    ),
    Mutant(
        "stretch without log α of the sticks before the tail",
        "priors/gp_moves.py",
        "value = (target.prior_shape + target.first) * x\n",
        "value = target.prior_shape * x\n",
        (geweke(GP), PRIOR_TWINS, RECOVER_GP),
    ),
    Mutant(
        "log-determinant of s dropped",
        "priors/gp_moves.py",
        "        - 0.5 * target.K * math.log(one_minus_r2)\n",
        "",
        (geweke(GP), PRIOR_TWINS, RECOVER_GP),
    ),
    Mutant(
        "threshold without η, in sampler and model alike",
        "priors/gp_state.py",
        "return math.sqrt(noise.sigma**2 + noise.eta**2) * ndtri_exp(log_mu)",
        "return noise.sigma * ndtri_exp(log_mu)",
        (geweke(GP), PRIOR_TWINS, RECOVER_GP),
    ),
    Mutant(
        "threshold without η, in the conditionals only",
        "priors/gp_state.py",
        "x0 = (bound - g0) / noise.eta",
        "x0 = (bound * noise.sigma / math.hypot(noise.sigma, noise.eta) - g0) / noise.eta",
        (geweke(GP, 128_000), PRIOR_TWINS, RECOVER_GP),
    ),
    Mutant(
        "g drawn before h (the paper's order)",
        "priors/gp_literal.py",
        "    draw_h_sums(s, noise, state, counts, sizes)\n"
        "    draw_g_given_h(s, noise, state, sizes)\n",
        "    draw_g_given_h(s, noise, state, sizes)\n"
        "    draw_h_sums(s, noise, state, counts, sizes)\n",
        (geweke(GP_LITERAL, 64_000), PRIOR_TWINS, "recovery:gaussian-process:literal:6400"),
        is_quick=True,
    ),
    Mutant(
        "two rows share a stream",
        "likelihoods/rows.py",
        "        open_stream(s, seed, chain, sweep, purpose, cells.first + i)\n"
        "        proposed, accepted",
        "        open_stream(s, seed, chain, sweep, purpose, max(i, 1))\n"
        "        proposed, accepted",
        (geweke(BB), ROW_TWINS, EXACT),
    ),
    Mutant(
        "missing cells counted as zeros",
        "inference/gibbs.py",
        "observations.is_complete, Rows(own),\n        "
        "Whole(other, for_all_cells=observations.is_complete)",
        "True, Rows(own),\n        Whole(other)",
        (geweke(BB_MISSING, 6_400), ROW_TWINS, EXACT_MISSING),
    ),
    Mutant(
        "masks not held where they should be",
        "likelihoods/rows.py",
        "logit >= HELD or stays_off",
        "stays_off",
        (ROW_TWINS,),
    ),
    Mutant(
        "point estimate scaled the wrong way on the columns' side",
        "inference/point.py",
        "add_scaled(total[1], own[1], 1.0 / scale)",
        "add_scaled(total[1], own[1], scale)",
        (POINT,),
    ),
    Mutant(
        "stale λ after an update",
        "likelihoods/rows.py",
        "        if new != a:\n            A[i, k] = new\n"
        "            put_entry(lik, row, entry, complete, lists, k, new)\n",
        "        if new != a:\n            A[i, k] = new\n",
        (ROW_TWINS, geweke(BB, 64_000), EXACT),
    ),
    Mutant(
        "grid proposal without its acceptance step",
        "likelihoods/grid_proposal.py",
        "if log_accept + math.log(product / uniform(s)) >= 0.0:",
        "if log_accept + math.log(product / uniform(s)) >= -1e300:",
        (geweke(BB, 64_000), GRID_TWINS, EXACT),
    ),
    Mutant(
        "grid proposal without the prior's share",
        "likelihoods/grid_proposal.py",
        "DEFENCE = 0.05 ",
        "DEFENCE = 1e-9 ",
        ("tests:tests/statistical/test_stuck.py",),
    ),
    Mutant(
        "cap of the mass without its Hastings term",
        "likelihoods/grid_proposal.py",
        "log_accept -= excess + evaluate(",
        "log_accept -= evaluate(",
        (GRID_TWINS,),
    ),
    Mutant(
        "bound of the mass that takes the cost of the first probe below it",
        "likelihoods/exponential_bounds.py",
        "        cost = first * low / near\n",
        "        cost = first\n",
        (GRID_TWINS,),
    ),
    Mutant(
        "W' of a guess without its Hastings term",
        "likelihoods/grid_proposal.py",
        "    excess = log_mass - log_cap\n",
        "    excess = 0.0 if is_mass else log_mass - log_cap\n",
        (GRID_TWINS,),
    ),
    Mutant(
        "guess that vouches for more than its bounds allow",
        "likelihoods/entry_moves.py",
        "math.log(min(_ROOT_2_PI * spread, most))",
        "math.log(9.0)",
        (GRID_TWINS,),
    ),
    Mutant(
        "slice that always begins at the present loading",
        "likelihoods/slice_move.py",
        "    left = x - width * uniform(s)\n",
        "    left = x\n",
        (GRID_TWINS, geweke(BB)),
    ),
    Mutant(
        "slice without the Jacobian of log v",
        "likelihoods/slice_move.py",
        "    return x - v * (slab.rate",
        "    return -v * (slab.rate",
        (GRID_TWINS, geweke(BB)),
    ),
    Mutant(
        "slice whose width depends on the present loading",
        "likelihoods/entry_moves.py",
        "slice_loading(lik, entry, a, slab, width, 0, s)",
        "slice_loading(lik, entry, a, slab, width * a, 0, s)",
        (GRID_TWINS,),
    ),
    Mutant(
        "bound of the mass with a line that is too steep beyond its first probe",
        "likelihoods/exponential_bounds.py",
        "cost = first + (second - first) * (min",
        "cost = first + second * (min",
        (GRID_TWINS,),
    ),
    Mutant(
        "bound of some cells that cost more than they do",
        "likelihoods/exponential_bounds.py",
        "            more *= r / p\n",
        "            more *= 4.0 * r / p\n",
        (GRID_TWINS,),
    ),
    Mutant(
        "bound of some cells with half the gain of the stored ones",
        "likelihoods/exponential_bounds.py",
        "gains[NODE, q] += ratio * vx / (b + vx)",
        "gains[NODE, q] += 0.5 * ratio * vx / (b + vx)",
        (GRID_TWINS,),
    ),
    Mutant(
        "bound of some cells with powers below the exponential",
        "likelihoods/exponential_bounds.py",
        "e = 1.0 / (1.0 - x * 2.0**-8)",
        "e = max(1.0 + x * 2.0**-8, 0.0)",
        (GRID_TWINS,),
    ),
    Mutant(
        "bound of a logit by a chord beyond its end",
        "likelihoods/exponential_bounds.py",
        "return least if u > _CHORD_ENDS[0] else -math.inf",
        "return least",
        (GRID_TWINS,),
    ),
    Mutant(
        "log likelihood of an entry that is on without its level",
        "likelihoods/peak_proposal.py",
        "rest, factor = entry.present - level, entry.present_factor",
        "rest, factor = entry.present, entry.present_factor",
        (GRID_TWINS, geweke(BB)),
    ),
    Mutant(
        "log likelihood of an entry that is on without its factor",
        "likelihoods/exponential.py",
        "            product_now *= p_now\n",
        "            product_now *= p\n",
        (GRID_TWINS, geweke(BB)),
    ),
    Mutant(
        "λ without an entry that has lost its digits",
        "likelihoods/supports.py",
        "    return b < _CANCELLED * ax\n",
        "    return b < -1e300\n",
        (ROW_TWINS,),
    ),
    Mutant(
        "peak proposal without its acceptance step",
        "likelihoods/peak_proposal.py",
        "if total + math.log(product / uniform(s)) >= 0.0:",
        "if total + math.log(product / uniform(s)) >= -1e300:",
        (GRID_TWINS, geweke(BB)),
    ),
    Mutant(
        "peak proposal without W' in its acceptance",
        "likelihoods/peak_proposal.py",
        "total -= log_odds + slab.log_height - log_mass\n",
        "total -= log_odds + slab.log_height\n",
        (GRID_TWINS, geweke(BB)),
    ),
    Mutant(
        "peak proposal without the Jacobian of its deviation",
        "likelihoods/peak_proposal.py",
        "product *= odds / deviation\n",
        "product *= odds\n",
        (GRID_TWINS, PEAK_TWINS),
    ),
    Mutant(
        "peak proposal with the level of other units",
        "likelihoods/poisson.py",
        "return log_ratio(lik, support, m, c, level, v), 1.0\n",
        "return log_ratio(lik, support, m, c, 0.0, v) - level, 1.0\n",
        (GRID_TWINS, PEAK_TWINS),
    ),
    Mutant(
        "peak proposal without the odds that W' is told less of",
        "likelihoods/peak_proposal.py",
        "product *= odds / deviation\n",
        "product /= deviation\n",
        (GRID_TWINS, PEAK_TWINS),
    ),
    Mutant(
        "entry switched on without the factor of its level",
        "likelihoods/peak_proposal.py",
        "product *= new * base_factor / (factor * size)\n",
        "product *= new / (factor * size)\n",
        (GRID_TWINS, PEAK_TWINS, geweke(BB)),
    ),
    Mutant(
        "peak proposal without the Jacobian of log v",
        "likelihoods/peak_proposal.py",
        "product *= factor * size / (a * base_factor)\n",
        "product *= factor * size / base_factor\n",
        (GRID_TWINS, geweke(BB)),
    ),
    Mutant(
        "peak proposal that forgets the prior's share of itself",
        "likelihoods/peak_proposal.py",
        "return -t, core + share * math.exp(rise), core\n",
        "return -t, core, core\n",
        (GRID_TWINS, PEAK_TWINS),
    ),
    Mutant(
        "gain bounded by half of its bound",
        "likelihoods/exponential_bounds.py",
        "total += excess * excess / (b[",
        "total += 0.5 * excess * excess / (b[",
        (GRID_TWINS,),
    ),
    Mutant(
        "columns in use on the other side left alone",
        "likelihoods/rows.py",
        "if lists.column_ptr[k] == lists.column_ptr[k + 1]:\n",
        "if lists.column_ptr[k] + 1 >= lists.column_ptr[k + 1]:\n",
        (ROW_TWINS, EXACT),
    ),
    Mutant(
        "peak proposal about the present loading",
        "likelihoods/entry_moves.py",
        "        if deviation < math.inf:\n",
        "        if deviation < math.inf:\n"
        "            step = 0.5 * (step + math.log(a / v)) if a > 0.0 else step\n",
        (GRID_TWINS, geweke(BB)),
    ),
    Mutant(
        "peak that vouches for more than its bounds allow",
        "likelihoods/peak_proposal.py",
        "min(_ALL / root, most / _HIGHEST)",
        "9.0",
        (GRID_TWINS,),
    ),
    Mutant(
        "peak whose search ends early without a cap of W'",
        "likelihoods/peak_proposal.py",
        "min(height + rise + math.log(size * factor), log_cap)",
        "height + rise + math.log(size * factor)",
        (PEAK_TWINS,),
    ),
    Mutant(
        "slopes of a support of stored cells with one share too few",
        "likelihoods/exponential_sums.py",
        "t * (1.0 - 2.0 * s)",
        "t * (1.0 - s)",
        (PEAK_TWINS,),
    ),
    Mutant(
        "density around a peak as high as its tails promise",
        "likelihoods/peak_proposal.py",
        "return -t - 2.0 * math.log1p(math.exp(-t)) - math.log(_SCALE)",
        "return -t - math.log1p(math.exp(-t)) - math.log(_SCALE)",
        (PEAK_TWINS,),
    ),
    Mutant(
        "peak proposal with a logistic density that is not squared",
        "likelihoods/peak_proposal.py",
        "core = 1.0 / (_SCALE * e * e)",
        "core = 1.0 / (_SCALE * e)",
        (GRID_TWINS, geweke(BB)),
    ),
    Mutant(
        "opposite draw for a loading that did not come from the peak",
        "likelihoods/peak_proposal.py",
        "return draw_opposite(s, z) if uniform(s) < share else draw_core(s)",
        "return draw_opposite(s, z)",
        (PEAK_TWINS,),
    ),
    Mutant(
        "opposite draw that does not lead back",
        "likelihoods/peak_proposal.py",
        "+ 0.25 + 0.5 * uniform(s)",
        "+ 0.5 * uniform(s)",
        (PEAK_TWINS, geweke(BB)),
    ),
    Mutant(
        "opposite draw from a rank of another density",
        "likelihoods/peak_proposal.py",
        "e = math.exp(-abs(z) / _SCALE)",
        "e = math.exp(-abs(z))",
        (PEAK_TWINS, geweke(BB)),
    ),
    Mutant(
        "entries skipped by a first look that W' does not know of",
        "likelihoods/entry_moves.py",
        "lik, entry, log_odds, slab, odds, log_cap, enough",
        "lik, entry, log_odds, slab, odds, math.inf, enough",
        (FIRST_LOOK,),
    ),
    Mutant(
        "first look that is put upon W' of what is off only",
        "likelihoods/entry_moves.py",
        "if a == 0.0 if is_bound else local:",
        "if a == 0.0 and (is_bound or local):",
        (FIRST_LOOK,),
    ),
    Mutant(
        "first look that skips entries in sweeps of grids",
        "likelihoods/exponential.py",
        "        if not local:\n            return False\n",
        "",
        (FIRST_LOOK,),
    ),
    Mutant(
        "first look that bends too much",
        "likelihoods/exponential_bounds.py",
        "bend += r * r * (2.0 * t - 1.0)",
        "bend += r * r * (2.0 * t + 1.0)",
        (FIRST_LOOK,),
    ),
    Mutant(
        "first look with half of its bound of the gain",
        "likelihoods/exponential.py",
        "LOG_SLACK + 0.5 * gain",
        "LOG_SLACK + 0.25 * gain",
        (FIRST_LOOK,),
    ),
    Mutant(
        "slopes with one share too few",
        "likelihoods/exponential.py",
        "rs * (1.0 - 2.0 * s)",
        "rs * (1.0 - s)",
        (PEAK_TWINS,),
    ),
    Mutant(
        "normal draws without the edges of the layers",
        "random.py",
        "if below + uniform(s) * (above - below) < math.exp(-0.5 * x * x):",
        "if below >= 0.0:",
        (STREAMS,),
    ),
    Mutant(
        "random words that come again",
        "random.py",
        "    s[_COUNTER] += _BLOCKS\n",
        "",
        (STREAMS,),
    ),
    Mutant(
        "grid not cut off at its ceiling",
        "likelihoods/grid_proposal.py",
        "            n = _insert(grid, n, node, min(f, ceiling))\n            if f <",
        "            n = _insert(grid, n, node, f + 9.0)\n            if f <",
        (GRID_TWINS,),
    ),
    Mutant(
        "skipping bound without the gain",
        "likelihoods/exponential.py",
        "log_most = log_odds + greatest_gain(cells, row.y, row.mean, first, c) + LOG_SLACK",
        "log_most = log_odds + LOG_SLACK",
        (geweke(BB), GRID_TWINS, EXACT),
    ),
    Mutant(
        "Gaussian odds without τ",
        "likelihoods/gaussian.py",
        "    log_on = log_odds + slab.log_height\n",
        "    log_on = log_odds\n",
        (geweke(GAUSSIAN), GRID_TWINS, EXACT_GAUSSIAN),
    ),
    Mutant(
        "Gaussian entry surely on with all of the mass, not half",
        "likelihoods/gaussian.py",
        "_LOG_HALF_NORMAL = 0.5 * math.log(0.5 * math.pi)",
        "_LOG_HALF_NORMAL = 0.5 * math.log(4.0 * math.pi)",
        (GRID_TWINS, geweke(GAUSSIAN)),
    ),
    Mutant(
        "Gaussian entry surely off by half of its bound",
        "likelihoods/gaussian.py",
        "3.0 * t) >= 4.0:\n",
        "3.0 * t) >= 2.0:\n",
        (NOISE_TWINS, GRID_TWINS, geweke(GAUSSIAN)),
    ),
    Mutant(
        "Gaussian entry surely on by twice its bound",
        "likelihoods/gaussian.py",
        "- t) >= 2.0\n",
        "- t) >= 4.0\n",
        (NOISE_TWINS, geweke(GAUSSIAN)),
    ),
    Mutant(
        "Gaussian with missing cells without ε",
        "likelihoods/gaussian.py",
        "        mean[j] = epsilon\n",
        "        mean[j] = 0.0\n",
        (ROW_TWINS, geweke(GAUSSIAN_MISSING)),
    ),
    Mutant(
        "tail stretched given the ρ before its move",
        "priors/pair_moves.py",
        "    now = theta_at(kind, theta)\n",
        "    now = with_margin(with_margin(kind, 0, theta[0]), 1, theta[1])\n",
        (PRIOR_TWINS, geweke(COPULA), RECOVER_COPULA),
    ),
    Mutant(
        "Gaussian loading without its prior",
        "likelihoods/gaussian.py",
        "slope = lik.kappa * entry.support[0, _H] - slab.rate",
        "slope = lik.kappa * entry.support[0, _H]",
        (geweke(GAUSSIAN), GRID_TWINS, EXACT_GAUSSIAN),
    ),
    Mutant(
        "stale products after an update",
        "likelihoods/gaussian.py",
        "            row.totals[j] -= (v - a) * lists.gram[k, j]\n",
        "            pass\n",
        (ROW_TWINS, geweke(GAUSSIAN), EXACT_GAUSSIAN),
    ),
    Mutant(
        "stale λ after an update, Gaussian with missing cells",
        "likelihoods/gaussian.py",
        "        left[j] -= change * x[start + j]\n",
        "        pass\n",
        (ROW_TWINS, geweke(GAUSSIAN_MISSING)),
    ),
    Mutant(
        "κ with shape 1 + n",
        "likelihoods/gaussian.py",
        "gamma(s, 1.0 + 0.5 * n_observed, 1.0 + half)",
        "gamma(s, 1.0 + n_observed, 1.0 + half)",
        (geweke(GAUSSIAN, 6_400), NOISE_TWINS),
    ),
    Mutant(
        "Poisson counts taken for whole ones in the mask's odds",
        "likelihoods/poisson.py",
        "return lik.unit * (_sum_y_log(support",
        "return (_sum_y_log(support",
        (geweke(POISSON), EXACT_POISSON, ROW_TWINS),
    ),
    Mutant(
        "Poisson counts taken for whole ones in a bound",
        "likelihoods/poisson.py",
        "    slope *= lik.unit\n",
        "",
        (GRID_TWINS, geweke(POISSON), EXACT_POISSON),
    ),
    Mutant(
        "Poisson zeros forgotten",
        "likelihoods/poisson.py",
        "(_sum_y_log(support, c, v) - level - v * support[0, _LOADS])",
        "(_sum_y_log(support, c, v) - level)",
        (ROW_TWINS, geweke(POISSON), EXACT_POISSON),
    ),
    Mutant(
        "Poisson zeros of missing cells counted",
        "likelihoods/poisson.py",
        "        if complete:\n            row.totals[k] = lists.sums[k]\n",
        "        if True:\n            row.totals[k] = lists.sums[k]\n",
        (ROW_TWINS, geweke(POISSON_MISSING)),
    ),
    Mutant(
        "truncation still adapted after warm-up",
        "inference/chain.py",
        "        elif done < 0:\n",
        "        else:\n",
        ("tests:tests/statistical/test_frozen.py",),
    ),
    Mutant(
        "truncated normal without its normaliser",
        "loadings/base.py",
        "return math.log(root) - log_positive_mass(-rate / root)",
        "return math.log(root)",
        (geweke(TRUNCATED),),
    ),
    Mutant(
        "precision without its Jacobian",
        "loadings/truncated_normal.py",
        "log_height(-p * target.mean, p) + x - _RATE * p",
        "log_height(-p * target.mean, p) - _RATE * p",
        (geweke(TRUNCATED), LOADING_TWINS),
    ),
    Mutant(
        "balance that forgets the precision",
        "loadings/truncated_normal.py",
        "means[0] ** 2 + 2.0 * _RATE * precisions[1]",
        "means[0] ** 2",
        (geweke(TRUNCATED), LOADING_TWINS),
    ),
    Mutant(
        "columns that change places without their rates",
        "inference/gibbs.py",
        "        state.tau[:] = problem.loadings.take(state.tau, order)\n    return Info",
        "        pass\n    return Info",
        (geweke(PER_FACTOR),),
    ),
    Mutant(
        "founding without the ways to end a factor",
        "inference/factors/founding.py",
        " - math.log(ways)\n",
        "\n",
        (FACTORS,),
    ),
    Mutant(
        "founding without the choice of a place",
        "inference/factors/founding.py",
        " - math.log(room.slots[p] / total)\n",
        "\n",
        (FACTORS,),
    ),
    Mutant(
        "founding without the proposal of its loadings",
        "inference/factors/founding.py",
        " + _log_loads(board, room, cast)\n",
        "\n",
        (FACTORS,),
    ),
    Mutant(
        "entry drawn off without the probability of that",
        "inference/factors/entries.py",
        "    if v == 0.0:\n        return log_total\n",
        "    if v == 0.0:\n        return 0.0\n",
        (FACTORS,),
    ),
    Mutant(
        "loans without their number",
        "inference/factors/loans.py",
        " + math.log(n_loans / after)\n",
        "\n",
        (FACTORS,),
    ),
    Mutant(
        "loans without the odds of the rows that take them",
        "inference/factors/loans.py",
        "total += board.own_odds[f] + math.log(tau * v)",
        "total += math.log(tau * v)",
        (FACTORS,),
    ),
    Mutant(
        "loans whose end may leave a factor without rows",
        "inference/factors/loans.py",
        "(common == rows and others != rows)",
        "common == rows",
        (FACTORS,),
    ),
    Mutant(
        "loans whose number is counted without the cells that are lent",
        "inference/factors/loans.py",
        "        count += j != f and _is_loan(board, g, j)\n",
        "",
        (COUNTS,),
    ),
    Mutant(
        "founding without the ways to end a factor in its favour",
        "inference/factors/casts.py",
        "            for r in range(n_seen if is_receiver else q):\n",
        "            for r in range(0 if is_receiver else q):\n",
        (COUNTS,),
    ),
    Mutant(
        "a factor ended without the pairs that it was one of",
        "inference/factors/casts.py",
        "        weight -= _pair_weight_of(board, room, n_seen, f) if is_pair else 1.0\n",
        "",
        (FACTORS,),
    ),
    Mutant(
        "rows that exchange factors without the odds of these",
        "inference/factors/exchanges.py",
        "    return desk.log_odds[k] + math.log(tau * v)",
        "    return math.log(tau * v)",
        (EXCHANGES,),
    ),
    Mutant(
        "rows that exchange factors without the proposal of a loading",
        "inference/factors/exchanges.py",
        " - desk.log_mass[offer] - log_q\n",
        " - desk.log_mass[offer]\n",
        (EXCHANGES,),
    ),
    Mutant(
        "rows that exchange factors without the choice among offers",
        "inference/factors/exchanges.py",
        " - desk.log_mass[offer] - log_q\n",
        " - log_q\n",
        (EXCHANGES,),
    ),
    Mutant(
        "rows that exchange factors although the offers depend on which they have",
        "inference/factors/exchanges.py",
        "    n_offers, own, needed = 0, -1, desk.row[0] & ~others\n",
        "    n_offers, own, needed = 0, -1, desk.row[0] & ~others & desk.cells[k]\n",
        (EXCHANGES,),
    ),
    Mutant(
        "rows that exchange factors without the logarithms of their means",
        "inference/factors/exchanges.py",
        "    return total + math.log(product)\n",
        "    return total\n",
        (EXCHANGES,),
    ),
    Mutant(
        "rows that exchange factors without the prior of a loading",
        "inference/factors/exchanges.py",
        " + math.log(tau * v) - tau * v + _log_gain",
        " + math.log(tau * v) + _log_gain",
        (EXCHANGES,),
    ),
    Mutant(
        "last stick of the Gaussian process redrawn without α",
        "priors/gp_moves.py",
        "new = math.log(uniform(s)) / state.theta[0] if is_last",
        "new = math.log(uniform(s)) if is_last",
        (PRIOR_TWINS, RECOVER_GP),
    ),
    Mutant(
        "unseen columns of the Gaussian process redrawn come what may",
        "priors/gp_moves.py",
        "    if log_ratio > -exponential(s):\n        return new\n",
        "    if True:\n        return new\n",
        (PRIOR_TWINS, geweke(GP), RECOVER_GP),
    ),
    Mutant(
        "a point without the step that it divides",
        "inference/factors/pair_places.py",
        "    change -= log_pair(places.theta, a0 + b0, a1 + b1)\n",
        "",
        (FACTORS,),
    ),
    Mutant(
        "a point without the area of its place",
        "inference/factors/pair_places.py",
        "    return change + math.log((a0 + b0) * (a1 + b1))",
        "    return change",
        (FACTORS,),
    ),
    Mutant(
        "a point taken out, and no step drawn",
        "inference/factors/pair_places.py",
        "        log_nu[t, K - 1] = places.last[t, 0]\n",
        "        log_nu[t, K - 1] = log_nu[t, K - 2]\n",
        (FACTORS,),
    ),
    Mutant(
        "a point of the Gaussian process without α",
        "inference/factors/gp_places.py",
        "math.log(-places.theta[0] * (point[_TO] + point[_FROM]))",
        "math.log(-(point[_TO] + point[_FROM]))",
        (FACTORS,),
    ),
    Mutant(
        "a point of the Gaussian process without the proposal of its threshold",
        "inference/factors/gp_places.py",
        "        value += 0.5 * z * z + HALF_LOG_2PI + math.log(_DEVIATION * noise.eta)\n",
        "        value += HALF_LOG_2PI + math.log(_DEVIATION * noise.eta)\n",
        (FACTORS,),
    ),
    Mutant(
        "founding with unseen masks not summed out",
        "inference/factors/founding.py",
        "    change = -_log_unseen_column(board, board.own_odds[f], board.other_odds[f])\n",
        "    change = 0.0\n",
        (FACTORS,),
    ),
    Mutant(
        "receivers that may vanish",
        "inference/factors/founding.py",
        "    if is_accepted and _are_used(board, room, cast, is_birth):",
        "    if is_accepted:",
        (FACTORS,),
    ),
    Mutant(
        "factors with closed cells ended",
        "inference/factors/founding.py",
        "if not is_birth and board.other_bits[f] & ~(open_to(board, board.own_bits[f])) != NONE:",
        "if False:",
        (FACTORS,),
    ),
    Mutant(
        "columns exchanged without the density of one's thresholds",
        "priors/gp_moves.py",
        "gap = g[0, k] + g[1, k] - g[0, j] - g[1, j] + 2.0 * up",
        "gap = g[0, k] + g[1, k] + up",
        (LABEL_TWINS, geweke(GP, 64_000)),
    ),
    Mutant(
        "columns exchanged while their thresholds stay",
        "priors/gp_moves.py",
        "            g[t, j], g[t, k] = g[t, k] + up, g[t, j] - up\n",
        "            g[t, j], g[t, k] = g[t, k], g[t, j]\n",
        (LABEL_TWINS, geweke(GP, 64_000)),
    ),
    Mutant(
        "run of sticks without the stick after it",
        "priors/pair_moves.py",
        "        value += _log_pair_of(target.theta, t, target.total - x, log_nu[1 - t, stop])\n",
        "        value += 0.0\n",
        (PRIOR_TWINS, geweke(BB, 64_000)),
    ),
    Mutant(
        "run of sticks that forgets its masks",
        "priors/pair_moves.py",
        "value += n * log_mu + times_log(target.size - n, log_rest)\n    return value\n",
        "value += times_log(target.size - n, log_rest)\n    return value\n",
        (PRIOR_TWINS, geweke(BB, 64_000)),
    ),
    Mutant(
        "all sticks stretched without the masks in use",
        "priors/pair_moves.py",
        "            value += n * log_mu + times_log(target.size - n, math.log(rest_of_mu))\n",
        "            value += 0.0\n",
        (PRIOR_TWINS, geweke(BB, 64_000)),
    ),
]


def make_copy(folder: Path, mutant: Mutant | None) -> Path:
    """Copy the package, change one line of it, and return the copy."""
    copy = folder / "dibpnmf"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        path = copy / mutant.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutant.snippet) != 1:
            raise ValueError(
                f"The snippet of the mutant {mutant.name!r} occurs {text.count(mutant.snippet)} "
                f"times in {mutant.file}; it must occur once. Write it anew from the source."
            )
        path.write_text(text.replace(mutant.snippet, mutant.replacement), encoding="utf-8")
    return copy


def run_checks(
    folder: Path, mutant: Mutant | None, checks: tuple[str, ...], seconds: int = PROCESSOR_SECONDS
) -> dict[str, str]:
    """Run checks on a mutant (None: on an unchanged copy); why each rejected, "" if it passed."""
    copy = make_copy(folder, mutant)
    command = [
        sys.executable, "-m", "tests.statistical.check", "--source", str(copy),
        "--seconds", str(seconds), *checks,
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    ending = f"exit status {done.returncode}"
    if done.returncode == -signal.SIGXCPU:
        ending = "did not end"
    output = done.stdout
    reasons = {}
    for line in output.splitlines():
        if line.startswith(MARK):
            _, spec, verdict, detail = line.split("\t")
            reasons[spec] = detail if verdict == "rejected" else ""
    # The first check without a line is the one that broke off; those after it never ran.
    unreported = [spec for spec in checks if spec not in reasons]
    return reasons | dict.fromkeys(unreported, NOT_REACHED) | dict.fromkeys(unreported[:1], ending)
