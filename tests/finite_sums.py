"""What the tests of the finite-sum methods share: terms, models and their counts."""

import numpy as np
from scipy import sparse

import geartrain as gt
from composite import counted
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.problem import Model


def linear(form="dense", m=30, n=8, density=0.5, **options):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((m, n)) * (rng.random((m, n)) < density)
    A *= np.exp(rng.standard_normal((m, 1)))  # rows of different sizes
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    return gt.LinearModel(sparse.csr_array(A) if form == "csr" else A, y, **options)


def by_components(term, component=None, **more):
    """The same function, of which only components are known."""
    return gt.Term(
        component=term.component if component is None else component,
        n=term.n,
        n_components=term.m,
        L_components=term.L_components,
        **more,
    )


def compiled_component(term):
    """The components of a squared loss as a Numba function."""
    from numba import njit

    A, y = term.A, term.y

    @njit
    def component(x, k):
        return A[k] * (np.dot(A[k], x) - y[k])

    return component


def model(term, alpha=0.05, key=(0, 3)):
    oracle = Oracle(term, "g", Ledger(), term.n)
    return Model(oracle, beta=np.linspace(-0.3, 0.2, term.n), alpha=alpha, key=key)


def calls(phi):
    return phi.g.ledger.calls["g.component"], phi.g.ledger.calls["g.grad"]


def problem(h, g, mu=0.0):
    return counted(h, g, L_h=h.L, L_g=getattr(g, "L", None), mu=mu)
