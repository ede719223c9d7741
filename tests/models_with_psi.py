"""Models phi of a logistic term with a non-smooth psi, for the randomised inner methods."""

from __future__ import annotations

import numpy as np

from composite import proximal_minimiser
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.oracles.splitting import Psi
from geartrain.problem import Model

N, M, ALPHA = 6, 30, 0.02


def data(intercept=False):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((M, N - intercept)) * np.geomspace(0.5, 2.0, M)[:, None]
    return A, np.sign(A @ np.ones(N - intercept) + rng.standard_normal(M))


def model(term, psi, key=(0,)):
    ledger = Ledger()
    beta = 0.1 * np.random.default_rng(5).standard_normal(N)
    oracle = Oracle(term, "g", ledger, N)
    return Model(oracle, beta, ALPHA, term.L, key=key, psi=Psi(psi, 1.0, "g", ledger, N)), ledger


def minimum(phi, term, psi):
    return proximal_minimiser(lambda v: phi.grad(v, term.grad(v)), psi, term.L + ALPHA, np.zeros(N))


def value(phi, term, psi, v):
    return phi.beta @ v + 0.5 * ALPHA * v @ v + term.value(v) + psi.value(v)
