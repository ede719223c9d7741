"""Any inner method serves any outer one, a new one written in this file included."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import geartrain as gt
from finite_sums import by_components, linear, model
from geartrain.core.checkpoint import CheckpointError
from geartrain.methods.base import InnerMethod, as_inner
from geartrain.methods.registry import INNER, METHODS
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.oracles.protocols import MissingOracle
from geartrain.problem import Model
from models_with_psi import N, data
from runs import sums

WITH_INNER = ("sae", "r-sae", "sc-sae", "afb", "aeg", "gmco", "pqn", "ms", "catalyst")
# Inner methods that take a prox of g, or proximal steps of single losses: f itself has none.
OF_G_ALONE = ("exact", "spdc", "apcg")


@dataclass(frozen=True)
class BarzilaiBorweinState:
    """State of `BarzilaiBorwein`."""

    v: np.ndarray
    grad_g: np.ndarray
    length: float  # of the next step
    steps: int = 0  # in this run and the ones before


@dataclass(frozen=True)
class BarzilaiBorwein:
    """v_+ = v - t grad phi(v), t = <s, s>/<s, y>; the length outlives the run."""

    longest: float = 10.0
    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True

    def init(self, phi, v0, grad_g0, warm=None):
        grad_g = phi.g.grad(v0) if grad_g0 is None else grad_g0
        if warm is None:
            return BarzilaiBorweinState(v0, grad_g, 1.0 / (phi.alpha + (phi.L_g or 1.0)))
        return BarzilaiBorweinState(v0, grad_g, warm.length, warm.steps)

    def step(self, phi, state):
        slope = phi.grad(state.v, state.grad_g)
        v = state.v - state.length * slope
        grad_g = phi.g.grad(v)
        s, y = v - state.v, phi.grad(v, grad_g) - slope
        bent = float(phi.geometry.dot(s, y))
        length = float(phi.geometry.dot(s, s)) / bent if bent > 0.0 else state.length
        return BarzilaiBorweinState(v, grad_g, min(length, self.longest), state.steps + 1)

    def limit(self, phi):
        return 10_000


def gap(h, g, x):
    """Relative gradient."""
    f = h + g
    return np.linalg.norm(f.grad(x)) / np.linalg.norm(f.grad(np.zeros(8)))


def turns():
    """Every inner method with three of the outer ones in turn, each of which has five and more."""
    for i, inner in enumerate([*INNER, BarzilaiBorwein()]):
        for shift in (0, 2, 5):
            yield WITH_INNER[(i + shift) % len(WITH_INNER)], inner


@pytest.mark.parametrize(("method", "inner"), list(turns()))
def test_any_inner_method_serves_any_outer_one(method, inner):
    h, g = sums()
    if inner == "exact":
        g = gt.Quadratic(np.diag(np.linspace(1.0, 9.0, 8)))
    h = gt.LinearModel(g.A, g.y, l2=0.01) if hasattr(g, "A") else h  # as many summands as g
    stop = gt.stop.any_of(gt.stop.Gradient(rel=1e-2), gt.stop.Calls({"h.grad": 3000}))
    if method in ("ms", "catalyst") and inner in OF_G_ALONE:
        with pytest.raises(TypeError, match=r"asks f = h \+ g for|needs a g that is"):
            gt.minimize(h, g, method=method, inner=inner, stop=stop)
        return
    made = INNER[inner]() if isinstance(inner, str) else inner
    if method == "pqn" and tuple(made.needs) != ("grad",):
        with pytest.raises(TypeError, match=r"ProximalQuasiNewton asks g for gradients alone"):
            gt.minimize(h, g, method=method, inner=inner, stop=stop)
        return
    res = gt.minimize(h, g, method=method, inner=inner, stop=stop, max_iter=2000)
    assert res.success or inner in ("directional", "coordinate-differences"), res.message
    assert gap(h, g, res.x) <= (1e-2 if res.success else 0.1) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("method", "inner", "psi"),
    [
        ("sae", "approx", gt.L1(np.linspace(0.0, 0.2, N))),
        ("afb", "apcg", gt.L1(0.04)),
        ("sae", "katyusha", gt.L1(0.02)),
        ("afb", "l-katyusha", gt.Box(-0.3, 0.7)),
        ("afb", "varag", gt.GroupL1(2, 0.03)),
    ],
)
def test_randomised_inner_methods_take_psi(method, inner, psi):
    g, h = gt.LinearModel(*data()), gt.Quadratic(0.1 * np.eye(N), 0.05 * np.ones(N))
    res = gt.minimize(h, g + psi, method=method, inner=inner, tol=1e-6)
    want = gt.minimize(h, g + psi, method="fgm", tol=1e-9)
    assert res.success and res.calls["g.component"] + res.calls["g.coord"] > 0 < res.calls["g.prox"]
    np.testing.assert_allclose(res.x, want.x, atol=1e-4)
    np.testing.assert_array_equal(res.x == 0.0, want.x == 0.0)


def test_an_inner_method_that_would_be_ignored_is_refused():
    h, g = sums()
    for method in set(METHODS) - set(WITH_INNER):
        for inner in ("agm", gt.inner.AGM(), BarzilaiBorwein()):
            with pytest.raises(TypeError, match=f"method '{method}' has no inner method"):
                gt.minimize(h, g, method=method, inner=inner)


def test_an_inner_method_is_used_where_it_is_given():
    h, g = sums()
    for method in WITH_INNER:
        res = gt.minimize(h, g, method=method, inner=BarzilaiBorwein(), max_iter=2)
        made = getattr(res.state.method, "method", res.state.method)
        assert made.inner == BarzilaiBorwein()


def test_a_new_inner_method_by_name(monkeypatch):
    monkeypatch.setitem(INNER, "bb", BarzilaiBorwein)
    assert isinstance(as_inner(BarzilaiBorwein()), InnerMethod)
    h, g = sums()
    by_name = gt.minimize(h, g, method="afb", inner="bb", tol=1e-6)
    as_object = gt.minimize(h, g, method="afb", inner=BarzilaiBorwein(), tol=1e-6)
    assert by_name.success and by_name.calls == as_object.calls
    np.testing.assert_array_equal(by_name.x, as_object.x)


def arrays(state):
    """All arrays of a state, those of its parts included."""
    if isinstance(state, np.ndarray):
        return [state]
    parts = vars(state).values() if is_dataclass(state) else state
    return [a for part in parts if part is not None and not np.isscalar(part) for a in arrays(part)]


@pytest.mark.parametrize("form", ["dense", "csr", "components"])
@pytest.mark.parametrize("name", sorted(set(INNER) - {"exact"}))
def test_steps_are_pure_and_follow_the_key(name, form):
    """With an intercept and a ridge; the state of the fourth chunk is not changed by the next."""
    term = linear("csr" if form == "csr" else "dense", intercept=True, l2=0.01)
    if form == "components":
        if INNER[name]().needs != ("component",) or name in OF_G_ALONE:
            return
        term = by_components(term)
    method, key = INNER[name](), (0, 3)
    phi, other = (model(term, key=k) for k in (key, (1, 3)))
    phi, other = (replace(m, L_g=linear().L) for m in (phi, other))
    state = method.init(phi, np.ones(term.n), None)
    for _ in range(3):
        state = method.step(phi, state)
    kept, copies = arrays(state), [a.copy() for a in arrays(state)]
    once, twice = method.step(phi, state), method.step(phi, state)
    for a, b in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(once.v, twice.v)
    np.testing.assert_array_equal(once.grad_g, twice.grad_g)
    if method.needs != ("grad",):
        assert not np.array_equal(once.v, method.step(other, state).v)


def test_a_warm_start_is_the_end_of_the_last_run():
    g, problem_states = sums()[1], []
    phi = Model(Oracle(g, "g", Ledger(), 8), np.zeros(8), 0.5, g.L)

    class Watched(BarzilaiBorwein):
        def init(self, phi, v0, grad_g0, warm=None):
            problem_states.append(warm)
            return super().init(phi, v0, grad_g0, warm)

    solve = gt.methods.solve_model
    run = solve(Watched(), phi, np.ones(8), lambda v, _, slope: np.linalg.norm(slope) < 1e-3)
    again = solve(Watched(), phi, run.v, lambda *_: False, warm=run.state, calls=3)
    assert problem_states[0] is None and problem_states[1] is run.state
    assert again.state.steps == run.state.steps + again.steps and again.steps >= 1


def test_a_run_with_an_inner_method_of_the_users_own_is_not_saved(tmp_path):
    h, g = sums()
    with pytest.raises(CheckpointError, match=r"this run cannot be saved: .*BarzilaiBorwein"):
        gt.minimize(h, g, method="sae", inner=BarzilaiBorwein(), checkpoint=tmp_path / "a")
    res = gt.minimize(h, g, method="sae", inner=BarzilaiBorwein(), max_iter=2)
    assert gt.minimize(h, g, state=res.state, max_iter=1).nit == 3  # in memory it goes on


def test_components_need_equal_numbers_of_summands():
    h, g = sums()  # h is no sum
    with pytest.raises(MissingOracle, match="MonteiroSvaiterWhole with Katyusha inside asks h for"):
        gt.minimize(h, g, method="ms", inner="katyusha")
