"""Methods on f = h + g + psi: inequalities of their proofs, exact counts, stopping, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import geartrain as gt
from composite import PSIS, N, bare, case, states, violations
from geartrain.methods.registry import INNER, METHODS
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.oracles.splitting import Psi
from geartrain.problem import Model
from geartrain_lab.laws.composite import KINDS, WITH_INNER, calls_with_psi, planted
from geartrain_lab.laws.law import exponent
from runs import same

PROVEN = {"sae": gt.SAE, "sc-sae": gt.methods.SCSAE, "afb": gt.methods.AFB}
TAKES_PSI = ["sae", "r-sae", "sc-sae", "afb", "gmco", "fgm", "ags"]


# The proofs --------------------------------------------------------------------------------------


ONCE = [("sae", "box"), ("sc-sae", "simplex"), ("afb", "groups"), ("afb", "ball")]


@pytest.mark.parametrize(
    ("name", "kind", "residuals"),
    [*((n, "l1", r) for n in PROVEN for r in (True, False)), *((*pair, True) for pair in ONCE)],
)
def test_inequalities_of_the_proofs(name, kind, residuals):
    assert violations(name, case(kind, residuals), PROVEN[name]()) == []


@pytest.mark.parametrize("kind", ["l1", "simplex"])
def test_fista_bound(kind):
    """f(x_k) - f* <= 2 L R^2/(k + 1)^2 (Beck and Teboulle, Theorem 4.4)."""
    p = case(kind)
    R2 = np.sum((p.x0 - p.x_star) ** 2)
    L = p.h.L + p.g.L
    for k, state in enumerate(states(gt.methods.FGM(mu=0.0), p.sum(), p.x0, 60)):
        if k > 0:
            assert p.f(state.x) - p.f_star <= 2 * L * R2 / (k + 1) ** 2
            w = state.grad_psi
            assert p.in_dpsi(w, state.x) <= 1e-9 * (1 + np.linalg.norm(w))
            slope = p.psi.residual(state.x, p.grad(state.x))
            assert np.linalg.norm(slope) <= state.grad_bound * (1 + 1e-9)


def test_ags_bound():
    p = case("box")
    R2 = np.sum((p.x0 - p.x_star) ** 2)
    for k, state in enumerate(states(gt.methods.AGS(mu=0.0), p.sum(), p.x0, 30)):
        if k > 0:
            assert p.f(state.point) - p.f_star <= 15 * p.h.L * R2 / (k * (k + 1))


def test_gmco_contracts():
    """Theorem 2 with L = 0 and nearly exact inner runs."""
    p = case("ball")
    run = states(gt.methods.GMCO(accuracy=1e-6), p.sum(), p.x0, 8)
    gaps = [p.f(s.point) - p.f_star for s in run]
    for k, gap in enumerate(gaps):
        assert gap <= math.exp(-k * p.mu / (4 * p.h.L)) * gaps[0] + 1e-12
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(gaps))


# The inner method -------------------------------------------------------------------------------


def model(p, ledger):
    rng = np.random.default_rng(3)
    psi = Psi(p.term, 1.0, "g", ledger, N)
    g = Oracle(p.g, "g", ledger, N)
    return Model(g, rng.standard_normal(N), 0.7, L_g=p.g.L, mu_g=p.g.mu, psi=psi)


@pytest.mark.parametrize("kind", ["l1", "simplex"])
def test_inner_agm_against_its_box(kind):
    """A literal transcription: the same points, and r is in the subdifferential of phi."""
    p, ledger = case(kind), Ledger()
    phi, method = model(p, ledger), gt.inner.AGM()
    M = p.g.L + phi.alpha
    q = (phi.alpha + phi.mu_g) / M
    y, before, theta = p.x0, p.x0, 1.0
    state = method.init(phi, p.x0, None)
    for k in range(1, 30):
        v = p.psi.prox((p.g.L * y - p.g.grad(y) - phi.beta) / M, M)
        np.testing.assert_allclose(state.v, v, atol=1e-10)
        assert ledger.calls["g.grad"] == ledger.calls["g.prox"] == k
        settled = method.settle(phi, state)
        r = p.g.grad(v) - p.g.grad(y) + p.g.L * (y - v)
        smooth = phi.beta + phi.alpha * v + p.g.grad(v)
        np.testing.assert_allclose(smooth + settled.grad_psi, r, atol=1e-8)
        assert p.in_dpsi(settled.grad_psi, v) <= 1e-9 * (1 + np.linalg.norm(settled.grad_psi))
        assert np.linalg.norm(r) <= p.g.L * np.linalg.norm(y - v) * (1 + 1e-9)
        after = (q - theta**2 + math.sqrt((q - theta**2) ** 2 + 4 * theta**2)) / 2
        y = v + theta * (1 - theta) / (theta**2 + after) * (v - before)
        before, theta = v, after
        ledger.calls["g.grad"] -= 1  # of `settle`
        state = method.step(phi, state)


def test_the_gradient_at_the_end_is_asked_for_where_it_is_likely_to_do():
    """One more gradient than proximal steps where the guess was right, and no more than a few."""
    p = case("l1")
    for accuracy in (1e-1, 1e-3, 1e-6):
        ledger = Ledger()
        phi = model(p, ledger)
        size = np.linalg.norm(phi.beta)

        def accept(v, grad_g, grad_phi, size=size, accuracy=accuracy):
            return np.linalg.norm(grad_phi) <= accuracy * size

        run = gt.methods.solve_model(gt.inner.AGM(), phi, p.x0, accept)
        assert run.accepted and not run.state.guessed
        least = p.psi.residual(run.v, phi.beta + phi.alpha * run.v + p.g.grad(run.v))
        assert run.residual == pytest.approx(np.linalg.norm(least), rel=1e-9, abs=1e-14)
        assert run.residual <= accuracy * size
        assert ledger.calls["g.prox"] == run.steps + 1
        assert 1 <= ledger.calls["g.grad"] - ledger.calls["g.prox"] <= 5


# Counts, stopping, results -----------------------------------------------------------------------


RUNS = [(m, True) for m in TAKES_PSI] + [("sae", False), ("fgm", False)]
RUNS = [(*run, kind) for run, kind in zip(RUNS, itertools.cycle(PSIS))]


@pytest.mark.parametrize(("method", "residuals", "kind"), RUNS)
def test_runs_end_at_the_solution(method, kind, residuals):
    p = case(kind, residuals)
    res = gt.minimize(p.h, p.g + p.term, p.x0, method=method, tol=1e-6)
    assert res.success, res
    np.testing.assert_allclose(res.x, p.x_star, atol=1e-4)
    assert res.fun == pytest.approx(p.f(res.x), rel=1e-12)
    least = np.linalg.norm(p.psi.residual(res.x, p.grad(res.x)))
    first = np.linalg.norm(p.psi.residual(p.x0, p.grad(p.x0)))
    assert least <= res.grad_norm * (1 + 1e-9) + 1e-12
    assert res.grad_norm <= 1e-6 * first * (1 + 1e-5)
    if residuals:
        assert res.grad_norm == pytest.approx(least, rel=1e-5, abs=1e-12)
    assert float(res.certificate) >= p.f(res.x) - p.f_star - 1e-14


def test_zeros_are_exact():
    p = case("l1")
    res = gt.minimize(p.h, p.g + p.psi, method="afb", tol=1e-9)
    assert 0 < np.count_nonzero(res.x == 0.0) < N
    np.testing.assert_array_equal(res.x == 0.0, p.x_star == 0.0)


def test_exact_counts():
    p = case("l1")
    f = p.g + p.psi
    never = gt.stop.Gradient(rel=1e-300)
    run = {m: gt.minimize(p.h, f, p.x0, method=m, max_iter=10, stop=never) for m in TAKES_PSI}
    calls = {m: res.calls for m, res in run.items()}
    assert calls["fgm"]["h.grad"] == calls["fgm"]["g.grad"] == 11
    assert calls["fgm"]["g.prox"] == 10
    assert calls["afb"]["h.grad"] == 10  # the first iteration knows its gradients
    T = math.ceil(math.sqrt(p.g.L / p.h.L))
    asked = calls["ags"]["h.grad"] - 10  # by the rule, at the points it looks at
    assert calls["ags"]["g.grad"] == 10 * T + asked and calls["ags"]["g.prox"] == 10 * T
    assert calls["gmco"]["h.grad"] == 11
    for method in ("sae", "sc-sae", "afb", "gmco"):  # 10 middle steps or more
        extra = calls[method]["g.grad"] - calls[method]["g.prox"]
        assert 0 < extra < 0.2 * calls[method]["g.prox"] + 40


@pytest.mark.parametrize("c", [0.0, 0.7])
def test_a_spherical_g_is_solved_exactly(c):
    """One proximal step per model and no gradient of g, which need not be there at all."""
    p, rng = case("l1"), np.random.default_rng(1)
    b = 0.1 * rng.standard_normal(N)
    g = gt.Quadratic(c * np.eye(N), b) + p.psi if c else p.psi
    res = gt.minimize(p.h, g, method="afb", tol=1e-8)
    assert res.success and res.calls["g.prox"] == res.nit
    assert res.calls["g.grad"] == (0 if c == 0.0 else res.calls["h.grad"] - res.nit + 1)
    d = p.h.grad(res.x) + (c * res.x - b if c else 0.0)
    assert np.linalg.norm(p.psi.residual(res.x, d)) <= 1e-8 * np.linalg.norm(
        p.psi.residual(np.zeros(N), p.h.grad(np.zeros(N)) - (b if c else 0.0))
    ) * (1 + 1e-6)


def test_a_bounded_set_certifies_without_a_distance():
    """The Frank-Wolfe gap, where neither mu nor R is known."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 6))
    h = gt.LinearModel(A, np.sign(A[:, 0] + 0.1))
    g = gt.LinearModel(rng.standard_normal((5, 6)), rng.standard_normal(5), loss="squared")
    for psi in (gt.Box(-0.1, 0.2), gt.Simplex(), gt.Ball(0.3)):
        rough = gt.minimize(h, g + psi, method="sae", tol=1e-2)
        fine = gt.minimize(h, g + psi, method="sae", tol=1e-9)
        assert rough.certificate.assumption == f"f convex, x* in the domain of {psi!r}"
        assert rough.fun - fine.fun <= rough.certificate.bound <= 0.1
        assert fine.certificate.bound <= 1e-6
    assert gt.minimize(h, g + gt.TotalVariation(0.01), method="sae", tol=1e-2).certificate is None


