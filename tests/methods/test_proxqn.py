"""The proximal quasi-Newton method inside of others: its line search, its pairs, its points."""

import itertools

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods.inner import ProxQN
from geartrain.oracles.protocols import extended_valued
from models_with_psi import ALPHA, N, data, minimum, model, value

PSIS = {
    "l1": gt.L1(0.3),
    "box": gt.Box(-0.2, 0.3),
    "simplex": gt.Simplex(2.0),
    "ball": gt.Ball(0.7, 0.1),
    "groups": gt.GroupL1(2, 0.3),
}
TERM = gt.LinearModel(*data())


def same_set(psi, v):
    """Whether v is what the proximal operator leaves alone, or psi is finite everywhere."""
    far = np.linalg.norm(psi.prox(v, 1.0) - v)
    return not extended_valued(psi) or far <= 8 * N * 2.0**-52 * np.linalg.norm(v)


class ForeignPsi:
    """psi by its proximal operator alone."""

    def __init__(self, psi):
        self.prox = psi.prox


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("name", PSIS)
def test_along_a_run(name, foreign):
    """w is in dpsi(v), the gradient is that of v, phi falls, pairs are secants of g."""
    psi, rng = PSIS[name], np.random.default_rng(1)
    phi, ledger = model(TERM, ForeignPsi(psi) if foreign else psi)
    best = minimum(phi, TERM, psi)
    inner = ProxQN()
    state = inner.init(phi, psi.prox(rng.standard_normal(N), 1.0), None)
    seen = [state]
    for _ in range(40):
        after = inner.step(phi, seen[-1])
        if after is seen[-1]:
            break
        seen.append(after)
    assert len(seen) > 4
    for before, after in itertools.pairwise(seen):
        drop = value(phi, TERM, psi, after.v) - value(phi, TERM, psi, before.v)
        assert drop <= 1e-13 * abs(value(phi, TERM, psi, before.v))
        assert (after.v is before.v) == (after.tries > 0 or after.pairs is before.pairs)
    for state in seen:
        np.testing.assert_allclose(state.grad_g, TERM.grad(state.v), rtol=0.0, atol=1e-14)
        assert same_set(psi, state.v)
        for z in (*(psi.prox(u, 1.0) for u in rng.standard_normal((20, N))), best):
            bound = psi.value(state.v) + state.grad_psi @ (z - state.v)
            assert psi.value(z) >= bound - 1e-9 * (1.0 + np.linalg.norm(state.grad_psi))
    (s, y), (before, last) = seen[1].pairs[-1], seen[:2]
    np.testing.assert_array_equal(s, last.v - before.v)
    np.testing.assert_array_equal(y, last.grad_g - before.grad_g)
    # alpha/2 |v - v*|^2 is at most what is left of phi.
    left = value(phi, TERM, psi, seen[-1].v) - value(phi, TERM, psi, best)
    assert left <= 1e-10 and 0.5 * ALPHA * np.sum((seen[-1].v - best) ** 2) <= 1e-10
    assert ledger.calls["g.value"] == 0


@pytest.mark.parametrize("name", PSIS)
def test_a_new_start_is_in_the_set(name):
    """Extrapolated points drift out of a set by rounding, and a good rule takes the first point."""
    psi = PSIS[name]
    phi, ledger = model(TERM, psi)
    v0 = psi.prox(np.linspace(-1.0, 1.0, N), 1.0) * (1.0 + 1e-13)
    state = ProxQN().init(phi, v0, None)
    assert same_set(psi, state.v)
    assert ledger.calls["g.grad"] == 1 and ledger.calls["g.prox"] == extended_valued(psi)


def test_memory_keeps_the_newest_pairs():
    phi, _ = model(TERM, PSIS["l1"])
    inner, state = ProxQN(memory=3), ProxQN().init(phi, np.ones(N), None)
    seen = []
    for _ in range(6):
        state = inner.step(phi, state)
        if not seen or state.pairs[-1] is not seen[-1]:
            seen.append(state.pairs[-1])
    assert len(seen) > 3 and len(state.pairs) == 3
    assert all(a is b for a, b in zip(state.pairs, seen[-3:], strict=True))
