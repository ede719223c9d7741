"""The independent reference: plain formulas in long double, which share no code with the library.

Each function knows its value, gradient and Hessian in long double, and a bound on the rounding
error that an honest evaluation in float64 may have made there (`noise_value`, `noise_grad`). A
statement of the library is called false only where it is false by more than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LD = np.longdouble
EPS = LD(np.finfo(np.float64).eps)
SAFETY = LD(16)  # sums of a few products, functions that are right to a few units


def ld(a):
    return np.asarray(a, dtype=LD)


def size(v):
    """The Euclidean norm, without overflow or underflow of the squares."""
    v = np.abs(ld(v))
    top = v.max(initial=LD(0))
    if not np.isfinite(top) or top == 0:
        return top
    return top * np.sqrt(np.sum((v / top) ** 2))


class Function:
    """What every reference function has; `convex` is the truth, whatever the term says."""

    convex = True
    mu = 0.0  # of strong convexity, as far as it is known

    def value(self, x):
        raise NotImplementedError

    def grad(self, x):
        raise NotImplementedError

    def hessian(self, x):
        raise NotImplementedError

    def noise_value(self, x):
        return LD(0)

    def noise_grad(self, x):
        return np.zeros(len(x), dtype=LD)

    def __add__(self, other):
        return Combination([(1.0, self), (1.0, other)])

    def __rmul__(self, weight):
        return Combination([(weight, self)])


def rounded(function):
    """Value and gradient in float64, as a function of the user's would give them."""

    def value_and_grad(x):
        with np.errstate(all="ignore"):
            z = ld(x)
            return float(function.value(z)), np.asarray(function.grad(z), dtype=np.float64)

    return value_and_grad


@dataclass(eq=False)
class Combination(Function):
    """A weighted sum."""

    parts: list

    @property
    def mu(self):
        return sum(w * p.mu for w, p in self.parts) if min(w for w, _ in self.parts) > 0 else 0.0

    def value(self, x):
        return sum((LD(w) * p.value(x) for w, p in self.parts), LD(0))

    def grad(self, x):
        return sum(LD(w) * p.grad(x) for w, p in self.parts)

    def hessian(self, x):
        return sum(LD(w) * p.hessian(x) for w, p in self.parts)

    def noise_value(self, x):
        return sum(LD(abs(w)) * (p.noise_value(x) + EPS * abs(p.value(x))) for w, p in self.parts)

    def noise_grad(self, x):
        return sum(LD(abs(w)) * (p.noise_grad(x) + EPS * np.abs(p.grad(x))) for w, p in self.parts)


@dataclass(eq=False)
class Quadratic(Function):
    """x'Qx/2 - b'x."""

    Q: np.ndarray
    b: np.ndarray
    convex: bool = True
    mu: float = 0.0

    def value(self, x):
        return x @ (ld(self.Q) @ x) / 2 - ld(self.b) @ x

    def grad(self, x):
        return ld(self.Q) @ x - ld(self.b)

    def hessian(self, x):
        return ld(self.Q)

    def _magnitude(self, x):
        return np.abs(ld(self.Q)) @ np.abs(x) + np.abs(ld(self.b))

    def noise_value(self, x):
        return SAFETY * len(x) * EPS * (np.abs(x) @ self._magnitude(x))

    def noise_grad(self, x):
        return SAFETY * len(x) * EPS * self._magnitude(x)


class Rows(Function):
    """Functions of scores A x; subclasses give what depends on the scores."""

    A: np.ndarray

    def scores(self, x):
        return ld(self.A) @ x

    def blur(self, x):
        """A bound on the rounding error of each score."""
        return SAFETY * len(x) * EPS * (np.abs(ld(self.A)) @ np.abs(x))