def test_infeasible_starting_points_are_projected_with_a_note():
    p = case("box")
    res = gt.minimize(p.h, p.g + p.psi, np.full(N, 3.0), method="afb")
    assert res.success and res.calls["g.prox"] > 0
    k, note = res.history.notes[0]
    assert k == 0 and "outside of the domain of Box" in note and "prox(x0, 1)" in note
    fine = gt.minimize(p.h, p.g + p.psi, p.x0, method="afb")
    assert not any("outside" in note for _, note in fine.history.notes)
    start = gt.minimize(p.h, gt.Simplex() + p.g, method="sae")  # zero is not in the simplex
    assert start.success and "outside" in start.history.notes[0][1]


def test_a_run_is_resumed_to_the_last_bit(tmp_path):
    p = case("l1")
    f = p.g + p.psi
    for method in ("sae", "fgm"):
        whole = gt.minimize(p.h, f, method=method, tol=1e-2)
        part = gt.minimize(p.h, f, method=method, tol=1e-2, max_iter=3, checkpoint=tmp_path / "c")
        assert whole.success and not part.success
        same(gt.resume(tmp_path / "c", p.h, f, max_iter=10**5), whole)
    with pytest.raises(gt.core.checkpoint.CheckpointError, match="another problem"):
        gt.resume(tmp_path / "c", p.h, p.g + gt.L1(0.06))


