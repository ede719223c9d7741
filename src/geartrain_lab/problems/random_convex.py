"""Random convex problems f = h + g, in families, for tuning and for reports.

A problem is determined by its split and its number within the split. **The split is a rule, not a
habit**: problem k of ``"development"`` is drawn from the even seed 2 k, problem k of ``"report"``
from the odd seed 2 k + 1, so that the two never share a problem. Constants, rules and models are
chosen on development problems alone. Report problems are for ``geartrain bench profile`` and for
tables made by it; a method, a default or a generator changed after a look at them has to be
reported on seeds beyond those that were seen (a larger `start`).

What is drawn: the family (in turn, so that any number of consecutive problems is balanced), the
dimension n (log-uniform from 2 to 100 mostly, up to 2,000), the conditioning of the data and of the
regulariser, the weight of the regulariser, the scale of f (10^-6 to 10^6) and of x, and the
starting point (zero, far from the data's true parameter, or near it).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from geartrain.oracles import LinearModel, LogSumExp, Quadratic
from geartrain.oracles.protocols import Vector
from geartrain_lab.problems.random_losses import Power, PseudoHuber, TamePoisson

Split = Literal["development", "report"]
Generator = np.random.Generator

_STREAM = 1506  # keeps these draws apart from other uses of small integer seeds
LARGEST = 2000  # dimension
_DENSE = 400  # beyond this dimension, data and regularisers are sparse


@dataclass(frozen=True, eq=False)
class RandomProblem:
    """A problem f = h + g with f convex."""

    name: str  # unique: family, dimension, start, split and number
    family: str
    h: Any
    g: Any
    x0: Vector

    @property
    def n(self) -> int:
        """The dimension."""
        return self.x0.size


@dataclass(frozen=True)
class Draw:
    """What the terms of one problem are drawn from."""

    rng: Generator
    n: int  # dimension
    unit: float  # the size of x; rows of data are scaled by its inverse
    truth: Vector  # the parameter that generated the data, of size `unit`

    def uniform(self, low: float, high: float) -> float:
        """A number between `low` and `high`."""
        return float(self.rng.uniform(low, high))

    def power(self, low: float, high: float) -> float:
        """Ten to a uniform exponent."""
        return 10.0 ** self.uniform(low, high)

    def whole(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def sizes(self, condition: float) -> Vector:
        """n numbers from 1/condition to 1, log-uniform, in random order."""
        return self.rng.permutation(np.logspace(-math.log10(condition), 0.0, self.n))

    def rotation(self) -> Vector:
        """A random orthogonal matrix."""
        return np.linalg.qr(self.rng.standard_normal((self.n, self.n)))[0]

    def data(self, rows: float | None = None, condition: float | None = None) -> Any:
        """A data matrix whose rows have norm about 1/unit; `rows` is in multiples of n."""
        m = max(3, round(self.n * (self.uniform(0.5, 4.0) if rows is None else rows)))
        sizes = self.sizes(self.power(0.0, 2.5) if condition is None else condition)
        rng = self.rng
        if self.n > _DENSE or (self.n >= 8 and rng.random() < 0.25):
            density = min(1.0, 10.0 / self.n)
            A = sparse.random_array((m, self.n), density=density, rng=rng, format="csr")
            A.data = rng.standard_normal(A.data.size)
            A = sparse.csr_array(A * sizes)
            size = sparse.linalg.norm(A) / math.sqrt(m)
        else:
            A = rng.standard_normal((m, self.n)) * sizes
            if rng.random() < 0.5 and self.n <= _DENSE:
                A = A @ self.rotation()
            size = np.linalg.norm(A) / math.sqrt(m)
        return A / (float(size) * self.unit)

    def targets(self, A: Any, noise: float = 0.1) -> Vector:
        """Real targets of the true parameter."""
        return A @ self.truth + noise * self.rng.standard_normal(A.shape[0])

    def labels(self, A: Any, noise: float = 0.5) -> Vector:
        """Labels of the true parameter; without noise they are separable."""
        return np.where(self.targets(A, noise) >= 0.0, 1.0, -1.0)

    def ridge(self, weight: float) -> Quadratic:
        """``weight/2 |x/unit|^2``."""
        return Quadratic(weight / self.unit**2 * sparse.eye_array(self.n, format="csr"))


# Data terms: means of losses, and logarithms of sums of exponentials ----------------------


def _logistic(d: Draw) -> Any:
    A = d.power(-0.5, 1.0) * d.data()
    return LinearModel(A, d.labels(A), loss="logistic")


def _squared(d: Draw) -> Any:
    A = d.data()
    return LinearModel(A, d.targets(A), loss="squared")


def _smoothed_hinge(d: Draw) -> Any:
    A = d.power(0.0, 1.0) * d.data()
    return LinearModel(A, d.labels(A), loss="smoothed_hinge", mu=d.power(-1.5, 0.0))


def _squared_hinge(d: Draw) -> Any:
    A = d.power(0.0, 1.0) * d.data()
    return LinearModel(A, d.labels(A), loss="squared_hinge")


def _huber(d: Draw) -> Any:
    A = d.data()
    y = d.targets(A)
    wrong = d.rng.random(y.size) < 0.1
    y[wrong] += 5.0 * d.rng.standard_normal(int(wrong.sum()))
    return LinearModel(A, y, loss="huber", delta=d.power(-1.0, 0.5))


def _pseudo_huber(d: Draw) -> Any:
    A = d.data()
    return LinearModel(A, d.targets(A, 0.5), loss=PseudoHuber(d.power(-1.5, 0.0)))


def _poisson(d: Draw) -> Any:
    A = d.power(-0.5, 0.3) * d.data()
    rates = np.exp(np.minimum(A @ d.truth, 6.0))
    return LinearModel(A, d.rng.poisson(rates).astype(np.float64), loss=TamePoisson())


def _power(d: Draw) -> Any:
    A = d.data()
    return LinearModel(A, d.targets(A, 0.5), loss=Power(d.uniform(2.5, 4.0)))


def _log_sum_exp(d: Draw) -> Any:
    return LogSumExp(d.power(-0.5, 1.5) * d.data())


def _log_density(d: Draw) -> Any:
    """The likelihood of an exponential family: c is the mean of rows drawn by the truth."""
    A = d.power(0.0, 0.7) * d.data(rows=d.uniform(2.0, 4.0))
    scores = A @ d.truth
    weights = np.exp(scores - scores.max())
    counts = d.rng.multinomial(20 * A.shape[0], weights / weights.sum())
    return LogSumExp(A, A.T @ (counts / counts.sum()))


# Regularisers -----------------------------------------------------------------------------


def _quadratic(d: Draw) -> Any:
    eigenvalues = d.power(-2.0, 2.0) / d.unit**2 * d.sizes(d.power(0.0, 5.0))
    b = eigenvalues * d.truth * d.uniform(0.0, 1.0)
    if d.n > _DENSE or d.rng.random() < 0.3:
        return Quadratic(sparse.diags_array(eigenvalues, format="csr"), b)
    W = d.rotation()
    Q = (W * eigenvalues) @ W.T
    return Quadratic(0.5 * (Q + Q.T), b)


def _differences(n: int) -> Any:
    """Differences of neighbours on a chain, or on a grid where n has a divisor for it."""
    side = next((k for k in range(math.isqrt(n), 1, -1) if n % k == 0), 1)
    if side < 3:
        return _chain(n)
    return sparse.csr_array(
        sparse.vstack(
            [
                sparse.kron(_chain(n // side), sparse.eye_array(side)),
                sparse.kron(sparse.eye_array(n // side), _chain(side)),
            ]
        )
    )


def _chain(n: int) -> Any:
    return sparse.diags_array(
        [-np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n), format="csr"
    )


def _laplacian(d: Draw) -> Any:
    D = _differences(d.n)
    weight, ridge = d.power(-2.0, 2.0), d.power(-5.0, -2.0)
    Q = weight / d.unit**2 * (D.T @ D + ridge * sparse.eye_array(d.n))
    return Quadratic(sparse.csr_array(Q))


def _variation(d: Draw) -> Any:
    """Smoothed total variation, and a small ridge."""
    D = _differences(d.n) / d.unit
    weight, l2 = d.power(-1.0, 2.0), d.power(-4.0, -1.0) / d.unit**2
    y = np.zeros(D.shape[0])
    return weight * LinearModel(D, y, loss=PseudoHuber(d.power(-2.0, 0.0)), l2=l2)


def _smoothed_l1(d: Draw) -> Any:
    eye = sparse.eye_array(d.n, format="csr") / d.unit
    return d.power(-1.0, 1.0) * LinearModel(
        eye, np.zeros(d.n), loss=PseudoHuber(d.power(-2.0, 0.0)), l2=d.power(-4.0, -1.0) / d.unit**2
    )


def _weak_ridge(d: Draw) -> Any:
    return d.ridge(d.power(-5.0, -1.5))


def _cold_log_sum_exp(d: Draw) -> Any:
    """A maximum of linear functions, smoothed little, and a ridge."""
    return d.power(-2.0, 0.0) * LogSumExp(d.power(0.5, 1.7) * d.data()) + d.ridge(d.power(-4, -1))


# Families ---------------------------------------------------------------------------------

Terms = tuple[Any, Any]
Maker = Callable[[Draw], Any]


def _pair(data: Maker, regulariser: Maker) -> Callable[[Draw], Terms]:
    return lambda d: (data(d), regulariser(d))


def _exchanged(data: Maker, regulariser: Maker) -> Callable[[Draw], Terms]:
    """The expensive h is the regulariser, and the data is in g."""
    return lambda d: (regulariser(d), data(d))


def _separable_weak_ridge(d: Draw) -> Terms:
    A = d.power(0.0, 1.0) * d.data(rows=d.uniform(1.0, 4.0))
    return LinearModel(A, d.labels(A, noise=0.0), loss="logistic"), _weak_ridge(d)


def _kernel_machine(d: Draw) -> Terms:
    """The smoothed kernel SVM: h is the norm in the RKHS, g the mean loss over the same matrix."""
    n = min(d.n, _DENSE)
    X = d.rng.uniform(size=(n, d.whole(1, 4)))
    squares = np.einsum("ij,ij->i", X, X)
    K = np.exp(-d.power(-0.5, 1.0) * np.maximum(squares[:, None] + squares - 2.0 * X @ X.T, 0.0))
    K = 0.5 * (K + K.T) + 1e-3 * np.eye(n)
    y = np.where(np.sin(4.0 * X.sum(axis=1)) + 0.3 * d.rng.standard_normal(n) > 0.0, 1.0, -1.0)
    h = Quadratic(d.power(-3.0, -1.0) / d.unit**2 * K)
    return h, LinearModel(K / d.unit, y, loss="smoothed_hinge", mu=d.power(-1.0, 0.0))


def _two_quadratics(d: Draw) -> Terms:
    return _quadratic(d), _quadratic(d)


def _two_data_sets(d: Draw) -> Terms:
    g = _pseudo_huber(d) if d.rng.random() < 0.5 else _logistic(d)
    return _squared(d), d.power(-1.0, 2.0) * g + d.ridge(d.power(-3.0, -1.0))


def _shards(loss: str | Any, sparse_rows: bool = False) -> Callable[[Draw], Terms]:
    """Data in shards: h = f - f_1, which is not convex, and g = f_1 with the ridge."""

    def make(d: Draw) -> Terms:
        m, shards = d.n * d.whole(2, 8) + 32, d.whole(2, 16)
        if sparse_rows:  # columns of very different frequency: shard 1 lacks some
            frequency = np.minimum(1.0, 4.0 / np.arange(1, d.n + 1))
            mask = d.rng.random((m, d.n)) < frequency
            A: Any = sparse.csr_array(mask * d.rng.standard_normal((m, d.n)) / d.unit)
        else:
            A = d.power(0.0, 0.5) * d.data(rows=m / d.n, condition=d.power(0.0, 1.5))
        labels = getattr(loss, "labels", loss in ("logistic", "squared_hinge"))
        y = d.labels(A) if labels else d.targets(A, 0.5)
        first = max(2, A.shape[0] // shards)
        f, f_1 = LinearModel(A, y, loss=loss), LinearModel(A[:first], y[:first], loss=loss)
        l2 = d.power(-5.0, -2.0) / d.unit**2
        return f - f_1, LinearModel(A[:first], y[:first], loss=loss, l2=l2)

    return make


FAMILIES: dict[str, Callable[[Draw], Terms]] = {
    "logistic + quadratic": _pair(_logistic, _quadratic),
    "log-sum-exp + quadratic": _pair(_log_sum_exp, _quadratic),
    "squared + laplacian": _pair(_squared, _laplacian),
    "logistic in shards": _shards("logistic"),
    "poisson + laplacian": _pair(_poisson, _laplacian),
    "separable logistic + weak ridge": _separable_weak_ridge,
    "quadratic + log-sum-exp": _exchanged(_cold_log_sum_exp, _quadratic),
    "huber + total variation": _pair(_huber, _variation),
    "log-density + quadratic": _pair(_log_density, _quadratic),
    "kernel machine": _kernel_machine,
    "sparse logistic in shards": _shards("logistic", sparse_rows=True),
    "power + quadratic": _pair(_power, _quadratic),
    "smoothed hinge + smoothed l1": _pair(_smoothed_hinge, _smoothed_l1),
    "quadratic + poisson": _exchanged(_poisson, _quadratic),
    "squared hinge + weak ridge": _pair(_squared_hinge, _weak_ridge),
    "pseudo-huber in shards": _shards(PseudoHuber(0.3)),
    "two quadratics": _two_quadratics,
    "laplacian + logistic": _exchanged(_logistic, _laplacian),
    "squared + data": _two_data_sets,
    "total variation + squared": _exchanged(_squared, _variation),
    "squared in shards": _shards("squared"),
    "log-sum-exp + total variation": _pair(_log_sum_exp, _variation),
}


def seed(split: Split, k: int) -> int:
    """The seed of problem k: even for development, odd for reports."""
    if split not in get_args(Split):
        raise ValueError(f'split must be "development" or "report", got {split!r}')
    return 2 * k + (split == "report")


def problem(split: Split, k: int) -> RandomProblem:
    """Problem k of a split, the same at every call.

    Constants are chosen on the problems of "development" and reported on those of "report".
    """
    rng = np.random.default_rng((_STREAM, seed(split, k)))
    family = list(FAMILIES)[k % len(FAMILIES)]
    n = _dimension(rng)
    unit = 10.0 ** rng.uniform(-3.0, 3.0) if rng.random() < 1 / 3 else 1.0
    truth = unit * rng.standard_normal(n)
    h, g = FAMILIES[family](Draw(rng, n, unit, truth))
    if rng.random() < 1 / 3:
        scale = 10.0 ** rng.uniform(-6.0, 6.0)
        h, g = scale * h, scale * g
    n = h.n  # a family may have made it smaller
    start, x0 = _start(rng, n, unit, truth[:n])
    return RandomProblem(f"{family}, n={n}, {start} ({split} {k})", family, h, g, x0)


def problems(split: Split, count: int, start: int = 0) -> Iterator[RandomProblem]:
    """`count` problems of a split, beginning with number `start`; none is kept in memory."""
    for k in itertools.islice(itertools.count(start), count):
        yield problem(split, k)


def _dimension(rng: Generator) -> int:
    """Mostly small, so that hundreds of problems take minutes."""
    u = rng.random()
    low, high = (2, 100) if u < 0.88 else (100, _DENSE) if u < 0.97 else (_DENSE, LARGEST)
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def _start(rng: Generator, n: int, unit: float, truth: Vector) -> tuple[str, Vector]:
    """A starting point, and what it is called."""
    u = rng.random()
    if u < 0.4:
        return "from zero", np.zeros(n)
    if u < 0.7:
        return "from far", unit * 10.0 ** rng.uniform(0.3, 1.3) * rng.standard_normal(n)
    return "from near", truth + 0.05 * unit * rng.standard_normal(n)
