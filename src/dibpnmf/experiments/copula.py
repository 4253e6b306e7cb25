"""FGM copula densities, and every number that the paper gives about the priors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize

from dibpnmf import random as streams
from dibpnmf._compile import kernel
from dibpnmf.experiments.base import Experiment, Results, Settings
from dibpnmf.experiments.claims import Claim, markdown_table, verdict
from dibpnmf.experiments.pieces import Outcome, Piece
from dibpnmf.priors import PRIORS
from dibpnmf.priors.bivariate_beta import Theta as BetaTheta
from dibpnmf.priors.fgm_copula import Theta as CopulaTheta
from dibpnmf.priors.pair_density import log_pair

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

RHO = (-1.0, 0.0, 1.0)
PAPER_CORRELATIONS = {(2.5, 4.0): 0.978, (0.05, 0.1): 0.080}
EQUAL_SHAPES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
SPEARMAN = (-0.7, -0.5, -0.3, -0.15, 0.0, 0.15, 0.3, 0.5, 0.7, 0.9)
MARGINS = ((0.2, 0.2), (1.0, 1.0), (2.5, 4.0))


def draw_pairs(prior: str, n: int, seed: int, **theta: float) -> Floats:
    """Draw n stick pairs ν from a prior with fixed θ, by the library's own sampler."""
    state = PRIORS[prior].from_params(theta).init(streams.stream(seed, 0, 0, streams.PRIOR), n)
    return np.exp(state.log_nu)


def _pearson(nu: Floats) -> float:
    table: Any = np.corrcoef(nu)
    return float(table[0, 1])


def _spearman(nu: Floats) -> float:
    found: Any = stats.spearmanr(*nu)
    return float(found.statistic)


def copula_sample(rho: float, alpha1: float, alpha2: float, n: int, seed: int) -> dict[str, Any]:
    """Rank correlation and margins of copula stick pairs."""
    nu = draw_pairs("copula", n, seed, alpha1=alpha1, alpha2=alpha2, rho=rho)
    margins = [
        stats.kstest(side, stats.beta(alpha, 1).cdf).statistic
        for side, alpha in zip(nu, (alpha1, alpha2), strict=True)
    ]
    return {"spearman": _spearman(nu), "margin_distance": max(margins)}


def beta_sample(a: float, b: float, n: int, seed: int) -> dict[str, Any]:
    """Correlation and margins of bivariate beta stick pairs, with its standard error."""
    nu = draw_pairs("bivariate-beta", n, seed, a=a, b=b)
    parts = [_pearson(part) for part in np.split(nu[:, : n - n % 20], 20, axis=1)]
    margins = [
        stats.kstest(side, stats.beta(shape, 1).cdf).statistic
        for side, shape in zip(nu, (a, b), strict=True)
    ]
    return {
        "pearson": _pearson(nu),
        "error": np.std(parts, ddof=1) / np.sqrt(len(parts)),
        "spearman": _spearman(nu),
        "margin_distance": max(margins),
    }


@kernel
def mean_log_pair(theta: Any, log_nu: Floats) -> float:
    """Mean log density of stick pairs, one a row of ``log_nu``."""
    total = 0.0
    for i in range(log_nu.shape[0]):
        total += log_pair(theta, log_nu[i, 0], log_nu[i, 1])
    return total / log_nu.shape[0]


def fit_families(spearman: float, alpha1: float, alpha2: float, n: int, seed: int) -> Any:
    """Fit both families by maximum likelihood to pairs that neither of them made.

    The pairs have margins Beta(α, 1) and a Gaussian copula with the given rank correlation.
    """
    r = 2.0 * np.sin(np.pi * spearman / 6.0)
    normal = np.random.default_rng(seed).multivariate_normal([0, 0], [[1, r], [r, 1]], n)
    log_nu = stats.norm.logcdf(normal) / np.array([alpha1, alpha2])

    def best(theta_of: Any, start: list[float]) -> float:
        search: Any = minimize  # its stubs know no options of this method
        found = search(
            lambda point: -mean_log_pair(theta_of(*point), log_nu),
            start,
            method="Nelder-Mead",
            options={"xatol": 1e-3, "fatol": 1e-5},
        )
        return -float(found.fun)

    logs = [np.log(alpha1), np.log(alpha2)]
    beta = best(lambda a, b: BetaTheta(np.exp(a), np.exp(b)), logs)
    copula = best(
        lambda a, b, t: CopulaTheta(np.exp(a), np.exp(b), float(np.tanh(t))), [*logs, spearman]
    )
    return {"bivariate-beta": beta, "copula": copula}


