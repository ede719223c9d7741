"""Terms, runs and draws shared by the tests of the coordinate methods."""

import numpy as np
from scipy import sparse

import geartrain as gt


def quadratic(sparsely=False, n=9):
    rng = np.random.default_rng(1)
    B = rng.standard_normal((n, n)) * (rng.random((n, n)) < (0.3 if sparsely else 1.0))
    Q = B @ B.T * np.outer(*[np.geomspace(0.3, 3.0, n)] * 2)
    Q = (Q + Q.T) / 2
    return gt.Quadratic(sparse.csr_array(Q) if sparsely else Q, b=rng.standard_normal(n))


def model(loss="logistic", sparsely=False, intercept=True, n=8, m=15):
    rng = np.random.default_rng(2)
    A = rng.standard_normal((m, n)) * np.geomspace(0.3, 3.0, n)
    if sparsely:
        A = sparse.csr_array(A * (rng.random((m, n)) < 0.4))
    y = np.where(rng.random(m) < 0.5, -1.0, 1.0)
    return gt.LinearModel(A, y, loss=loss, l2=0.1, intercept=intercept)


def run(inner, phi, chunks, v0=None):
    v0 = np.linspace(-1.0, 1.0, phi.n) if v0 is None else v0
    states = [inner.init(phi, v0, None)]
    for _ in range(chunks):
        states.append(inner.step(phi, states[-1]))
    return states


def indices(phi, weights, K, chunks):
    """The coordinates of the first chunks, drawn the plain way."""
    cumulative = np.cumsum(weights) / weights.sum()
    out = []
    for c in range(chunks):
        steps = max(phi.n, int(np.ceil(K)))
        uniform = np.random.default_rng((*phi.key, c)).random(steps)
        out.append(np.searchsorted(cumulative, uniform, side="right"))
    return np.concatenate(out)
