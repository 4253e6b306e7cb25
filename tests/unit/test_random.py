"""Streams: known answers, names, and the distribution of every draw."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy import stats
from tests.reference import formulas

from dibpnmf import random as streams

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("fixed")

WORD = st.integers(0, 2**32 - 1)
N_DRAWS = 20_000
# About forty distributions are tested below: the chance that one fails is below 4e-5.
P_VALUE = 1e-6


@pytest.mark.parametrize(
    ("key", "counter", "answer"),
    [
        ([0] * 2, [0] * 4, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (
            [0xFFFFFFFF] * 2,
            [0xFFFFFFFF] * 4,
            [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
        ),
        (
            [0xA4093822, 0x299F31D0],
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_known_answers(key, counter, answer):
    """Answers published with Random123."""
    assert [int(x) for x in streams.philox(*np.array(key + counter, np.uint64))] == answer
    assert formulas.philox(key, counter) == answer


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**24 - 1), WORD, st.integers(0, 255), WORD)
def test_stream_is_a_function_of_its_name(seed, chain, sweep, purpose, row):
    s = streams.stream(seed, chain, sweep, purpose, row)
    expected = formulas.stream_uniforms(seed, chain, sweep, purpose, row, 5)
    assert [streams.uniform(s) for _ in range(5)] == expected


def test_reopened_stream_drops_the_spare_half_block():
    s = streams.stream(1, 2, 3, 4, 5)
    streams.uniform(s)
    streams.open_stream(s, np.uint64(9), 8, 7, 6, 5)
    assert streams.uniform(s) == formulas.stream_uniforms(9, 8, 7, 6, 5, 1)[0]


def test_purposes_name_different_streams():
    purposes = (
        streams.ROWS, streams.COLUMNS, streams.PRIOR, streams.LABELS, streams.START,
        streams.EMBED, streams.GROWTH, streams.ROW_LOADINGS, streams.COLUMN_LOADINGS,
        streams.NOISE,
    )  # fmt: skip
    firsts = {streams.uniform(streams.stream(0, 0, 0, purpose)) for purpose in purposes}
    assert len(firsts) == len(purposes)


def assert_distribution(draw, cdf) -> None:
    s = streams.stream(2024, 0, 0, streams.START)
    x = np.array([draw(s) for _ in range(N_DRAWS)])
    assert stats.kstest(x, cdf).pvalue > P_VALUE


def test_uniform():
    assert_distribution(streams.uniform, stats.uniform.cdf)


def test_uniforms_of_neighbouring_streams_are_uncorrelated():
    draws = np.array([
        [streams.uniform(s) for _ in range(4)]
        for s in (streams.stream(7, 0, 0, streams.ROWS, row) for row in range(5_000))
    ])  # fmt: skip
    within = np.corrcoef(draws, rowvar=False)[np.triu_indices(4, 1)]
    between = [stats.pearsonr(draws[1:, j], draws[:-1, j]).statistic for j in range(4)]
    limit = stats.norm.isf(P_VALUE) / np.sqrt(5_000)
    assert np.abs([*within, *between]).max() < limit


def test_exponential():
    assert_distribution(streams.exponential, stats.expon.cdf)


def test_normal():
    assert_distribution(streams.normal, stats.norm.cdf)


def test_normal_in_every_layer_and_in_the_tails():
    """Between the layers' edges lies what few draws would not show to be wrong."""
    s, draws = streams.stream(11, 0, 0, streams.START), np.empty(2_000_000)
    fill_with_normals(s, draws)
    edges = streams._EDGES[1::8]
    edges = np.concatenate([[-np.inf, -4.0], -edges, edges[::-1], [4.0, np.inf]])
    expected = np.diff(stats.norm.cdf(edges)) * draws.size
    found, _ = np.histogram(draws, edges)
    assert expected.min() > 30.0
    assert stats.chisquare(found, expected * draws.size / expected.sum()).pvalue > P_VALUE


@njit
def fill_with_normals(s, draws):
    for i in range(draws.size):
        draws[i] = streams.normal(s)


@pytest.mark.parametrize("bound", [-38.0, -3.0, 0.0, 1.5, 9.0])
def test_normal_below(bound):
    def cdf(x):
        return np.exp(stats.norm.logcdf(x) - stats.norm.logcdf(bound))

    assert_distribution(lambda s: streams.normal_below(s, bound), cdf)


@pytest.mark.parametrize("t", [-1e9, -40.0, -3.0, -0.2, 0.0, 0.3, 2.0, 50.0])
def test_positive_normal(t):
    """In the far tail it is Exponential(−t), where differences of normals would be all zero."""

    def cdf(x):
        if t < -1e6:
            return stats.expon(scale=-1.0 / t).cdf(x)
        return -np.expm1(stats.norm.logsf(x - t) - stats.norm.logsf(-t))

    assert_distribution(lambda s: streams.positive_normal(s, t), cdf)


@pytest.mark.parametrize("shape", [0.003, 0.2, 1.0, 1.7, 40.0])
def test_log_gamma_draw(shape):
    assert_distribution(lambda s: streams.log_gamma_draw(s, shape), stats.loggamma(shape).cdf)


def test_gamma_has_its_rate():
    assert_distribution(lambda s: streams.gamma(s, 2.5, 4.0), stats.gamma(2.5, scale=0.25).cdf)


@pytest.mark.parametrize("p", [-7.0, -1.0, 0.0, 2.0])
@pytest.mark.parametrize(
    ("a", "b"), [(1e-6, 1e-4), (0.3, 5.0), (80.0, 60.0), (1e5, 1e-3), (3.0, 1e-124)]
)
def test_generalised_inverse_gaussian(p, a, b):
    assert_distribution(
        lambda s: streams.log_gig_draw(s, p, a, b), lambda x: formulas.gig_cdf(p, a, b, x)
    )


def test_gig_reference_agrees_with_scipy():
    """The test's own distribution function, where scipy has one."""
    x = np.linspace(-2.0, 3.0, 9)
    theirs = stats.geninvgauss(1.5, np.sqrt(0.3 * 5.0), scale=np.sqrt(5.0 / 0.3)).cdf(np.exp(x))
    np.testing.assert_allclose(formulas.gig_cdf(1.5, 0.3, 5.0, x), theirs, atol=1e-6)