# What is refused ---------------------------------------------------------------------------------


def _is_made_for(p, method):
    try:
        gt.minimize(p.h, p.g + p.psi, method=method, max_iter=1)
    except TypeError:
        return False
    return True


def test_methods_without_a_proof_say_what_to_take():
    p = case("l1")
    known = {m for m in METHODS if _is_made_for(p, m)}
    refused = set(METHODS) - known
    assert {"aeg", "acd", "catalyst", "ms", "katyusha", "similar-newton"} <= refused
    sentence = r"is not made for a non-smooth term, here L1\(lam=0.05\); choose method=(.*)"
    for method in refused:
        with pytest.raises(TypeError, match=sentence) as caught:
            gt.minimize(p.h, p.g + p.psi, method=method, max_iter=1)
        assert {m for m in METHODS if f"'{m}'" in str(caught.value)} == known
    assert set(TAKES_PSI) <= known
    for inner in ("lbfgs", "acd", "nesterov-stich", "rpdg", "spdc"):
        with pytest.raises(TypeError, match=r"is not made for a non-smooth .*choose inner='agm'"):
            gt.minimize(p.h, p.g + p.psi, method="sae", inner=inner)
    assert set(INNER) >= {"agm", "exact"}


def test_where_a_nonsmooth_term_cannot_be():
    p = case("l1")
    with pytest.raises(ValueError, match=r"h has the non-smooth term L1.*add it to g"):
        gt.minimize(p.h + p.psi, p.g)
    with pytest.raises(ValueError, match="is Euclidean, so it cannot be used in"):
        gt.minimize(p.h, p.g + p.psi, geometry=gt.geometry.Diagonal(np.full(N, 2.0)))
    with pytest.raises(TypeError, match=r"AGS ends at a point that is no proximal step"):
        gt.minimize(p.h, p.g + bare(p.psi), method="ags")
    with pytest.raises(TypeError, match=r"Exact solves models with L1.* only where g is c/2"):
        gt.minimize(p.h, p.g + p.psi, method="sae", inner="exact")
    with pytest.raises(ValueError, match="has dimension 3, but x has 12"):
        Psi(gt.L1(np.ones(3)), 1.0, "g", Ledger(), N)


