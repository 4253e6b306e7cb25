"""Clusters of Cora's and CiteSeer's documents against their labels, number of factors learned.

    python -m benchmarks.clusters                     # both, tf-idf, five seeds
    python -m benchmarks.clusters --data cora --seeds 0 --chains 2 --sweeps 200

NMI, ARI and JC of `consensus_clusters`, with as many clusters as there are labels, and of
k-means on the same tf-idf. Poisson takes counts: it is fitted to the words as they are, and its
documents are compared by their tf-idf as all others are.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import pair_confusion_matrix

from dibpnmf import DIBPNMF
from dibpnmf.datasets import fetch_citeseer, fetch_cora

_DATA = {"cora": fetch_cora, "citeseer": fetch_citeseer}


def scores(truth: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """NMI, ARI, and the Jaccard coefficient of pairs."""
    (_, apart), (split, together) = pair_confusion_matrix(truth, labels)
    jaccard = together / (together + apart + split)
    return np.array([
        normalized_mutual_info_score(truth, labels), adjusted_rand_score(truth, labels), jaccard
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=list(_DATA), choices=list(_DATA))
    parser.add_argument("--likelihoods", nargs="+", default=["exponential", "gaussian", "poisson"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--sweeps", type=int, default=120)
    options = parser.parse_args()
    print(f"{options.chains} chains of {options.sweeps} sweeps; NMI / ARI / JC")
    for name in options.data:
        documents = _DATA[name]()
        weighted, truth = TfidfTransformer().fit_transform(documents.data), documents.target
        n = np.unique(truth).size
        plain = [
            scores(truth, KMeans(n, n_init=10, random_state=s).fit_predict(weighted))
            for s in options.seeds
        ]
        _show(f"{name}, k-means", plain)
        for likelihood in options.likelihoods:
            Y = documents.data if likelihood == "poisson" else weighted
            found = [
                scores(truth, _clusters(Y, weighted, n, likelihood, seed, options))
                for seed in options.seeds
            ]
            _show(f"{name}, {likelihood}", found)


def _clusters(Y, weighted, n: int, likelihood: str, seed: int, options) -> np.ndarray:
    warmup = 2 * options.sweeps // 3
    model = DIBPNMF(likelihood=likelihood, n_warmup=warmup, n_draws=options.sweeps - warmup,
                    n_chains=options.chains, random_state=seed, n_jobs=-1)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(Y).consensus_clusters(n, Y=weighted)


def _show(name: str, table: list[np.ndarray]) -> None:
    mean = np.mean(table, axis=0)
    print(f"{name:<24} {mean[0]:.3f} / {mean[1]:.3f} / {mean[2]:.3f}  ({len(table)} seeds)",
          flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
