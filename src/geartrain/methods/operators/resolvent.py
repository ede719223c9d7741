r"""The resolvent of Q + psi: v with 0 in c + Q(v) + L (v - b) + dpsi(v), nearly.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
G          ``G``           G(v) = c + Q(v) + L (v - b), monotone with modulus L
w          ``w``           an element of dpsi(v); 0 without psi
M          ``M``           G(v) + w, the normal map [1]_
alpha      ``alpha``       v = prox(v + w/alpha, alpha) for every alpha > 0
D          ``D``           derivative of that proximal step; the identity without psi
e          ``e``           element of G(v) + dpsi(v) of least norm
=========  ==============  ==================================================================

In u = v + w/alpha the normal map is M(u) = G(prox(u)) + alpha (u - prox(u)), an equation without a
set, whose derivative is G'(v) D + alpha (I - D). Newton's method on it finds the face of a set and
then is Newton's method on the face. Q is asked where psi is finite, but for difference products.
Where the map is kinked and |M| does not fall along Newton's direction, extragradient steps take
over, whose distance to the solution falls.

References
----------
.. [1] S. Robinson, Normal maps induced by linear transformations, Math. Oper. Res. 17 (1992).
.. [2] Y. Saad, M. Schultz, GMRES: a generalized minimal residual algorithm for solving
   nonsymmetric linear systems, SIAM J. Sci. Stat. Comput. 7 (1986).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.splitting import Psi
from geartrain.oracles.vectors import Vector, norm
from geartrain.problem import EPS

# Linear systems are solved to this part of their right-hand side, in at most so many products.
_ACCURACY, _PRODUCTS = 0.05, 150
# A step t is taken where |M| falls by this part of t; it is halved so many times.
_FALL, _HALVINGS = 1e-3, 12
# alpha is L and this part of the Lipschitz constant of Q. On 15 families with sets 1 and 0.01 take
# 1.1 times as many calls of Q.
_PART = 0.1
# A difference product goes this far over the size of v, times the root of the rounding unit.
_SHORT = 7.0
# Steps of a run at most; extragradient steps that stand for a Newton step which fails.
_ROUNDS, _STEPS = 100, 10
# An extragradient step has the length t = _LENGTH/Lip(G), or less where |G(w) - G(v)| exceeds
# _PASS |w - v|/t; it is halved so many times.
_LENGTH, _PASS, _SHORTER = 0.7, 0.9, 40


class Resolvent(NamedTuple):
    """What `solve` found."""

    v: Vector
    Q: Vector  # Q(v)
    e: Vector  # of c + Q(v) + L (v - b) + dpsi(v), the element of least norm, where psi tells it
    w: Vector  # its part in dpsi(v)
    lipschitz: float  # the largest change of Q over a step, as far as is seen


@dataclass(frozen=True)
class _At:
    """A point, and what is known there."""

    v: Vector
    Q: Vector
    G: Vector
    w: Vector

    @property
    def M(self) -> Vector:
        return self.G + self.w


class _Equation:
    """0 in G(v) + dpsi(v), and what is learned about Q on the way."""

    def __init__(
        self,
        g: Any,
        psi: Psi | None,
        c: Vector,
        L: float,
        b: Vector,
        lipschitz: float,
        unit: float,
    ) -> None:
        self.g, self.psi, self.c, self.L, self.b = g, psi, c, L, b
        self.lipschitz, self.unit = lipschitz, unit

    @property
    def alpha(self) -> float:
        return self.L + _PART * self.lipschitz

    def G(self, v: Vector, Q: Vector) -> Vector:
        return self.c + Q + self.L * (v - self.b)

    def at(self, u: Vector, alpha: float) -> _At:
        """The point prox(u, alpha); one call of Q."""
        v = u if self.psi is None else self.psi.prox(u, alpha)
        Q = self.g.operator(v)
        return _At(v, Q, self.G(v, Q), alpha * (u - v))

    def residual(self, p: _At) -> Vector:
        return p.G if self.psi is None else self.psi.residual(p.v, p.G, p.w)

    def rounding(self, p: _At) -> float:
        """No e below this means anything."""
        moved = self.L * norm(self.b) + (self.L + self.lipschitz) * norm(p.v)
        return self.unit * (norm(self.c) + norm(p.Q) + moved)

    def newton(self, p: _At) -> _At | None:
        """One step on the normal map; None where |M| does not fall along it."""
        alpha, size = self.alpha, norm(p.M)
        u = p.v + p.w / alpha
        D = None if self.psi is None else derivative(self.psi, u, alpha)

        def product(d: Vector) -> Vector:
            x = d if D is None else D(d[:, None])[:, 0]
            length = norm(x)
            if length <= EPS * norm(d):
                return alpha * d
            t = self._short(p, size) / length
            change = self.g.operator(p.v + t * x) - p.Q
            self._learn(t * x, change)
            return change / t + self.L * x + alpha * (d - x)

        try:
            d, t = gmres(product, -p.M, _ACCURACY, _PRODUCTS), 1.0
        except NonFiniteAnswer:
            return None
        for _ in range(_HALVINGS):
            to = self._tried(p, u + t * d, alpha)
            if to is not None and norm(to.M) <= (1.0 - _FALL * t) * size:
                return to
            t *= 0.5
        return None

    def extragradient(self, p: _At) -> _At | None:
        """One step of the extragradient method; None where even a very short one fails."""
        alpha = (self.L + self.lipschitz) / _LENGTH
        for _ in range(_SHORTER):
            half = self._tried(p, p.v - p.G / alpha, alpha)
            if half is not None and norm(half.G - p.G) <= _PASS * alpha * norm(half.v - p.v):
                return self._tried(p, p.v - half.G / alpha, alpha)
            alpha *= 2.0
        return None

    def _tried(self, p: _At, u: Vector, alpha: float) -> _At | None:
        try:
            to = self.at(u, alpha)
        except NonFiniteAnswer:
            return None
        self._learn(to.v - p.v, to.Q - p.Q)
        return to

    def _learn(self, s: Vector, change: Vector) -> None:
        if (length := norm(s)) > 0.0:
            self.lipschitz = max(self.lipschitz, norm(change) / length)

    def _short(self, p: _At, size: float) -> float:
        return _SHORT * math.sqrt(self.unit) * max(norm(p.v), norm(self.b), size / self.alpha)


def solve(
    g: Any,
    psi: Psi | None,
    c: Vector,
    L: float,
    b: Vector,
    v0: Vector,
    enough: Callable[[Vector, float], bool],
    Q0: Vector | None = None,
    lipschitz: float = 0.0,
    unit: float = EPS,
) -> Resolvent:
    """v with 0 in c + Q(v) + L (v - b) + dpsi(v) up to an e for which ``enough(v, |e|)`` holds.

    Where that is not reached, because of rounding or because Q is not monotone, the answer is the
    point with the shortest e that was met.

    Parameters
    ----------
    g : oracle
        Answers ``operator(v)`` with Q(v).
    psi : Psi or None
        The non-smooth term.
    c, L, b : array (n,), float, array (n,)
        Of the equation; L > 0.
    v0 : array (n,)
        Where to begin: without psi at v0; with psi at its forward-backward step if `Q0` is given,
        and otherwise at its proximal step.
    enough : callable
        The rule that ends the run.
    Q0 : array (n,), optional
        Q(v0), which is not asked again; with psi it may be a guess.
    lipschitz : float
        A Lipschitz constant of Q, or a guess; 0 where nothing is known.
    unit : float
        The rounding unit of the answers of g.
    """
    equation = _Equation(g, psi, c, L, b, lipschitz, unit)
    alpha = equation.alpha
    if Q0 is None:
        p = equation.at(v0, alpha)
    elif psi is not None:
        p = equation.at(v0 - equation.G(v0, Q0) / alpha, alpha)
    else:
        p = _At(v0, Q0, equation.G(v0, Q0), np.zeros(v0.size))
    plain = 0  # extragradient steps to come
    best, shortest = (p, p.G), math.inf
    for _ in range(_ROUNDS):
        e = equation.residual(p)
        if (size := norm(e)) < shortest:
            best, shortest = (p, e), size
        if enough(p.v, size) or size <= equation.rounding(p):
            break
        to = None if plain else equation.newton(p)
        if to is None:
            to, plain = equation.extragradient(p), (plain or _STEPS) - 1
        if to is None:
            break
        p = to
    p, e = best
    return Resolvent(p.v, p.Q, e, e - p.G, equation.lipschitz)


def derivative(psi: Psi, u: Vector, alpha: float) -> Callable[[Vector], Vector]:
    """Of the proximal step at u, for the columns of a matrix; by differences where psi has none."""
    if psi.has_derivative:
        return psi.derivative(u, alpha)
    v, short = psi.prox(u, alpha), _SHORT * math.sqrt(EPS) * (norm(u) or 1.0)

    def differences(X: Vector) -> Vector:
        steps = [(x, short / (norm(x) or 1.0)) for x in X.T]
        return np.array([(psi.prox(u + t * x, alpha) - v) / t for x, t in steps]).T

    return differences


def gmres(A: Callable[[Vector], Vector], b: Vector, accuracy: float, most: int) -> Vector:
    """x with |b - A x| <= accuracy |b|, as far as `most` products lead, from x = 0 [2]_."""
    beta, most = norm(b), min(most, b.size)
    if not 0.0 < beta < math.inf:
        return np.zeros(b.size)
    V, H = np.zeros((most + 1, b.size)), np.zeros((most + 1, most))
    turns: list[tuple[float, float]] = []  # H is made triangular by rotations
    rhs = np.zeros(most + 1)
    V[0], rhs[0] = b / beta, beta
    for k in range(most):
        x, h = A(V[k]), H[:, k]
        for _ in range(2):  # the second time for the sake of rounding
            part = V[: k + 1] @ x
            x, h[: k + 1] = x - part @ V[: k + 1], h[: k + 1] + part
        left = norm(x)
        for i, (cos, sin) in enumerate(turns):
            h[i], h[i + 1] = cos * h[i] + sin * h[i + 1], cos * h[i + 1] - sin * h[i]
        size = math.hypot(h[k], left)
        if not 0.0 < size < math.inf:
            break
        cos, sin = h[k] / size, left / size
        turns.append((cos, sin))
        h[k], rhs[k], rhs[k + 1] = size, cos * rhs[k], -sin * rhs[k]
        if abs(rhs[k + 1]) <= accuracy * beta or left <= 100.0 * EPS * size:
            break
        V[k + 1] = x / left
    k = len(turns)
    return np.linalg.solve(np.triu(H[:k, :k]), rhs[:k]) @ V[:k] if k else np.zeros(b.size)