def test_user_terms_with_a_proximal_operator_alone():
    """Neither values nor residuals: stopping is by the subgradients of the proximal steps."""
    p = case("l1")
    soft = gt.Term(prox=p.psi.prox)
    res = gt.minimize(p.h, soft, np.zeros(N), method="afb", inner="exact", tol=1e-8)
    assert res.success and math.isnan(res.fun)
    want = gt.minimize(p.h, p.psi, method="afb", tol=1e-8)
    np.testing.assert_allclose(res.x, want.x, atol=1e-7)


# The law -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_planted_point_is_the_solution(kind):
    """0 is a subgradient of f there, and half of the coordinates are at a kink."""
    h, g, psi, x = planted(kind, 100.0, n=30)
    assert np.linalg.norm(psi.residual(x, h.grad(x) + g.grad(x))) <= 1e-12
    assert np.count_nonzero((x == 0.0) | (np.abs(x) == 1.0)) >= 15
    assert pytest.approx(1.0) == h.L and pytest.approx(100.0) == g.L


def test_exponents_in_L_g():
    levels = (1e1, 1e3)
    for method in (*WITH_INNER, "fgm"):
        calls = [calls_with_psi(method, psi="l1", L_g=L_g, seed=0, n=40) for L_g in levels]
        of_h, of_g = (exponent(levels, of) for of in zip(*calls, strict=True))
        if method == "fgm":
            assert of_h >= 0.3
        else:
            assert of_h <= 0.1 and 0.38 <= of_g <= 0.62, (method, of_h, of_g)
