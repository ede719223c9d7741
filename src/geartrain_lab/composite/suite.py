"""The problems of ``geartrain bench composite``: f = h + g + psi with h expensive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles import LinearModel, Quadratic
from geartrain.oracles.nonsmooth import L1, Box, GroupL1, NonNegative, Simplex
from geartrain_lab import problems
from geartrain_lab.problems.shards import logistic_in_shards, with_unit_rows

Terms = tuple[Any, Any, Any]  # h, g and psi


@dataclass(frozen=True)
class CompositeProblem:
    """A problem by name; `make` returns (h, g, psi), and `L` is the smoothness of h + g."""

    name: str
    make: Callable[[], Terms]
    L: Callable[[Any, Any], float]
    made_up: bool = False  # not used in development


def _sum_of_constants(h: Any, g: Any) -> float:
    return float(h.L + g.L)


def _of_all_rows(h: Any, g: Any) -> float:
    """h + g is the mean over all rows, the first part of the difference h."""
    return float(h.parts[0][1].L)


def l1_shards(name: str, shards: int, lam: float) -> Terms:
    """Logistic regression on a file in shards with an l1 penalty."""
    h, g = problems.libsvm_shards(name, shards, 0.0)
    return h, g, L1(lam)


def text_like(shards: int, lam: float, seed: int) -> Terms:
    """Sparse rows with word frequencies of Zipf's law, and labels by a few of the words."""
    rng = np.random.default_rng(seed)
    m, n = 2000, 400
    frequency = 1.0 / np.arange(2, n + 2)
    X = sparse.csr_array((rng.random((m, n)) < 3.0 * frequency) * rng.exponential(1.0, (m, n)))
    words = rng.choice(n, 20, replace=False)
    margins = np.asarray(X[:, words] @ rng.standard_normal(20)).ravel()
    y = np.where(margins + 0.3 * rng.standard_normal(m) > 0, 1.0, -1.0)
    A, y = with_unit_rows(X, y)
    h, g = logistic_in_shards(A, y, m // shards, 0.0)
    return h, g, L1(lam)


def smooth_curve(bound: float, seed: int, n: int = 200) -> Terms:
    """Logistic regression on random walks; a smooth curve of coefficients within bounds."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((400, n)).cumsum(axis=1) / np.sqrt(n)
    wave = np.sin(np.arange(n) / 15.0)
    y = np.where(A @ wave + 2.0 * rng.standard_normal(400) > 0, 1.0, -1.0)
    D = sparse.diags_array([np.full(n - 1, -1.0), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))
    return LinearModel(A, y), Quadratic(sparse.csr_array(10.0 * (D.T @ D))), Box(-bound, bound)


def deblurring(side: int, seed: int) -> Terms:
    """A blurred picture whose brightness is not negative."""
    h, g = problems.total_variation(side=side, seed=seed)
    return h, g, NonNegative()


def features(psi: Any, seed: int, n: int = 60) -> Terms:
    """Logistic regression on features of very different sizes, and a steep ridge."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((300, n)) * np.geomspace(1.0, 1e-2, n)
    y = np.where(A @ rng.standard_normal(n) + 0.3 * rng.standard_normal(300) > 0, 1.0, -1.0)
    return LinearModel(A, y), Quadratic(np.diag(np.geomspace(10.0, 1e-4, n))), psi


def suite(quick: bool = False) -> list[CompositeProblem]:
    """All problems, or a few small ones."""
    rows, both = _of_all_rows, _sum_of_constants
    if quick:
        return [
            CompositeProblem("text-like, 8 shards", partial(text_like, 8, 1e-3, 1), rows),
            CompositeProblem("curve in a box", partial(smooth_curve, 0.05, 1, 80), both),
            CompositeProblem("groups", partial(features, GroupL1(4, 1e-2), 1), both),
        ]
    out = []
    for name in ("a9a", "mushrooms", "phishing"):
        for shards in (4, 16, 64):
            for lam in (1e-3, 1e-4, 1e-5):
                title = f"{name}, {shards} shards, l1 {lam:g}"
                out.append(CompositeProblem(title, partial(l1_shards, name, shards, lam), rows))
    for made_up, seed in ((False, 0), (True, 100)):
        kind = ", made up" if made_up else ""
        made = [
            ("text-like, 8 shards, l1 0.001", partial(text_like, 8, 1e-3, seed), rows),
            ("text-like, 32 shards, l1 0.0001", partial(text_like, 32, 1e-4, seed), rows),
            ("curve in a box", partial(smooth_curve, 0.05, seed), both),
            ("curve in a narrow box", partial(smooth_curve, 0.01, seed), both),
            ("deblurring, x >= 0", partial(deblurring, 48, seed), both),
            ("groups", partial(features, GroupL1(4, 1e-2), seed + 5), both),
            ("simplex", partial(features, Simplex(3.0), seed + 5), both),
        ]
        out += [CompositeProblem(title + kind, make, L, made_up) for title, make, L in made]
    return out