class Copula(Experiment):
    """The FGM copula figure, and correlations of the two families of stick pairs."""

    name = "copula"
    title = "Correlation of the sticks: FGM copula and bivariate beta"
    about = """
The densities of the paper's copula figure, the correlations that the paper states for its two
families of stick pairs (drawn here by the library's own samplers), and the hints of its
conclusion: pairs with margins Beta(α, 1) and a Gaussian copula, which neither family contains,
are fitted by both, over a range of rank correlations.
"""

    def sizes(self, settings: Settings) -> dict[str, Any]:
        """Numbers of pairs."""
        return {
            "pairs drawn for a correlation": settings.choose(1_000_000, 100_000),
            "pairs drawn for a maximum likelihood fit": settings.choose(4000, 1000),
        }

    def pieces(self, settings: Settings) -> list[Piece]:
        """One piece a parameter."""
        many, some = self.sizes(settings).values()
        seed = settings.seed
        shapes = [*PAPER_CORRELATIONS, *((a, a) for a in EQUAL_SHAPES)]
        return [
            *(
                Piece("copula:copula_sample",
                      {"rho": rho, "alpha1": a1, "alpha2": a2, "n": many, "seed": seed})
                for rho in (-1.0, -0.5, 0.0, 0.5, 1.0)
                for a1, a2 in ((1.0, 1.0), (2.0, 0.5))
            ),
            *(
                Piece("copula:beta_sample", {"a": a, "b": b, "n": many, "seed": seed})
                for a, b in shapes
            ),
            *(
                Piece("copula:fit_families", {"spearman": r, "alpha1": a1, "alpha2": a2,
                                              "n": some, "seed": seed}, some / 2000)
                for r in SPEARMAN
                for a1, a2 in MARGINS
            ),
        ]  # fmt: skip

    def results(self, settings: Settings, outcomes: list[Outcome]) -> Results:
        """All correlations and fits."""
        rows = [{**o.parameters, **o.value} for o in outcomes]
        return {
            "copula": [row for row in rows if "rho" in row],
            "bivariate_beta": [row for row in rows if "a" in row],
            "families": [row for row in rows if "bivariate-beta" in row],
        }

    def claims(self, results: Results) -> list[Claim]:
        """Numbers of Section 4 and hints of the conclusion."""
        return [
            *_copula_claims(results["copula"]),
            *_beta_claims(results["bivariate_beta"]),
            *_hint_claims(results["families"]),
            _latent_claim(),
        ]

    def figures(self, results: Results) -> dict[str, Figure]:
        """The paper's surfaces, and the fits behind the hints."""
        return {"fgm-copula": draw_surfaces(), "hints": draw_hints(results["families"])}

    def tables(self, results: Results) -> str:
        """Correlations of both families."""
        return "\n".join(
            [
                "## Correlations\n",
                markdown_table(
                    ("ρ", "α1, α2", "Spearman", "ρ/3"),
                    ((r["rho"], f"{r['alpha1']}, {r['alpha2']}", r["spearman"], r["rho"] / 3)
                     for r in results["copula"]),
                ),
                markdown_table(
                    ("a, b", "Pearson", "standard error", "Spearman"),
                    ((f"{r['a']}, {r['b']}", r["pearson"], f"{r['error']:.1g}", r["spearman"])
                     for r in results["bivariate_beta"]),
                ),
            ]
        )  # fmt: skip


def _copula_claims(rows: list[Any]) -> list[Claim]:
    ends = [r["spearman"] for r in rows if abs(r["rho"]) == 1.0]
    off = max(abs(r["spearman"] - r["rho"] / 3) for r in rows)
    signs = {rho: [r["spearman"] for r in rows if r["rho"] == rho] for rho in RHO}
    right = max(signs[-1.0]) < -0.1 and min(signs[1.0]) > 0.1
    none = max(abs(value) for value in signs[0.0])
    distance = max(r["margin_distance"] for r in rows)
    return [
        Claim("Different correlation, positive or negative, is captured by ρ; ρ = 0 is none",
              "IV-C, copula figure",
              f"Spearman {np.mean(signs[-1.0]):.3f}, {np.mean(signs[0.0]):.3f}, "
              f"{np.mean(signs[1.0]):.3f} at ρ = −1, 0, 1",
              verdict(right, none < 0.02)),
        Claim("The Spearman correlation of the FGM copula is ρ/3", "IV-C",
              f"largest distance from ρ/3 over 5 values of ρ and 2 pairs of margins: {off:.4f}",
              verdict(off < 0.02)),
        Claim("The FGM copula models correlations in [−1/3, 1/3]", "IV-C",
              f"from {min(ends):.3f} to {max(ends):.3f}",
              verdict(abs(min(ends) + 1 / 3) < 0.02, abs(max(ends) - 1 / 3) < 0.02)),
        Claim("The margins of the copula's sticks are Beta(α, 1)", "IV-C",
              f"largest distance of distribution functions {distance:.4f}",
              verdict(distance < 0.01)),
    ]  # fmt: skip


