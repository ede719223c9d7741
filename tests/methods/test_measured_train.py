"""Levels by the seconds and secants of the first calls, under a clock that the tests move."""

from collections import Counter

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods.learned_train import LearnedTrain, nested
from many_terms import train_of_quadratics
from runs import NEVER, same

KNOWN = train_of_quadratics((1.0, 30.0, 1000.0), mu=0.05, n=24)
H1, H2, G = KNOWN.terms


def timed(term, clock, seconds, first=0.0, seen=None, **known):
    """`term` as functions that take so many seconds, and more at the first call."""
    calls = Counter()

    def value_and_grad(x):
        clock.pass_(seconds + (0.0 if calls["all"] else first))
        calls["all"] += 1
        if seen is not None:
            seen.append(x.copy())
        return term.value(x), term.grad(x)

    return gt.Term(value_and_grad=value_and_grad, n=term.n, **known)


def test_the_dearest_term_is_first_and_terms_alike_are_merged(clock):
    h = {
        "local": timed(H2, clock, 0.011),
        "cluster": timed(H1, clock, 0.01),
        "simulator": timed(H1, clock, 10.0),
    }
    res = gt.minimize(h, timed(G, clock, 1e-5), tol=1e-4)
    assert res.success
    assert res.plan.startswith(
        "simulator > local + cluster > g: pqn on every level, local + cluster merged, prices "
        "alike (measured: local 0.011 s, cluster 0.01 s, simulator 10 s, g 0.00011 s)"
    )
    assert res.calls["cluster.grad"] == res.calls["local.grad"]


@pytest.mark.parametrize("seconds", [(1.0, 2.0, 1.5), (1e-6, 1e-5, 5e-5), (0.0, 0.0, 0.0)])
def test_levels_are_as_listed_where_seconds_tell_nothing(clock, seconds):
    terms = [timed(t, clock, s) for t, s in zip(KNOWN.terms, seconds, strict=True)]
    res = gt.minimize(terms[:2], terms[2], tol=1e-4)
    assert res.success and res.plan == (
        "h1 > h2 + g: pqn, as listed, because a gradient of each term takes about as long"
    )


def test_a_slow_first_call_is_found_out(clock):
    """As where a function is compiled at its first call."""
    h = {"slow": timed(H1, clock, 1.0), "compiled": timed(H2, clock, 1e-5, first=100.0)}
    res = gt.minimize(h, timed(G, clock, 0.01), tol=1e-4)
    assert res.success and "levels changed from compiled > slow" in str(res.history.notes)
    assert res.plan.startswith("slow > ")
    # The certificate of the method is one from where it has started, not from x0.
    assert np.isnan(res.state.state.gap_weight) and res.state.state.current.gap_weight > 0.0


def test_unknown_constants_are_replaced_by_secants(clock):
    """After the first iteration the reason is that of known constants; before it, prices alone."""
    h = [timed(H1, clock, 10.0), timed(H2, clock, 0.1)]
    res = gt.minimize(h, timed(G, clock, 1e-3), stop=NEVER, max_iter=0)
    assert res.plan.startswith("h1 > h2 > g: pqn on every level, by prices (measured")
    res = gt.minimize(h, timed(G, clock, 1e-3), tol=1e-4)
    assert res.success
    assert res.plan.startswith("h1 > h2 > g: pqn on every level, by prices and constants (meas")


def test_a_level_is_dearer_than_the_next_one(clock):
    """By constants h1 would be above the dearer h2, where its model could not pay."""
    h = [timed(H1, clock, 0.01, L=H1.L), timed(H2, clock, 0.02, L=H2.L)]
    res = gt.minimize(h, timed(G, clock, 1e-3, L=G.L), tol=1e-4)
    L, price = {"h1": H1.L, "h2": H2.L, "g": G.L}, {"h1": 0.0101, "h2": 0.0201, "g": 0.0011}
    assert gt.theory.order(L, price) == (("h1",), ("h2",), ("g",))
    assert res.success and res.plan.startswith("h2 + h1 > g: pqn, h2 + h1 merged, prices alike")


def test_known_constants_are_used_at_once(clock):
    h = [timed(H1, clock, 10.0, L=H1.L), timed(H2, clock, 0.1, L=H2.L)]
    res = gt.minimize(h, timed(G, clock, 0.001, L=G.L), tol=1e-4)
    assert res.success and not res.history.notes
    assert res.plan.startswith("h1 > h2 > g: pqn on every level, by prices and constants (meas")


def test_nothing_is_asked_twice(clock):
    """Neither where the run starts nor where the levels are changed."""
    for first in (0.0, 100.0):
        asked = [[], [], []]
        seconds = [1e-5, 1.0, 0.01] if first else [10.0, 0.1, 0.001]
        terms = [
            timed(t, clock, s, first=first if i == 0 else 0.0, seen=asked[i])
            for i, (t, s) in enumerate(zip((H2, H1, G), seconds, strict=True))
        ]
        res = gt.minimize(terms[:2], terms[2], stop=NEVER, max_iter=4)
        assert bool(first) == ("levels changed" in str(res.history.notes))
        for name, points in zip(("h1", "h2", "g"), asked, strict=True):
            assert res.calls[f"{name}.grad"] == len(points)
            assert len({p.tobytes() for p in points}) == len(points)


def test_the_run_is_that_of_the_levels_that_were_found(clock):
    """Measuring costs no call: calls and iterates are those of the same levels, given."""
    seconds = [10.0, 0.1, 0.001]
    terms = [timed(t, clock, s) for t, s in zip(KNOWN.terms, seconds, strict=True)]
    levels, price = (("h1",), ("h2",), ("g",)), [s + 1e-4 for s in seconds]
    rho = (price[0] / price[1], price[1] / price[2])
    given = LearnedTrain(levels, nested(rho))
    one = gt.minimize(terms[:2], terms[2], method=given, stop=NEVER, max_iter=3)
    two = gt.minimize(terms[:2], terms[2], stop=NEVER, max_iter=3)
    assert isinstance(two.state.method, gt.methods.Planned)
    assert two.state.state.plan.levels == levels
    assert dict(one.calls) == dict(two.calls)
    np.testing.assert_allclose(one.x, two.x, rtol=1e-6)


@pytest.mark.parametrize(("done", "first"), [(0, 0.0), (1, 100.0), (2, 100.0)])
def test_a_resumed_run_is_the_uninterrupted_one(clock, tmp_path, done, first):
    path = tmp_path / "run.gtck"

    def terms():
        h = [timed(H1, clock, 0.01, first), timed(H2, clock, 1.0)]
        return h, timed(G, clock, 1e-5)

    whole = gt.minimize(*terms(), stop=NEVER, max_iter=4)
    gt.minimize(*terms(), stop=NEVER, max_iter=done, checkpoint=path)
    same(whole, gt.resume(path, *terms(), max_iter=4 - done, check=False))


def test_another_inner_product(clock):
    h = [timed(H1, clock, 10.0), timed(H2, clock, 0.1)]
    space = gt.geometry.Diagonal(np.linspace(1.0, 2.0, 24))
    res = gt.minimize(h, timed(G, clock, 1e-3), geometry=space, tol=1e-5)
    assert res.success and res.plan.startswith("h1 > h2 > g")
