r"""The separation law with a non-smooth term, and the law of linear constraints.

Random quadratics h and g, badly conditioned in different directions, plus an l1 norm or a box. The
solution x* is planted: half of its coordinates are at a kink of psi, and the linear term of h is
chosen such that 0 is a subgradient of f there. Every run ends at f - f* <= 1e-4 L_h \|x0 - x*\|^2,
an accuracy that does not change with L_g.

Under linear constraints, h and g have L_h = 1, L_g = 100 and mu = 0.01 on {x : A x = b} or
{x : A x <= b}. The singular values of A lie between 1 and kappa; all equalities and half of the
inequalities hold with multipliers at x*. Every run ends at f - f* <= 1e-8 \|x*\|^2 and starts at
the projection of 0. The constraints enter by the projection only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import geartrain as gt
from geartrain.oracles.protocols import Vector
from geartrain_lab.laws.law import Law, Sweep, calls_to

EPS, FINE_EPS = 1e-4, 1e-8
WITH_INNER = ("sae", "afb")
KINDS = ("l1", "box")
CONSTRAINTS = ("A x = b", "A x <= b")


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


def calls_with_psi(
    method: str, *, psi: str, L_g: float, seed: int, n: int = 120
) -> tuple[float, float]:
    """Gradients of h and of g."""
    p = planted(psi, L_g, n, seed)
    inner = {"inner": "agm"} if method in WITH_INNER else {}
    eps = EPS * p.h.L * float(p.x_star @ p.x_star)
    calls = calls_to(p, eps, method, max_iter=10**6, L_h=p.h.L, L_g=p.smooth.L, **inner)
    return calls["h.grad"], calls["g.grad"]


def constrained(kind: str, kappa: float, n: int = 60, seed: int = 0) -> Planted:
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


def calls_under_constraints(
    method: str, *, kappa: float, set: str, seed: int, n: int = 60
) -> tuple[float, float]:
    """Calls of h and gradients of g."""
    p = constrained(set, kappa, n, seed)
    inner = {"inner": "agm"} if method in WITH_INNER else {}
    eps = FINE_EPS * float(p.x_star @ p.x_star)
    calls = calls_to(p, eps, method, max_iter=10**5, L_h=1.0, L_g=p.smooth.L, **inner)
    return calls["h.grad"] + calls["h.value"], calls["g.grad"]


_L_G, _KAPPA = (1e1, 1e2, 1e3, 1e4), (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
COMPOSITE = Law(
    "The separation law with a non-smooth term",
    ("h", "g"),
    ("sae", "afb", "ags", "fgm"),
    [Sweep("L_g", _L_G, {"psi": k}, "h at most 0.1, g 0.5 +- 0.12, sae and afb") for k in KINDS],
    calls_with_psi,
)
CONSTRAINED = Law(
    "The law of linear constraints",
    ("h", "g"),
    ("pqn", "afb", "fgm"),
    [Sweep("kappa", _KAPPA, {"set": kind}, "0") for kind in CONSTRAINTS],
    calls_under_constraints,
)
