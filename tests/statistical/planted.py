"""How often the planted number of factors is found; writes docs/planted.md.

python -m tests.statistical.planted                                # everything
python -m tests.statistical.planted --likelihoods gaussian --seeds 5
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import subprocess
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import linear_sum_assignment

from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_planted
from dibpnmf.likelihoods import LIKELIHOODS
from dibpnmf.priors import PRIORS

SIZES = [(100, 80, 5), (300, 200, 12)]
N_SEEDS = 20
NEEDED = 0.9  # share of the seeds
_SWEEPS = {"n_warmup": 100, "n_draws": 100, "n_chains": 2}
_DOCS = Path(__file__).parents[2] / "docs"


def worst_cosine(data, model) -> float:
    """Smallest cosine, over both sides, of the true factors with those found."""
    if model.n_components_ < data.A.shape[1]:
        return 0.0

    def cosines(truth, found):
        unit = [side / np.linalg.norm(side, axis=0) for side in (truth, found)]
        return unit[0].T @ unit[1]

    both = np.minimum(cosines(data.A, model.embedding_), cosines(data.X, model.components_.T))
    return float(both[linear_sum_assignment(-both)].min())


def recover(likelihood: str, prior: str, size, seed: int, **params: int) -> tuple[int, float]:
    """Effective number of factors found in data that scatter as the likelihood says, and cosine."""
    data = make_planted(*size, density=0.3, noise=likelihood, random_state=seed)
    params = _SWEEPS | params
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains as short as these may not have converged
        model = DIBPNMF(prior, likelihood, random_state=seed, **params).fit(data.data)
    return model.n_components_, worst_cosine(data, model)


def case(likelihood: str, prior: str, size, n_seeds: int) -> dict:
    """Run all seeds of one line of the table, two at a time."""
    found = Parallel(n_jobs=2)(
        delayed(recover)(likelihood, prior, size, seed) for seed in range(n_seeds)
    )
    exact = [cosine for K, cosine in found if size[2] == K]
    others = sorted(K for K, _ in found if size[2] != K)
    return {
        "exact": len(exact), "seeds": n_seeds, "others": others,
        "cosine": min(exact, default=0.0),
    }  # fmt: skip


def is_found(line: dict) -> bool:
    """Whether the number is exact often enough."""
    return line["exact"] >= NEEDED * line["seeds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--likelihoods", nargs="+", default=list(LIKELIHOODS))
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    options = parser.parse_args()
    path = _DOCS / "planted.json"
    lines = json.loads(path.read_text()) if path.exists() else {}
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    for likelihood, size, prior in itertools.product(options.likelihoods, SIZES, PRIORS):
        line = case(likelihood, prior, size, options.seeds)
        line |= {"commit": commit, "date": str(datetime.date.today())}
        print(likelihood, size, prior, line, flush=True)
        lines["|".join([likelihood, "×".join(map(str, size[:2])), str(size[2]), prior])] = line
        path.write_text(json.dumps(lines, indent=1, ensure_ascii=False) + "\n")
        (_DOCS / "planted.md").write_text(_page(lines))


def _page(lines: dict) -> str:
    table = "".join(
        f"| {key.replace('|', ' | ')} | {line['exact']} of {line['seeds']} | "
        f"{', '.join(map(str, line['others'])) or '-'} | {line['cosine']:.3f} | "
        f"{line['date']}, {line['commit']} |\n"
        for key, line in lines.items()
    )
    return f"""# Planted truth

`make_planted` matrices with mask density 0.3, whose entries scatter as the likelihood says
(Gaussian noise has standard deviation 0.1, and what would be negative is 0);
{_SWEEPS["n_chains"]} chains of {_SWEEPS["n_warmup"]} warm-up sweeps and {_SWEEPS["n_draws"]} draws.
"Exact" counts the seeds whose effective number of factors is the planted one; the cosine is the
smallest over all true factors, both sides and those seeds.

Command: `python -m tests.statistical.planted` (part of `make test-slow`).

| likelihood | size | factors | prior | exact | found otherwise | smallest cosine | run |
|---|---|---|---|---|---|---|---|
{table}"""


if __name__ == "__main__":
    main()
