r"""The law of linear constraints: calls of h and g when the condition of A grows.

Quadratics h and g on {x : A x = b} or {x : A x <= b}, with L_h = 1, L_g = 100 and mu = 0.01. The
singular values of A lie between 1 and kappa, and the solution x* is planted: all equalities and
half of the inequalities hold with multipliers. Every run ends at f - f* <= 1e-8 \|x*\|^2 and
starts at the projection of 0. The stated exponents in kappa are 0 for both terms, since the
constraints enter by the projection only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import geartrain as gt
from geartrain.oracles.protocols import Vector
from geartrain_lab.chart import Chart, Curve
from geartrain_lab.laws.common import Row, calls_to, exponent, geometric_means, write_csv
from geartrain_lab.laws.composite import Planted
from geartrain_lab.static import sheet

NAMES = {"pqn": "pqn", "afb": "AFB", "fgm": "FGM"}
METHODS = tuple(NAMES)
KINDS = ("A x = b", "A x <= b")
LEVELS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
SEEDS = (0, 1, 2)
EPS = 1e-8


def calls_to_target(problem: Planted, method: str) -> tuple[int, int]:
    """Calls of h and gradients of g until f is at most the target."""
    eps = EPS * float(problem.x_star @ problem.x_star)
    inner = {"inner": "agm"} if method == "afb" else {}
    L = {"L_h": 1.0, "L_g": problem.smooth.L}
    calls = calls_to(problem, eps, method, max_iter=10**5, **inner, **L)
    return calls["h.grad"] + calls["h.value"], calls["g.grad"]


def planted(kind: str, kappa: float, n: int = 60, seed: int = 0) -> Planted:
    """A problem whose constraints have n/4 rows of condition kappa."""
    rng = np.random.default_rng(seed)
    m = n // 4
    H, G = (_quadratic(rng, n, low, high) for low, high in ((0.01, 1.0), (0.01, 100.0)))
    left, right = _orthogonal(rng, m), _orthogonal(rng, n)[:, :m]
    A = (left * np.geomspace(1.0, kappa, m)) @ right.T
    x, y = rng.standard_normal(n), rng.exponential(1.0, m)
    lower, upper = A @ x, A @ x
    if kind == "A x <= b":
        y[m // 2 :] = 0.0
        lower, upper = np.full(m, -np.inf), upper + np.where(y > 0.0, 0.0, rng.random(m))
    pull = A.T @ y  # of the constraints; as strong whatever kappa is
    h = gt.Quadratic(H, H @ x + G @ x + pull / np.linalg.norm(pull))
    return Planted(h, gt.Quadratic(G), gt.Linear(A, lower, upper), x)


def _orthogonal(rng: np.random.Generator, n: int) -> Vector:
    return np.asarray(np.linalg.qr(rng.standard_normal((n, n)))[0])


def _quadratic(rng: np.random.Generator, n: int, low: float, high: float) -> Vector:
    U = _orthogonal(rng, n)
    Q = (U * np.geomspace(low, high, n)) @ U.T
    return np.asarray(0.5 * (Q + Q.T))


def sweep(
    methods: Sequence[str] = METHODS,
    levels: Sequence[float] = LEVELS,
    seeds: Sequence[int] = SEEDS,
    n: int = 60,
) -> list[Row]:
    """Rows: constraints, method, kappa, calls of h, gradients of g."""
    return [
        (
            kind,
            method,
            kappa,
            *geometric_means([calls_to_target(planted(kind, kappa, n, s), method) for s in seeds]),
        )
        for kind in KINDS
        for method in methods
        for kappa in levels
    ]


def exponents(rows: list[Row], kind: str, method: str) -> tuple[float, float]:
    """Of the calls of h and of g in kappa."""
    _, _, kappa, n_h, n_g = zip(*[row for row in rows if row[:2] == (kind, method)], strict=True)
    return exponent(kappa, n_h), exponent(kappa, n_g)


def run(out: Path, quick: bool = False) -> None:
    """Measure, print, write the table and draw it."""
    rows = sweep(levels=LEVELS[::3], seeds=(0,)) if quick else sweep()
    print("calls of h / gradients of g, by the condition of A, and the exponents in it")
    levels = list(dict.fromkeys(row[2] for row in rows))
    print(f"{'':16}" + "".join(f"{kappa:>12g}" for kappa in levels) + f"{'exponents':>16}")
    for kind in KINDS:
        for method in METHODS:
            found = [f"{row[3]:.0f} / {row[4]:.0f}" for row in rows if row[:2] == (kind, method)]
            of_h, of_g = (round(e, 2) + 0.0 for e in exponents(rows, kind, method))  # no -0.00
            line = "".join(f"{cell:>12}" for cell in found)
            print(f"{kind:10}{method:6}{line}{of_h:>9.2f}{of_g:>7.2f}")
    head = ("constraints", "method", "kappa", "h", "g.grad")
    write_csv(out / "constraints_law.csv", head, rows)
    draw(rows, out / "constraints_law.png")


def draw(rows: list[Row], path: Path) -> None:
    """Calls of h and of g against kappa, a panel for each kind of constraints."""
    charts = []
    for kind in KINDS:
        curves = []
        for method, name in NAMES.items():
            mine = [row for row in rows if row[:2] == (kind, method)]
            kappa, of_h, of_g = ([row[j] for row in mine] for j in (2, 3, 4))
            both = " and g" * (of_h == of_g)  # they are asked together
            curves.append(Curve(f"{name}, h{both}", kappa, of_h, mark="marked"))
            if not both:
                curves.append(Curve(f"{name}, g", kappa, of_g, mark="marked", dash=True))
        y = "calls until $f - f^* \\leq 10^{-8}\\,\\|x^*\\|^2$"
        charts.append(Chart(kind, "condition number of A", y, curves))
    (picture,) = sheet(path.parent, path.stem, "The law of linear constraints", charts, 2, ["png"])
    print(f"picture: {picture}")