@dataclass(eq=False)
class Logistic(Rows):
    """mean ln(1 + exp(-y <a, x>)) + l2/2 |x|^2."""

    A: np.ndarray
    y: np.ndarray
    l2: float = 0.0

    @property
    def mu(self):
        return self.l2

    def value(self, x):
        losses = np.logaddexp(LD(0), -ld(self.y) * self.scores(x))
        return losses.mean() + LD(self.l2) * (x @ x) / 2

    def _slopes(self, x):
        t = ld(self.y) * self.scores(x)
        small = np.exp(-np.abs(t))
        return -ld(self.y) * np.where(t > 0, small, LD(1)) / (1 + small), small / (1 + small) ** 2

    def grad(self, x):
        return ld(self.A).T @ self._slopes(x)[0] / len(self.y) + LD(self.l2) * x

    def hessian(self, x):
        bends = self._slopes(x)[1]
        A = ld(self.A)
        return (A.T * bends) @ A / len(self.y) + LD(self.l2) * np.eye(len(x), dtype=LD)

    def noise_value(self, x):
        losses = np.logaddexp(LD(0), -ld(self.y) * self.scores(x))
        ridge = LD(self.l2) * (x @ x)
        return self.blur(x).mean() + SAFETY * EPS * (losses.mean() + len(x) * ridge)

    def noise_grad(self, x):
        slopes, bends = self._slopes(x)
        blur = self.blur(x)
        error = np.minimum(bends * np.exp(np.minimum(blur, 1)), LD(0.25)) * blur
        error = error + SAFETY * EPS * len(self.y) * np.abs(slopes)
        ridge = SAFETY * EPS * LD(self.l2) * np.abs(x)
        return np.abs(ld(self.A)).T @ error / len(self.y) + ridge


@dataclass(eq=False)
class LogSumExp(Rows):
    """ln sum exp(A x) - c'x."""

    A: np.ndarray
    c: np.ndarray

    def value(self, x):
        s = self.scores(x)
        top = s.max()
        return top + np.log(np.exp(s - top).sum()) - ld(self.c) @ x

    def _weights(self, x):
        s = self.scores(x)
        w = np.exp(s - s.max())
        return w / w.sum()

    def grad(self, x):
        return ld(self.A).T @ self._weights(x) - ld(self.c)

    def hessian(self, x):
        w, A = self._weights(x), ld(self.A)
        mean = A.T @ w
        return (A.T * w) @ A - np.outer(mean, mean)

    def noise_value(self, x):
        magnitude = np.abs(self.value(x)) + np.abs(self.scores(x)).max() + np.abs(ld(self.c) @ x)
        return self.blur(x).max() + SAFETY * EPS * magnitude

    def noise_grad(self, x):
        blur = np.minimum(2 * self.blur(x).max(), LD(1)) + SAFETY * len(self.A) * EPS
        return blur * np.abs(ld(self.A)).T @ self._weights(x) + SAFETY * EPS * np.abs(ld(self.c))


@dataclass(eq=False)
class Barrier(Function):
    """-weight sum ln(x_i + edge): infinite where some x_i <= -edge."""

    weight: float
    edge: float

    def value(self, x):
        inside = x + LD(self.edge)
        return LD(np.inf) if (inside <= 0).any() else -LD(self.weight) * np.log(inside).sum()

    def grad(self, x):
        return -LD(self.weight) / (x + LD(self.edge))

    def hessian(self, x):
        return np.diag(LD(self.weight) / (x + LD(self.edge)) ** 2)

    def noise_value(self, x):
        inside = np.abs(x + LD(self.edge))
        blur = EPS * (np.abs(x) + LD(self.edge)) / inside
        return SAFETY * LD(self.weight) * (blur + EPS * np.abs(np.log(inside))).sum()

    def noise_grad(self, x):
        inside = np.abs(x + LD(self.edge))
        blur = EPS * (np.abs(x) + LD(self.edge)) / inside
        return SAFETY * LD(self.weight) / inside * (blur + EPS)


@dataclass(eq=False)
class Constant(Function):
    """A constant, whose gradient is zero."""

    c: float = 0.0

    def value(self, x):
        return LD(self.c)

    def grad(self, x):
        return np.zeros(len(x), dtype=LD)

    def hessian(self, x):
        return np.zeros((len(x), len(x)), dtype=LD)


