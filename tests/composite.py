"""Problems f = h + g + psi, and what must hold along runs, recomputed from the bare terms."""

from __future__ import annotations

import copy
import itertools
from functools import cache

import numpy as np

import geartrain as gt
from geartrain.methods.sc_sae import weights
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.oracles.splitting import Psi
from geartrain.problem import Constant, Sum

N = 12
PSIS = {
    "l1": gt.L1(0.05),
    "box": gt.Box(-0.05, 0.1),
    "groups": gt.GroupL1(3, 0.05),
    "simplex": gt.Simplex(0.5),
    "ball": gt.Ball(0.2),
}


def bare(psi):
    """The same term by its proximal operator and values alone."""
    return gt.Term(prox=psi.prox, value=psi.value)


def counted(h, g, psi=None, L_h=None, L_g=None, mu=None, seed=0):
    """A counted problem with a ledger of its own."""
    ledger, constants = Ledger(), (Constant(c, "given") for c in (L_h, L_g, mu))
    terms = Oracle(h, "h", ledger, h.n), Oracle(g, "g", ledger, h.n)
    psi = None if psi is None else Psi(psi, 1.0, "g", ledger, h.n)
    return Sum(*terms, *constants, seed=seed, psi=psi)


def proximal_minimiser(grad, psi, L, x0):
    """By proximal gradient steps with momentum and restart, written out here."""
    x, y, t = x0, x0, 1.0
    for k in range(60_000):
        new = psi.prox(y - grad(y) / L, L)
        if (y - new) @ (new - x) > 0:
            t = 1.0
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y, x, t = new + (t - 1) / after * (new - x), new, after
        if k % 50 == 0 and np.linalg.norm(psi.residual(x, grad(x))) <= 1e-12:
            return x
    raise AssertionError("no reference solution")


class Composite:
    """Logistic h, badly conditioned quadratic g, and psi, with the minimiser."""

    def __init__(self, psi, l2=0.01, L_g=100.0, seed=0):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((60, N))
        y = np.where(A @ rng.standard_normal(N) + 0.5 * rng.standard_normal(60) > 0, 1.0, -1.0)
        U = np.linalg.qr(rng.standard_normal((N, N)))[0]
        G = (U * np.geomspace(1e-3, L_g, N)) @ U.T
        self.h = gt.LinearModel(A, y, l2=l2)
        self.g = gt.Quadratic(0.5 * (G + G.T), 0.1 * rng.standard_normal(N))
        self.psi = self.term = psi
        self.mu = self.h.mu + self.g.mu
        self.x0 = psi.prox(0.3 * rng.standard_normal(N), 1.0)
        self.x_star = proximal_minimiser(self.grad, psi, self.h.L + self.g.L, self.x0)
        self.f_star = self.f(self.x_star)

    def f(self, x):
        return self.h.value(x) + self.g.value(x) + self.psi.value(x)

    def grad(self, x):
        """Of the smooth part."""
        return self.h.grad(x) + self.g.grad(x)

    def in_dpsi(self, w, x):
        """How far w is from being a subgradient of psi at x: prox(x + w, 1) = x for those."""
        return float(np.linalg.norm(self.psi.prox(x + w, 1.0) - x))

    def sum(self):
        """A counted problem with a ledger of its own."""
        return counted(self.h, self.g, self.term, self.h.L, self.g.L, self.mu)


@cache
def case(kind, residuals=True):
    """The problem with one of `PSIS`, solved once, whatever psi can be asked."""
    if residuals:
        return Composite(PSIS[kind])
    same = copy.copy(case(kind))
    same.term = bare(same.psi)
    return same


def states(method, problem, x0, count):
    """The first states of a run."""
    state = method.init(problem, x0)
    run = [state]
    while len(run) <= count and not state.stalled:
        state = method.step(problem, state)
        run.append(state)
    return run


def violations(name, case, method, count=12):
    """What is wrong along a run of SAE, SC-SAE or AFB: the inequalities of the proofs."""
    found = []

    def claim(holds, what):
        if not holds:
            found.append(what)

    run = states(method, case.sum(), case.x0, count)
    R2 = float(np.sum((case.x0 - case.x_star) ** 2))
    for old, new in itertools.pairwise(run):
        x = new.point
        if name == "sae":
            a = new.A - old.A
            u, mu, center = (old.z - new.z) / a, 0.0, new.x
            L, tolerance = new.L, method.sigma
        else:
            mu = case.mu
            eta = 1.0 / new.L if name == "sc-sae" else (1.0 - method.zeta**2) / new.L
            w = weights(old.A, eta, mu)
            u, center = (w.keep * old.z + w.pull * x - new.z) / w.push, new.y
            L, tolerance = new.L, np.sqrt(getattr(method, "sigma", 0.0) ** 2 + mu / new.L)
        at = new.y if name == "afb" else x  # AFB has h's strong convexity on the side of g
        part = u - case.h.grad(at) - case.h.mu * (x - at) - case.g.grad(x)
        size = 1.0 + np.linalg.norm(u) + np.linalg.norm(case.grad(x))
        claim(case.in_dpsi(part, x) <= 1e-8 * size, "u is no subgradient")
        if name == "afb":
            error = np.linalg.norm(u + L * (x - center))
            claim(error <= method.zeta * np.linalg.norm(u) * (1 + 1e-6), "the test")
        else:
            error = np.linalg.norm(u + L * (x - center))
            claim(error <= tolerance * L * np.linalg.norm(x - center) * (1 + 1e-6), "the test")
        before, after = (
            s.A * (case.f(s.point) - case.f_star)
            + (1 + mu * s.A) * float(np.sum((s.z - case.x_star) ** 2)) / 2
            for s in (old, new)
        )
        claim(after <= before * (1 + 1e-9) + 1e-12, "the potential grows")
        claim(case.f(x) - case.f_star <= R2 / (2 * new.A) * (1 + 1e-9) + 1e-13, "the bound")
    claim(len(run) == count + 1, "stalled")
    return sorted(set(found))
