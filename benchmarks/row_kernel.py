"""Σ log(b + v x) + Σ y/(b + v x): the fast kernel, the formula term by term, and C."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from numba import njit

from benchmarks.measure import Row, ratios, row
from dibpnmf.likelihoods.exponential_sums import support_log_likelihood
from dibpnmf.likelihoods.supports import padded

_SIZE, _HITS, _CALLS = 550, 7, 20_000  # a column of Cora meets some 550 documents, 7 with a one

_C = """
#include <math.h>
/* The same loop: products of 32 terms, one log where the product would leave its range, and
   term by term where a block's own product does. */
double support(const double *b, const double *x, const double *hb, const double *hx,
               const double *y, long m, long c, double v) {
  double total = 0.0, product = 1.0;
  for (long s = 0; s < m; s += 32) {
    double p = 1.0;
    for (long j = 0; j < 32; ++j) p *= b[s + j] + v * x[s + j];
    if (p > 1e-150 && p < 1e150) {
      product *= p;
      if (!(product > 1e-150 && product < 1e150)) { total += log(product); product = 1.0; }
    } else
      for (long j = 0; j < 32; ++j) total += log(b[s + j] + v * x[s + j]);
  }
  total += log(product);
  double ratios = 0.0;
  for (long j = 0; j < c; ++j) ratios += y[j] / (hb[j] + v * hx[j]);
  return -total - ratios;
}
double loop(const double *lines, long stride, long m, long c, long calls) {
  double t = 0.0;
  for (long r = 0; r < calls; ++r)
    t += support(lines, lines + stride, lines + 2 * stride, lines + 3 * stride,
                 lines + 4 * stride, m, c, 0.5 + 1e-9 * r);
  return t;
}
"""


@njit(nogil=True)
def _fast(lines, m, c, calls):
    total = 0.0
    for r in range(calls):
        total += support_log_likelihood(lines, m, c, 0.5 + 1e-9 * r)
    return total


@njit(nogil=True)
def _plain(lines, m, c, calls):
    """Term by term: one log and one division for every cell of the support."""
    total = 0.0
    for r in range(calls):
        v = 0.5 + 1e-9 * r
        for j in range(m):
            mean = lines[0, j] + v * lines[1, j]
            y = lines[4, j] if j < c else 0.0
            total += -math.log(mean) - y / mean
    return total


def _c_loop():
    """Compile the same loop with -O3 -march=native; None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    folder = Path(tempfile.mkdtemp())
    (folder / "kernel.c").write_text(_C)
    library = folder / "kernel.so"
    # Not -ffast-math: a library made with it makes the whole process flush small numbers to zero.
    freedom = ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno"]
    flags = ["-O3", "-march=native", *freedom, "-shared", "-fPIC"]
    command = [compiler, *flags, str(folder / "kernel.c"), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    loop = ctypes.CDLL(str(library)).loop
    loop.restype = ctypes.c_double
    loop.argtypes = [ctypes.c_void_p, *[ctypes.c_long] * 4]
    return loop


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    lines = rng.random((5, padded(_SIZE))) + 0.1
    lines[0, _SIZE:], lines[1, _SIZE:] = 1.0, 0.0
    # The plain formula reads one line of cells; make the hits its first ones.
    lines[2, :_HITS], lines[3, :_HITS] = lines[0, :_HITS], lines[1, :_HITS]
    assert np.isclose(_fast(lines, _SIZE, _HITS, 3), _plain(lines, _SIZE, _HITS, 3), rtol=1e-10)
    values = ratios(
        lambda: _plain(lines, _SIZE, _HITS, _CALLS // 10),
        lambda: _fast(lines, _SIZE, _HITS, _CALLS // 10),
        15,
        time.thread_time,
    )
    rows = [
        row("the formula term by term in numba", "exponential row kernel", values, ">= 20",
            lambda r: r >= 20.0)
    ]  # fmt: skip
    loop = _c_loop()
    if loop is not None:
        values = ratios(
            lambda: _fast(lines, _SIZE, _HITS, _CALLS),
            lambda: loop(lines.ctypes.data, lines.shape[1], lines.shape[1], _HITS, _CALLS),
            15,
            time.thread_time,
        )
        rows.append(row("exponential row kernel", "the same loop in C, -O3 -march=native", values,
                        "<= 1.25", lambda r: r <= 1.25))  # fmt: skip
    return rows
