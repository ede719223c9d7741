r"""The separation law with a non-smooth term: calls of h and g when L_g grows.

Random quadratics h and g, badly conditioned in different directions, plus an l1 norm or a box. The
solution x* is planted: half of its coordinates are at a kink of psi, and the linear term of h is
chosen such that 0 is a subgradient of f there. Every run ends at f - f* <= 1e-4 L_h \|x0 - x*\|^2,
an accuracy that does not change with L_g. The stated exponents in L_g are at most 0.1 for the
gradients of h and 1/2 for those of g.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import geartrain as gt
from geartrain.oracles.protocols import Vector
from geartrain_lab.laws.common import Row, arguments, calls_to, exponent, geometric_means, write_csv

METHODS = ("sae", "afb", "ags", "fgm")
# Methods whose exponents are stated.
STATED = ("sae", "afb")
KINDS = ("l1", "box")
LEVELS = (1e1, 1e2, 1e3, 1e4)
SEEDS = (0, 1, 2)
EPS = 1e-4


class Planted(NamedTuple):
    """h and g + psi with the minimiser of their sum."""

    h: Any
    smooth: Any  # g without psi
    psi: Any
    x_star: Vector

    @property
    def g(self) -> Any:
        """The second term."""
        return self.smooth + self.psi

    @property
    def f_star(self) -> float:
        """The minimum."""
        x = self.x_star
        return self.h.value(x) + self.smooth.value(x) + self.psi.value(x)


def planted(kind: str, L_g: float, n: int = 120, seed: int = 0) -> Planted:
    """A problem with L_h = 1 and the start 0, of which `kind` names psi."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    half = n // 2
    curved_h, curved_g = np.zeros(n), np.zeros(n)
    curved_h[:half] = np.geomspace(1e-4, 1.0, half)
    curved_g[half:] = np.geomspace(1e-4 * L_g, L_g, n - half)
    H, G = ((U * c) @ U.T for c in (curved_h, curved_g))
    H, G = 0.5 * (H + H.T), 0.5 * (G + G.T)
    x, w = rng.standard_normal(n), rng.uniform(-0.9, 0.9, n)
    kinked = rng.permutation(n) < half
    psi: Any
    if kind == "l1":
        x[kinked] = 0.0
        psi = gt.L1(1e-2)
        w = psi.lam * np.where(kinked, w, np.sign(x))
    else:
        x = np.clip(x, -1.0, 1.0)
        x[kinked] = np.sign(x[kinked])
        inside = np.abs(x) < 1.0
        psi = gt.Box(-1.0, 1.0)
        w = 1e-2 * np.where(inside, 0.0, np.sign(x) * np.abs(w))
    pull = rng.standard_normal(n)  # h and g pull in opposite directions
    return Planted(gt.Quadratic(H, H @ x + G @ x + w + pull), gt.Quadratic(G, -pull), psi, x)


def calls_to_target(problem: Planted, method: str) -> tuple[int, int]:
    """Gradients of h and of g until f is at most the target."""
    h, g, _, x = problem
    inner = {"inner": "agm"} if method in STATED else {}
    L = {"L_h": h.L, "L_g": g.L}
    eps = EPS * h.L * float(x @ x)
    calls = calls_to(problem, eps, method, max_iter=10**6, **inner, **L)
    return calls["h.grad"], calls["g.grad"]


def sweep(
    methods: Sequence[str] = METHODS,
    kinds: Sequence[str] = KINDS,
    levels: Sequence[float] = LEVELS,
    seeds: Sequence[int] = SEEDS,
    n: int = 120,
) -> list[Row]:
    """Rows: psi, method, L_g, gradients of h, gradients of g."""
    rows: list[Row] = []
    for kind in kinds:
        for method in methods:
            for L_g in levels:
                runs = [calls_to_target(planted(kind, L_g, n, seed), method) for seed in seeds]
                rows.append((kind, method, L_g, *geometric_means(runs)))
    return rows


def exponents(rows: list[Row], kind: str, method: str) -> tuple[float, float]:
    """Of the gradients of h and of g in L_g."""
    _, _, L_g, n_h, n_g = zip(*[row for row in rows if row[:2] == (kind, method)], strict=True)
    return exponent(L_g, n_h), exponent(L_g, n_g)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write the table."""
    args = arguments(__doc__, argv, "one seed and three levels", "composite")
    rows = sweep(levels=LEVELS[:3], seeds=(0,)) if args.quick else sweep()
    for kind, method, L_g, n_h, n_g in rows:
        print(f"{kind:4} {method:4} L_g {L_g:7g}  calls of h {n_h:8.1f}  of g {n_g:10.1f}")
    print("\nexponents in L_g; stated for sae and afb: h at most 0.1, g 0.5 +- 0.12")
    for kind in KINDS:
        for method in METHODS:
            of_h, of_g = exponents(rows, kind, method)
            print(f"{kind:4} {method:4} h {of_h:6.2f}  g {of_g:6.2f}")
    write_csv(args.out / "composite_law.csv", ("psi", "method", "L_g", "h.grad", "g.grad"), rows)
