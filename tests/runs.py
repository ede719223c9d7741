"""What the tests of checkpoints share: a pair, an oracle that fails, a comparison of runs."""

from __future__ import annotations

import numpy as np

import geartrain as gt

NEVER = gt.stop.Gradient(rel=1e-300)


def sums():
    """A pair that answers everything: gradients, components, partial derivatives, values."""
    rng = np.random.default_rng(7)
    A = rng.standard_normal((30, 8))
    y = np.sign(A[:, 0] + 0.3)
    g = gt.LinearModel(A, y, loss="logistic", l2=0.05)
    return gt.Quadratic(np.diag(np.linspace(0.1, 1.0, 8)), np.ones(8)), g


def failing_after(term, calls, error):
    """`term`, whose gradient raises `error` once, after so many calls."""
    left = [calls]

    def grad(x):
        left[0] -= 1
        if left[0] == 0:
            raise error
        return term.grad(x)

    return gt.Term(grad=grad, value=term.value, n=term.n, L=term.L, mu=term.mu)


def same(a, b):
    """Two results of the same run: everything but the clock is equal to the last bit."""
    np.testing.assert_array_equal(a.x, b.x)
    assert a.calls == b.calls and a.nit == b.nit and a.status is b.status
    np.testing.assert_array_equal([a.fun, a.grad_norm], [b.fun, b.grad_norm])
    assert a.history.notes == b.history.notes
    for column in set(a.history) - {"seconds"}:
        assert a.history[column].dtype == b.history[column].dtype
        np.testing.assert_array_equal(a.history[column], b.history[column])
