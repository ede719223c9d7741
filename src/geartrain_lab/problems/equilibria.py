"""Equilibria: 0 in P(z) + Q(z), or in P + Q + the normal cone of a set; P + Q is monotone.

A family is a function of a seed, and of the size n, which the seed draws between 2 and 300 if it
is not given. P is what a simulator or a cluster would answer, Q is cheap. About half of the
problems have a set. Where a zero of P + Q is planted, its coordinates are standard normal, so that
the box [-1, 1] cuts off a third of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, softmax

import geartrain as gt
from geartrain.oracles.protocols import Vector

Map = Callable[[Vector], Vector]


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """P, Q, where to start, and what makes the set anew, which learns nothing from other runs."""

    P: Map
    Q: Map
    start: Vector
    set: Callable[[], Any] | None = None

    def R(self, z: Vector) -> Vector:
        return self.P(z) + self.Q(z)

    def projected(self, z: Vector) -> Vector:
        """The nearest point of the set."""
        return z if self.set is None else self.set().prox(z, 1.0)


def _drawn(family: int, seed: int, n: int | None) -> tuple[np.random.Generator, int]:
    rng = np.random.default_rng([33, family, seed])
    return rng, n or round(2.0 * 150.0 ** rng.random())


def _orthogonal(rng: np.random.Generator, n: int) -> Vector:
    return np.asarray(np.linalg.qr(rng.standard_normal((n, n)))[0])


def _definite(rng: np.random.Generator, n: int, low: float, high: float) -> Vector:
    U = _orthogonal(rng, n)
    return np.asarray((U * np.geomspace(low, high, n)) @ U.T)


def _skew(rng: np.random.Generator, n: int, norm: float) -> Vector:
    A = rng.standard_normal((n, n))
    return np.asarray(norm * (A - A.T) / np.linalg.norm(A - A.T, 2))


def _spread(rng: np.random.Generator, n: int, low: float, high: float) -> Vector:
    return np.asarray(rng.permutation(np.geomspace(low, high, n)))


def _coupling(A: Vector) -> Vector:
    """The operator of min over x, max over y of <x, A y>."""
    k, m = A.shape
    return np.block([[np.zeros((k, k)), A], [-A.T, np.zeros((m, m))]])


def _planted(rng: np.random.Generator, n: int, F: Map, Q: Map, boxed: bool = False) -> Equilibrium:
    """P is F shifted so that P + Q is 0 at a random point; the run starts at 0."""
    z = rng.standard_normal(n)
    shift = F(z) + Q(z)
    C = partial(gt.Box, -1.0, 1.0) if boxed else None
    return Equilibrium(lambda z: F(z) - shift, Q, np.zeros(n), C)


def linear(seed: int, n: int | None = None) -> Equilibrium:
    """Matrices with skew parts, that of Q ten times as large."""
    rng, n = _drawn(1, seed, n)
    P = _definite(rng, n, 1e-3, 1.0) + _skew(rng, n, 1.0)
    Q = _definite(rng, n, 1e-2, 10.0) + _skew(rng, n, 10.0)
    return _planted(rng, n, P.__matmul__, Q.__matmul__, boxed=seed % 2 == 1)


def bilinear(seed: int, n: int | None = None) -> Equilibrium:
    """A game <x, A y> with a weak Q: where the cheap part does not help."""
    rng, n = _drawn(2, seed, n)
    k = max(n // 2, 1)
    singular = _spread(rng, k, 10.0 ** -rng.uniform(0.5, 1.5), 1.0)
    P = _coupling((_orthogonal(rng, k) * singular) @ _orthogonal(rng, k))
    weak = 10.0 ** -rng.uniform(2.0, 4.0)
    return _planted(rng, 2 * k, P.__matmul__, lambda z: weak * z, boxed=seed % 2 == 1)


def matrix_game(seed: int, n: int | None = None) -> Equilibrium:
    """Payoffs of two players by a simulator, mixed strategies, and a price of being pure."""
    rng, n = _drawn(3, seed, n)
    k = max(n // 3, 1)
    m = max(n - k, 2)
    P, smooth = _coupling(rng.standard_normal((k, m))), 10.0 ** -rng.uniform(0.5, 2.0)
    even = np.repeat([1.0 / k, 1.0 / m], [k, m])
    rows = np.repeat(np.eye(2), [k, m], axis=1)
    C = partial(gt.Linear, rows, 1.0, 1.0, bounds=gt.NonNegative())
    return Equilibrium(P.__matmul__, lambda z: smooth * (z - even), even, C)


def cournot(seed: int, n: int | None = None) -> Equilibrium:
    """Plants of up to six firms: prices by a simulator, own costs; capacities, budgets."""
    rng, n = _drawn(4, seed, n)
    firms = min(n, 6)
    demand = 0.5 * np.eye(n) + np.full((n, n), 1.0 / n) + _skew(rng, n, 1.0)
    C, reserve = rng.standard_normal((n, n)) / np.sqrt(n), 2.0 + rng.standard_normal(n)
    cost = _spread(rng, n, 1e-3, 10.0)
    owner = (np.arange(n) % firms == np.arange(firms)[:, None]).astype(float)
    budget = 0.4 * owner.sum(axis=1)
    return Equilibrium(
        lambda z: demand @ z + 0.5 * C.T @ np.tanh(C @ z) - reserve,
        lambda z: cost * z,
        np.full(n, 0.3),
        partial(gt.Linear, owner, -np.inf, budget, bounds=gt.Box(0.0, 1.0)),
    )


def traffic(seed: int, n: int | None = None) -> Equilibrium:
    """Flows on n arcs: delays by a simulator, each arc in the way of others; what enters leaves."""
    rng, n = _drawn(5, seed, n)
    nodes = max(n // 4, 2)
    tail = np.concatenate([np.arange(nodes), rng.integers(0, nodes, n)])[:n]
    head = np.concatenate([(np.arange(nodes) + 1) % nodes, rng.integers(0, nodes, n)])[:n]
    head = np.where(head == tail, (head + 1) % nodes, head)
    A = np.zeros((nodes, n))
    A[tail, np.arange(n)] += 1.0
    A[head, np.arange(n)] -= 1.0
    A, b = A[:-1], (A @ rng.random(n))[:-1]  # the last row follows from the others
    crossed, free, width = _skew(rng, n, 0.7), rng.random(n), rng.uniform(0.5, 1.0, n)
    cost = _spread(rng, n, 0.1, 30.0)
    return Equilibrium(
        lambda x: free * (1.0 + 0.15 * (np.maximum(x, 0.0) / width) ** 4) + crossed @ x,
        lambda x: cost * x,
        np.zeros(n),
        partial(gt.Linear, A, b, b, bounds=gt.Box(0.0, 1.5)),
    )


def shards(seed: int, n: int | None = None, number: int = 16) -> Equilibrium:
    """Robust regression in shards: errors may depend on c_i; P = R - R_1, Q = R_1.

    The mean over i of huber(r_i) + e_i r_i - e_i^2/2 with r_i = <a_i, x> - b_i, e_i = <c_i, y>, and
    a ridge for x and for y.
    """
    rng, n = _drawn(6, seed, n)
    m = max(n // 3, 1)
    k, own = max(n - m, 1), 2 * n
    rows = own * number
    A = rng.standard_normal((rows, k)) * np.geomspace(1.0, 0.1, k)
    C = (rng.standard_normal((rows, m)) + A @ rng.standard_normal((k, m))) / np.sqrt(1.0 + k)
    b = A @ (rng.standard_normal(k) / np.geomspace(1.0, 0.1, k)) + rng.standard_t(3, rows)

    def part(A: Vector, C: Vector, b: Vector, z: Vector) -> Vector:
        r, e = A @ z[:k] - b, C @ z[k:]
        return np.concatenate([A.T @ (np.clip(r, -1, 1) + e), C.T @ (e - r)]) / len(b) + 1e-3 * z

    R, Q = partial(part, A, C, b), partial(part, A[:own], C[:own], b[:own])
    return Equilibrium(lambda z: R(z) - Q(z), Q, np.zeros(k + m))


def robust_logistic(seed: int, n: int | None = None) -> Equilibrium:
    """Logistic regression, robust in distribution: the worst weights of groups on a simplex."""
    rng, n = _drawn(7, seed, n)
    groups = min(max(n // 8, 1), 10)
    k, each = max(n - groups, 1), 40
    X = rng.standard_normal((groups * each, k)) * np.geomspace(3.0, 0.3, k)
    member = np.repeat(np.arange(groups), each)
    truth = rng.standard_normal((groups, k)) + 2.0 * rng.standard_normal(k)
    noise = rng.standard_normal(len(X))
    signed = np.where((X * truth[member]).sum(axis=1) + noise > 0, 1.0, -1.0)[:, None] * X
    smooth, prior = _spread(rng, k, 1e-3, 3.0), 10.0 ** -rng.uniform(0.0, 2.0)

    def P(z: Vector) -> Vector:
        margin = signed @ z[:k]
        slope = -signed.T @ (expit(-margin) * z[k + member]) / each
        return np.concatenate([slope, -np.bincount(member, np.logaddexp(0.0, -margin)) / each])

    row = np.concatenate([np.zeros(k), np.ones(groups)])[None]
    low = np.where(row[0] > 0.0, 0.0, -np.inf)
    return Equilibrium(
        P,
        lambda z: np.concatenate([smooth * z[:k], prior * (z[k:] - 1.0 / groups)]),
        np.concatenate([np.zeros(k), np.full(groups, 1.0 / groups)]),
        partial(gt.Linear, row, 1.0, 1.0, bounds=gt.Box(low, np.inf)),
    )


def _risk(A: Vector) -> Map:
    """The gradient of log sum exp(A x)."""
    return lambda x: A.T @ softmax(A @ x)


def two_risks(seed: int, n: int | None = None) -> Equilibrium:
    """Two players with a risk over scenarios each, a coupling of both, cheap costs up to 1e3."""
    rng, n = _drawn(8, seed, n)
    k = max(n // 2, 1)
    one, two = (_risk(rng.standard_normal((3 * k, k))) for _ in range(2))
    A, cost = _coupling(rng.standard_normal((k, k)) / np.sqrt(k)), _spread(rng, 2 * k, 1e-1, 1e3)

    def P(z: Vector) -> Vector:
        return np.concatenate([one(z[:k]), two(z[k:])]) + A @ z

    return _planted(rng, 2 * k, P, lambda z: cost * z, boxed=seed % 2 == 1)


def stiff_P(seed: int, n: int | None = None) -> Equilibrium:
    """All of the stiffness in P, which is cubic with a skew part; Q is trivial."""
    rng, n = _drawn(9, seed, n)
    stiff, S = _spread(rng, n, 1e-2, 10.0 ** rng.uniform(0.0, 2.0)), _skew(rng, n, 1.0)
    return _planted(rng, n, lambda z: stiff * (z + z**3 / 3.0) + S @ z, lambda z: 1e-3 * z)


def stiff_Q(seed: int, n: int | None = None) -> Equilibrium:
    """All of the stiffness in Q: a chain of springs and a transport along it; P is smooth."""
    rng, n = _drawn(10, seed, n)
    D, B = np.diff(np.eye(n + 1), axis=0)[:, 1:], rng.standard_normal((n, n)) / np.sqrt(n)
    chain = 10.0 ** rng.uniform(1.0, 3.0) * (D.T @ D + 0.5 * (np.eye(n, k=1) - np.eye(n, k=-1)))
    S = _skew(rng, n, 0.5)

    def P(z: Vector) -> Vector:
        return B.T @ np.tanh(B @ z) + S @ z + 0.1 * z

    return _planted(rng, n, P, chain.__matmul__, boxed=seed % 2 == 1)


def lagrangian(seed: int, n: int | None = None) -> Equilibrium:
    """A quadratic program by its Lagrangian: P the costs, Q the rows; half with inequalities."""
    rng, n = _drawn(11, seed, n)
    m = n // 3
    H = _definite(rng, n - m, 1e-2, 1.0)
    A = rng.standard_normal((n - m, m)) / np.sqrt(n)
    Q = _coupling(A)
    made = _planted(
        rng, n, lambda z: np.concatenate([H @ z[: n - m], 1e-3 * z[n - m :]]), Q.__matmul__
    )
    low = np.repeat([-np.inf, 0.0], [n - m, m])
    C = partial(gt.Box, low, np.inf) if seed % 2 == 1 else None
    return Equilibrium(made.P, made.Q, made.start, C)


def risk_and_skew(seed: int, n: int | None = None) -> Equilibrium:
    """Log-sum-exp and a skew part; Q is a diagonal with a range of 1e4."""
    rng, n = _drawn(12, seed, n)
    risk, S = _risk(2.0 * rng.standard_normal((4 * n, n)) / np.sqrt(n)), _skew(rng, n, 1.0)
    cost = _spread(rng, n, 1e-2, 1e2)
    return _planted(rng, n, lambda z: risk(z) + S @ z, lambda z: cost * z, boxed=seed % 2 == 1)


FAMILIES: dict[str, Callable[[int], Equilibrium]] = {
    "linear": linear,
    "bilinear": bilinear,
    "matrix game": matrix_game,
    "Cournot": cournot,
    "traffic": traffic,
    "shards": shards,
    "robust logistic": robust_logistic,
    "two risks": two_risks,
    "stiff P": stiff_P,
    "stiff Q": stiff_Q,
    "Lagrangian": lagrangian,
    "risk and skew": risk_and_skew,
}
# Of one size, as they are met in practice; the seeds are others than those of the families.
NAMED: dict[str, Callable[[int], Equilibrium]] = {
    "robust regression, 16 shards": partial(shards, n=90),
    "robust logistic, 10 groups": partial(robust_logistic, n=90),
    "Cournot, 6 firms, budgets": partial(cournot, n=60),
    "traffic, 20 nodes, 80 arcs": partial(traffic, n=80),
    "bilinear game": partial(bilinear, n=100),
    "two risks, coupled": partial(two_risks, n=80),
}
