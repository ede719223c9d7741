"""Problems with linear constraints: f = h + g on lower <= A x <= upper, lo <= x <= hi.

A family is a function of a seed. h is what a simulator or a cluster would answer, g is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import geartrain as gt
from geartrain.oracles.protocols import Vector
from geartrain_lab.problems.shards import libsvm_rows


@dataclass(frozen=True, eq=False)
class Constraints:
    """The set {x : lower <= A x <= upper, lo <= x <= hi}; numbers stand for vectors of them."""

    A: Any
    lower: Any = -np.inf
    upper: Any = np.inf
    lo: Any = -np.inf
    hi: Any = np.inf

    def __post_init__(self) -> None:
        m, n = self.A.shape
        for name, size in (("lower", m), ("upper", m), ("lo", n), ("hi", n)):
            given = np.asarray(getattr(self, name), dtype=float)
            object.__setattr__(self, name, np.array(np.broadcast_to(given, (size,))))

    def term(self) -> Any:
        """The set as a term; a new one, which has learned nothing from earlier runs."""
        return gt.Linear(self.A, self.lower, self.upper, bounds=gt.Box(self.lo, self.hi))

    def violation(self, x: Vector) -> float:
        """The largest violation of a row or of a bound."""
        rows = self.A @ x
        parts = (self.lower - rows, rows - self.upper, self.lo - x, x - self.hi)
        return max(0.0, *(float(part.max(initial=0.0)) for part in parts))


@dataclass(frozen=True, eq=False)
class Constrained:
    """h + g on a set, and where to start; `whole` are convex terms with the same sum as h + g."""

    h: Any
    g: Any
    set: Constraints
    start: Vector
    whole: Sequence[Any] = ()

    def f(self, x: Vector) -> float:
        return float(self.h.value_and_grad(x)[0] + self.g.value_and_grad(x)[0])


def portfolio(seed: int, n: int = 80) -> Constrained:
    """Entropic risk over scenarios and market impact; budget, sectors, factor limits, caps."""
    rng = np.random.default_rng([31, 1, seed])
    factors = rng.standard_normal((n, 5))
    noise = 0.7 * rng.standard_normal((600, n))
    returns = 0.02 * (rng.standard_normal((600, 5)) @ factors.T + noise) + 0.002 * rng.random(n)
    impact, held = rng.random(n) * np.geomspace(0.1, 100.0, n), np.full(n, 1.0 / n)
    sectors = (np.arange(n) % 8 == np.arange(8)[:, None]).astype(float)
    A = np.vstack([np.ones(n), sectors, factors.T])
    lower = np.concatenate([[1.0], np.full(8, 0.05), np.full(5, -0.1)])
    upper = np.concatenate([[1.0], np.full(8, 0.2), np.full(5, 0.1)])
    g = gt.Quadratic(np.diag(impact), impact * held)
    return Constrained(
        gt.LogSumExp(-20.0 * returns), g, Constraints(A, lower, upper, 0, 0.06), held
    )


def monotone_density(seed: int, n: int = 100) -> Constrained:
    """An increasing density from blurred data: a robust misfit; D x >= 0, mass 1, x >= 0."""
    rng = np.random.default_rng([31, 2, seed])
    t = np.linspace(0.0, 1.0, n)
    blur = np.exp(-0.5 * ((t[:, None] - t) / 0.05) ** 2)
    blur /= blur.sum(axis=1, keepdims=True)
    steps = np.sort(rng.random(3))
    truth = 1.0 + np.searchsorted(steps, t)
    seen = n * (blur @ (truth / truth.sum())) * (1.0 + 0.02 * rng.standard_normal(n))
    D = np.diff(np.eye(n), axis=0)
    A = np.vstack([np.ones(n), D])
    lower, upper = np.zeros(n), np.full(n, np.inf)
    lower[0] = upper[0] = 1.0
    h = gt.LinearModel(n * blur, seen, loss="huber", delta=0.05)
    g = gt.Quadratic(100.0 * D.T @ D + 0.01 * np.eye(n))
    return Constrained(h, g, Constraints(A, lower, upper, 0.0), np.full(n, 1.0 / n))


def network_flow(seed: int, nodes: int = 30, arcs: int = 110) -> Constrained:
    """Congestion by a simulator and tolls; what enters a node leaves it, capacities."""
    rng = np.random.default_rng([31, 3, seed])
    more = arcs - nodes
    tail = np.concatenate([np.arange(nodes), rng.integers(0, nodes, more)])
    head = np.concatenate([(np.arange(nodes) + 1) % nodes, rng.integers(0, nodes, more)])
    head = np.where(head == tail, (head + 1) % nodes, head)
    A = np.zeros((nodes, arcs))
    A[tail, np.arange(arcs)] += 1.0
    A[head, np.arange(arcs)] -= 1.0
    flow = rng.random(arcs)
    A, b = A[:-1], (A @ flow)[:-1]  # the last row follows from the others
    g = gt.Quadratic(np.diag(rng.permutation(np.geomspace(1e-2, 1e2, arcs))))
    h = gt.LogSumExp(rng.standard_normal((300, arcs)) / 2.0)
    return Constrained(h, g, Constraints(A, b, b, 0.0, 1.3), flow)


def fair_logistic(seed: int, n: int = 60) -> Constrained:
    """Logistic regression with a smoothing prior; limits on covariances of groups and scores."""
    rng = np.random.default_rng([31, 4, seed])
    X = rng.standard_normal((1500, n)) * np.geomspace(1.0, 0.1, n)
    group = np.sign(X[:, :3].sum(axis=1) + 0.5 * rng.standard_normal(1500))
    score = 2.0 * X @ rng.standard_normal(n) + group + 0.5 * rng.standard_normal(1500)
    groups = np.sign(X[:, :6]) * group[:, None]
    rows = (groups - groups.mean(axis=0)).T @ X / 1500
    D = np.diff(np.eye(n), n=2, axis=0)
    g = gt.Quadratic(0.3 * D.T @ D + 1e-4 * np.eye(n))
    h = gt.LinearModel(X, np.where(score > 0, 1.0, -1.0))
    return Constrained(h, g, Constraints(rows, -0.01, 0.01), np.zeros(n))


def dispatch(seed: int, units: int = 5, hours: int = 24) -> Constrained:
    """Congestion of lines and fuel; demand of every hour, limits on ramps, capacities."""
    rng = np.random.default_rng([31, 5, seed])
    capacity = rng.uniform(0.5, 2.0, units)
    level = 0.55 + 0.3 * np.sin(2.0 * np.pi * (np.arange(hours) - 7) / hours)
    plan = np.outer(level, capacity)  # all units run at the same share of their capacity
    demand = np.kron(np.eye(hours), np.ones(units))
    ramps = np.kron(np.diff(np.eye(hours), axis=0), np.eye(units))
    most = np.tile(1.3 * np.abs(np.diff(plan, axis=0)).max(axis=0), hours - 1)
    A = np.vstack([demand, ramps])
    lower = np.concatenate([plan.sum(axis=1), -most])
    upper = np.concatenate([plan.sum(axis=1), most])
    lines = rng.standard_normal((8, units))
    h = gt.LogSumExp(4.0 * np.kron(np.eye(hours), np.vstack([lines, -lines])))
    fuel = np.tile(np.geomspace(0.02, 2.0, units), hours)
    g = gt.Quadratic(np.diag(fuel), np.tile(-rng.random(units), hours))
    return Constrained(
        h, g, Constraints(A, lower, upper, 0.0, np.tile(capacity, hours)), plan.ravel()
    )


# Columns of a9a: the lowest ages, the first race, one sex, and the first country.
_GROUPS = (0, 66, 71, 82)


def fair_a9a(seed: int, rows: int = 16_000, shards: int = 16) -> Constrained:
    """a9a in shards: h = f - f_1, g = f_1 + ridge; four limits of covariances, bounds."""
    A, y = libsvm_rows("a9a")
    chosen = np.random.default_rng([31, 6, seed]).permutation(y.size)[:rows]
    A, y = A[chosen], y[chosen]
    member = np.asarray(A[:, list(_GROUPS)].toarray() > 0.0, dtype=float)
    limits = (A.T @ (member - member.mean(axis=0))).T / rows
    f, own = gt.LinearModel(A, y), rows // shards
    f_1 = gt.LinearModel(A[:own], y[:own])
    g = gt.LinearModel(A[:own], y[:own], l2=1e-4)
    whole = (f, gt.Quadratic(1e-4 * np.eye(f.n)))
    return Constrained(f - f_1, g, Constraints(limits, -0.01, 0.01, -2, 2), np.zeros(f.n), whole)


def adverse(seed: int) -> Constrained:
    """h carries the difficulty, g is a weak ridge, the polytope is drawn at random."""
    rng = np.random.default_rng([31, 7, seed])
    n = int(rng.integers(3, 41))
    m, equal = int(rng.integers(1, 2 * n + 1)), int(rng.integers(0, n // 3 + 1))
    sizes = 10.0 ** -rng.uniform(0.0, 2.0, n)
    rows = rng.standard_normal((int(rng.integers(2, 6)) * n, n)) * sizes
    kind = ("log-sum-exp", "logistic", "huber", "quadratic")[seed % 4]
    label = rows @ (rng.standard_normal(n) / sizes) + rng.standard_normal(len(rows))
    h: Any
    if kind == "log-sum-exp":
        h = gt.LogSumExp(3.0 * rows, rng.standard_normal(n) * sizes)
    elif kind == "logistic":
        h = gt.LinearModel(3.0 * rows, np.where(label > 0, 1.0, -1.0))
    elif kind == "huber":
        h = gt.LinearModel(rows, label, loss="huber", delta=0.3)
    else:
        h = gt.Quadratic(rows.T @ rows / len(rows), rows.T @ label / len(rows))
    A, inside = rng.standard_normal((m, n)), rng.standard_normal(n)
    middle, slack = A @ inside, rng.exponential(1.0, (2, m))
    slack[:, : min(equal, m)] = 0.0
    slack[rng.integers(0, 2, m), np.arange(m)] *= np.where(rng.random(m) < 0.5, 1.0, 1e6)
    bounded = rng.random(n) < 0.5
    lo = np.where(bounded, inside - rng.exponential(1.0, n), -np.inf)
    hi = np.where(bounded, inside + rng.exponential(1.0, n), np.inf)
    g = gt.Quadratic(10.0 ** rng.uniform(-5.0, -3.0) * np.eye(n))
    return Constrained(h, g, Constraints(A, middle - slack[0], middle + slack[1], lo, hi), inside)


FAMILIES: dict[str, Callable[[int], Constrained]] = {
    "portfolio": portfolio,
    "monotone density": monotone_density,
    "network flow": network_flow,
    "fair logistic": fair_logistic,
    "dispatch": dispatch,
    "fair a9a, 16 shards": fair_a9a,
    "adverse": adverse,
}