@dataclass(eq=False)
class Absolute(Function):
    """weight sum |x_i - k_i|, whose gradient jumps."""

    weight: float
    kinks: np.ndarray

    def value(self, x):
        return LD(self.weight) * np.abs(x - ld(self.kinks)).sum()

    def grad(self, x):
        return LD(self.weight) * np.sign(x - ld(self.kinks))

    def hessian(self, x):
        return np.zeros((len(x), len(x)), dtype=LD)

    def noise_value(self, x):
        return SAFETY * EPS * LD(self.weight) * (np.abs(x) + np.abs(ld(self.kinks))).sum()


@dataclass(eq=False)
class Wave(Function):
    """weight sum cos(x_i): not convex."""

    weight: float
    convex = False

    def value(self, x):
        return LD(self.weight) * np.cos(x).sum()

    def grad(self, x):
        return -LD(self.weight) * np.sin(x)

    def hessian(self, x):
        return np.diag(-LD(self.weight) * np.cos(x))

    def noise_value(self, x):
        return SAFETY * EPS * LD(self.weight) * (1 + np.abs(x)).sum()

    def noise_grad(self, x):
        return SAFETY * EPS * LD(self.weight) * (1 + np.abs(x))


@dataclass(eq=False)
class Lying(Function):
    """An honest value with a gradient that is not its own: ``factor * grad + shift``."""

    honest: Function
    factor: np.ndarray
    shift: np.ndarray
    convex = False  # nothing may be concluded from it

    def value(self, x):
        return self.honest.value(x)

    def grad(self, x):
        return ld(self.factor) * self.honest.grad(x) + ld(self.shift)

    def noise_value(self, x):
        return self.honest.noise_value(x)

    def noise_grad(self, x):
        lie = np.abs(self.grad(x)) + np.abs(ld(self.shift))
        return np.abs(ld(self.factor)) * self.honest.noise_grad(x) + SAFETY * EPS * lie


# The minimum ------------------------------------------------------------------------------


def solve(M, r):
    """Gaussian elimination with partial pivoting; None where a pivot vanishes."""
    M, r = ld(M).copy(), ld(r).copy()
    n = len(r)
    for k in range(n):
        p = k + int(np.argmax(np.abs(M[k:, k])))
        if M[p, k] == 0 or not np.isfinite(M[p, k]):
            return None
        M[[k, p]], r[[k, p]] = M[[p, k]], r[[p, k]]
        for i in range(k + 1, n):
            factor = M[i, k] / M[k, k]
            M[i, k:] -= factor * M[k, k:]
            r[i] -= factor * r[k]
    x = np.zeros(n, dtype=LD)
    for k in range(n - 1, -1, -1):
        x[k] = (r[k] - M[k, k + 1 :] @ x[k + 1 :]) / M[k, k]
    return x


def minimise(f, x0, steps=200):
    """Damped Newton steps from x0; the best point found.

    No claim is made that it is the minimum: its value is an upper bound of f*, which is all that an
    accusation needs.
    """
    x = ld(x0)
    value = f.value(x)
    for _ in range(steps):
        grad, H = f.grad(x), f.hessian(x)
        if not (np.isfinite(grad).all() and np.isfinite(H).all()) or size(grad) == 0:
            break
        top = np.abs(H).max()
        for shift in (0.0, 1e-18, 1e-15, 1e-12, 1e-8, 1e-4, 1.0, 1e4):
            step = solve(H + LD(shift) * top * np.eye(len(x), dtype=LD), -grad)
            if step is not None and np.isfinite(step).all() and step @ grad < 0:
                break
        else:
            break
        t, moved = LD(1), False
        for _ in range(60):
            after = f.value(x + t * step)
            if np.isfinite(after) and after < value:
                x, value, moved = x + t * step, after, True
                break
            t /= 2
        if not moved:
            break
    return x
