"""Terms written out once more in mpmath with 50 digits, with the size of what was added up.

Every function returns (exact, size): the rounding errors of a careful float64 evaluation are
small multiples of eps * size, where size is the same sum with absolute values.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np

mp.mp.dps = 50


def loss_value(name, y, z, mu=0.1, delta=1.0):
    y, z, mu, delta = mp.mpf(y), mp.mpf(z), mp.mpf(mu), mp.mpf(delta)
    if name == "logistic":
        return mp.log1p(mp.exp(-y * z))
    if name == "squared":
        return (z - y) ** 2 / 2
    if name == "smoothed_hinge":
        return mu * mp.log1p(mp.exp((1 - y * z) / mu))
    if name == "huber":
        r = abs(z - y)
        return r**2 / 2 if r <= delta else delta * (r - delta / 2)
    return max(mp.mpf(0), 1 - y * z) ** 2


def loss_slope(name, y, z, mu=0.1, delta=1.0):
    y, z, mu, delta = mp.mpf(y), mp.mpf(z), mp.mpf(mu), mp.mpf(delta)
    if name == "logistic":
        return -y / (1 + mp.exp(y * z))
    if name == "squared":
        return z - y
    if name == "smoothed_hinge":
        return -y / (1 + mp.exp((y * z - 1) / mu))
    if name == "huber":
        return max(-delta, min(delta, z - y))
    return -2 * y * max(mp.mpf(0), 1 - y * z)


def dot(a, x):
    return mp.fsum(mp.mpf(float(p)) * mp.mpf(float(q)) for p, q in zip(a, x, strict=True))


def quadratic(Q, b, x):
    """Value, gradient and their sizes."""
    Qx = [dot(row, x) for row in Q]
    value = dot_mp(Qx, x) / 2 - dot(b, x)
    grad = [q - mp.mpf(float(c)) for q, c in zip(Qx, b, strict=True)]
    size_grad = np.abs(Q) @ np.abs(x) + np.abs(b)
    return value, grad, float(np.abs(x) @ size_grad), size_grad


def dot_mp(a, x):
    return mp.fsum(p * mp.mpf(float(q)) for p, q in zip(a, x, strict=True))


def linear_model(A, y, x, loss, l2, intercept, **params):
    """Value, gradient, the components, and the sizes of value and gradient."""
    m = A.shape[0]
    rows = np.hstack([A, np.ones((m, 1))]) if intercept else A
    ridge = np.full(x.size, float(l2))
    if intercept:
        ridge[-1] = 0.0
    margins = [dot(row, x) for row in rows]
    value = mp.fsum(
        loss_value(loss, t, z, **params) for t, z in zip(y, margins, strict=True)
    ) / m + mp.fsum(mp.mpf(r) * mp.mpf(float(v)) ** 2 / 2 for r, v in zip(ridge, x, strict=True))
    slopes = [loss_slope(loss, t, z, **params) for t, z in zip(y, margins, strict=True)]
    components = [
        [
            s * mp.mpf(float(a)) + mp.mpf(r) * mp.mpf(float(v))
            for a, r, v in zip(row, ridge, x, strict=True)
        ]
        for s, row in zip(slopes, rows, strict=True)
    ]
    grad = [mp.fsum(c[i] for c in components) / m for i in range(x.size)]
    size = np.array([float(abs(s)) for s in slopes]) @ np.abs(rows) / m + ridge * np.abs(x)
    return value, grad, components, size


def log_sum_exp(A, c, x):
    """Value, gradient and the size of the gradient."""
    scores = [dot(row, x) for row in A]
    top = max(scores)
    weights = [mp.exp(s - top) for s in scores]
    total = mp.fsum(weights)
    value = top + mp.log(total) - dot(c, x)
    pi = [w / total for w in weights]
    grad = [dot_mp(pi, A[:, i]) - mp.mpf(float(c[i])) for i in range(A.shape[1])]
    size = np.array([float(p) for p in pi]) @ np.abs(A) + np.abs(c)
    return value, grad, size


def gap(ours, exact, size=None):
    """Largest error relative to `size` (to the exact number if not given)."""
    worst = 0.0
    ours, exact = np.atleast_1d(ours), exact if isinstance(exact, list) else [exact]
    sizes = [abs(e) for e in exact] if size is None else np.atleast_1d(size)
    for a, e, s in zip(ours, exact, sizes, strict=True):
        # Below the smallest normal number float64 has fewer digits.
        worst = max(worst, float(abs(mp.mpf(float(a)) - e) / max(mp.mpf(s), mp.mpf("1e-295"))))
    return worst