def _beta_claims(rows: list[Any]) -> list[Claim]:
    claims = []
    for (a, b), paper in PAPER_CORRELATIONS.items():
        (row,) = [r for r in rows if (r["a"], r["b"]) == (a, b)]
        claims.append(
            Claim(f"The correlation of the bivariate beta at a = {a:g}, b = {b:g} is {paper:.3f}",
                  "IV-B", f"{row['pearson']:.4f} ± {row['error']:.4f} (Spearman "
                  f"{row['spearman']:.3f})",
                  verdict(abs(row["pearson"] - paper) < 0.0005 + 3 * row["error"]))
        )  # fmt: skip
    values = [r["pearson"] for r in rows]
    distance = max(r["margin_distance"] for r in rows)
    claims += [
        Claim("The bivariate beta models positive correlations in the range [0, 1]", "IV-B",
              f"from {min(values):.3f} (a = b = {EQUAL_SHAPES[0]:g}) to {max(values):.4f} "
              f"(a = b = {EQUAL_SHAPES[-1]:g}); but given the margins there is no freedom left: "
              "a and b are margins and correlation at once",
              verdict(min(values) > -0.01 and min(values) < 0.05, max(values) > 0.95)),
        Claim("The margins of the bivariate beta with c = 1 are Beta(a, 1), Beta(b, 1)", "IV-B",
              f"largest distance of distribution functions {distance:.4f}",
              verdict(distance < 0.01)),
    ]  # fmt: skip
    return claims


def _hint_claims(rows: list[Any]) -> list[Claim]:
    def won(inside: bool) -> tuple[int, int, str]:
        part = [r for r in rows if (abs(r["spearman"]) <= 0.3) == inside]
        better = [r for r in part if r["copula"] > r["bivariate-beta"]]
        return len(better), len(part), _where_lost(part, "copula" if inside else "bivariate-beta")

    copula, n_in, lost_in = won(True)
    beyond, n_out, lost_out = won(False)
    beta = n_out - beyond
    return [
        Claim("If the data correlation is within [−0.3, 0.3], the copula has better flexibility "
              "than the bivariate beta", "conclusion",
              f"of {n_in} sets of stick pairs with |Spearman| ≤ 0.3 the copula has the larger "
              f"likelihood on {copula}{lost_in}",
              verdict(copula == n_in) if copula in (0, n_in) else "in part"),
        Claim("If it is outside [−0.3, 0.3], the bivariate beta is more reasonable", "conclusion",
              f"of {n_out} sets with |Spearman| > 0.3 the bivariate beta has the larger "
              f"likelihood on {beta}{lost_out}; it has no negative correlations",
              verdict(beta == n_out) if beta in (0, n_out) else "in part"),
    ]  # fmt: skip


def _where_lost(rows: list[Any], family: str) -> str:
    other = "copula" if family == "bivariate-beta" else "bivariate-beta"
    lost = [
        f"{r['spearman']:+g} at α = {r['alpha1']:g}, {r['alpha2']:g}"
        for r in rows
        if r[family] <= r[other]
    ]
    return f" (not at {'; '.join(lost)})" if lost else ""


def _latent_claim() -> Claim:
    return Claim(
        "Fewer latent variables are involved in the bivariate beta and copula models than in "
        "the GP model", "IV-C",
        "beside Z, V, τ: 2K sticks with 2 or 3 parameters, against K sticks, 2K values g, (M+N)K "
        "values h and 2 parameters; with h summed out, as here, 3K",
        "yes",
    )  # fmt: skip


def draw_surfaces() -> Figure:
    """The paper's figure: density surfaces at ρ = −1, 0, 1 with uniform margins."""
    from dibpnmf.experiments.figures import new_figure

    grid = np.linspace(0.005, 0.995, 60)
    figure = new_figure(11, 3.6)
    for place, rho in enumerate(RHO):
        theta = CopulaTheta(1.0, 1.0, rho)
        # The library's density is one of (log ν¹, log ν²): the Jacobian takes it to ν.
        density = np.array(
            [[np.exp(log_pair(theta, np.log(x), np.log(y))) / (x * y) for x in grid] for y in grid]
        )
        axes: Any = figure.add_subplot(1, 3, place + 1, projection="3d")
        axes.plot_surface(*np.meshgrid(grid, grid), density, cmap="viridis", vmin=0, vmax=2)
        axes.set(zlim=(0, 2), xlabel="ν¹", ylabel="ν²", title=f"ρ = {rho:g}")
    return figure


def draw_hints(rows: list[Any]) -> Figure:
    """Advantage of the copula in log likelihood, over rank correlation, by margins."""
    from dibpnmf.experiments.figures import INK, label, new_figure

    figure = new_figure(10, 3.2)
    for axes, (a1, a2) in zip(figure.subplots(1, len(MARGINS)), MARGINS, strict=True):
        part = [r for r in rows if (r["alpha1"], r["alpha2"]) == (a1, a2)]
        x = [r["spearman"] for r in part]
        axes.plot(x, [r["copula"] - r["bivariate-beta"] for r in part], "o-", color=INK, ms=4)
        axes.axhline(0, color="0.5", lw=0.8)
        axes.axvspan(-0.3, 0.3, color="0.9", zorder=0)
        axes.set_yscale("symlog", linthresh=0.1)
        label(axes, f"α = {a1:g}, {a2:g}", "Spearman correlation of the pairs",
              "log likelihood a pair,\ncopula − bivariate beta")  # fmt: skip
    figure.suptitle("Above 0 the copula fits better; grey: the paper's range for it", fontsize=10)
    return figure
