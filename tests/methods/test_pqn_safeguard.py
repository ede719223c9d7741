"""pqn with models that are worth nothing: the rate of the theorem holds all the same."""

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.pqn.certificate import CutCertificate
from geartrain.methods.pqn.low_rank import LowRank
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.pqn.models import Models
from geartrain.methods.pqn.safeguard import _FREE, Safeguard
from geartrain.problem import norm
from problems import Known, logistic, quadratics


def chain(n=120, stiff=0.0, scaled=False):
    """Nesterov's chain as h, for which gradients tell one further coordinate each.

    g is small, or stiff in one coordinate with its minimiser far away; it may tell its curvatures
    along coordinates, by which the method scales the variables.
    """
    T = 2.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    b = np.zeros(n)
    b[0] = 1.0
    d, c = 1e-6 * np.arange(1.0, n + 1.0), np.zeros(n)
    if stiff:
        d[-1], c[-1] = stiff, 1e3 * stiff
    h = gt.Quadratic(T / 4.0, b=b / 4.0)
    g = gt.Term(
        lambda x: (0.5 * float(d @ x**2) - float(c @ x), d * x - c),
        coord=lambda x, i: d[i] * x[i] - c[i],
        n=n,
        L=d.max(),
        L_coord=d if scaled else None,
        convex=True,
    )
    return Known(h, g, np.linalg.solve(h.Q + np.diag(d), b / 4.0 + c), d.min())


def non_convex():
    """h with eigenvalues in [-1, 1], and f = h + g convex."""
    rng = np.random.default_rng(3)
    U = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    H = (U * np.linspace(-1.0, 1.0, 40)) @ U.T
    G = (U * np.maximum(np.linspace(1.001, -1.0, 40), 1e-3)) @ U.T
    x_star = rng.standard_normal(40)
    h, g = gt.Quadratic((H + H.T) / 2, b=(H + G) @ x_star), gt.Quadratic((G + G.T) / 2)
    assert not h.convex
    return Known(h, g, x_star, 1e-3)


CASES = {
    "chain": chain,
    "stiff 1e6": lambda: chain(stiff=1e6),
    "scaled": lambda: chain(stiff=1e4, scaled=True),
    "quadratic": quadratics,
    "logistic": logistic,
    "non-convex": non_convex,
}


def constant(size):
    """All models are size times the identity."""

    def spoil(monkeypatch):
        monkeypatch.setattr(Models, "__getitem__", lambda self, name: LowRank(size))

    return spoil


def random(monkeypatch):
    """All models are those of other pairs: the small matrix is a random one of the same size."""
    rng = np.random.default_rng(1)
    make = Models._make

    def other(self, name):
        B = make(self, name)
        if B.basis is None:
            return B
        W = rng.standard_normal(B.T.shape)
        scale = max(np.abs(B.T).max(), 1e-3) * 10.0 ** rng.uniform(-3, 3)
        return LowRank(B.lam, B.basis, scale * W @ W.T / len(W), B.geometry)

    monkeypatch.setattr(Models, "_make", other)


def flipped(monkeypatch):
    """Every trial point lies in the opposite direction."""
    propose = ProximalQuasiNewton._propose

    def turned(self, terms, state, size):
        state, models, trial = propose(self, terms, state, size)
        return state, models, replace(trial, v=2.0 * state.at.v - trial.v, known_g=None)

    monkeypatch.setattr(ProximalQuasiNewton, "_propose", turned)


SPOILERS = {
    "intact": lambda monkeypatch: None,
    "tiny": constant(1e-3),
    "huge": constant(1e3),
    "random": random,
    "flipped": flipped,
}


def accuracy(known, x0):
    """An eps for which the theorem allows 258 calls of a convex h besides the constant."""
    return 4e-4 * known.h.L * norm(x0 - known.x_star) ** 2


def run(problem, f, gap, x0, most=450, rho=math.inf):
    """The states until f - f* <= gap, and the calls of h at each."""
    method = ProximalQuasiNewton(rho=rho)
    out = [(method.init(problem, x0), 1)]
    while f(out[-1][0].point) > gap and out[-1][1] < most:
        state = method.step(problem, out[-1][0])
        out.append((state, problem.ledger.calls["h.grad"]))
        if state.stalled:
            break
    return out


def violations(f, L_h, R, states):
    """What of the theorem fails along a run; f is f - f*."""
    found = []
    s = states[0][0].safeguard.slope
    assert s == pytest.approx(0.137 if states[0][0].convex else 0.097, rel=1e-2)
    for (old, _), (new, N) in itertools.pairwise(states):
        gap, guard = f(new.point), new.safeguard
        # two for each failure, and what an iteration may ask before the next look
        K = _FREE + 2 * guard.failures + 4
        if guard.calls != N:
            found.append("the safeguard does not count the calls")
        if f(new.point) > f(old.point) * (1.0 + 1e-9) + 1e-10 * max(f(states[0][0].point), 1.0):
            found.append("f increases")
        if 2.0 * new.A * gap > R**2 * (1.0 + 1e-9) + 1e-10 * new.A * max(f(states[0][0].point), 1):
            found.append("the certificate is wrong")
        if math.sqrt(new.A) < s * (N - K) / math.sqrt(L_h) * (1.0 - 1e-9):
            found.append("the certificate grows too slowly")
    secants = [state.safeguard.L_seen for state, _ in states if state.safeguard.L_seen > 0.0]
    if max(secants, default=0.0) > L_h * (1.0 + 1e-9):
        found.append("a secant of h exceeds L_h")
    if states[-1][0].safeguard.failures > 2 + math.log(L_h / min(secants, default=L_h), 1.5):
        found.append("too many failures")
    return found


@pytest.mark.parametrize(
    ("case", "spoil"),
    [
        *(("stiff 1e6", spoil) for spoil in SPOILERS),
        ("chain", "flipped"),
        ("scaled", "random"),
        ("quadratic", "tiny"),
        ("logistic", "huge"),
        ("non-convex", "random"),
        ("non-convex", "flipped"),
    ],
)
def test_the_rate_holds_for_any_models(case, spoil, monkeypatch):
    SPOILERS[spoil](monkeypatch)
    known = CASES[case]()
    x0 = np.zeros(known.x_star.size)

    def f(x):
        return known.f(x) - known.f_star

    gap = accuracy(known, x0)
    states = run(known.sum(), f, gap, x0)
    assert violations(f, known.h.L, norm(x0 - known.x_star), states) == []
    assert f(states[-1][0].point) <= gap


PSIS = {"box": gt.Box(-1.0, 30.0), "l1": gt.L1(1e-3), "simplex": gt.Simplex(500.0)}


@cache
def solved(psi, stiff):
    """A short chain, and an accurate run with intact models."""
    known = chain(n=40, stiff=stiff)
    best = gt.minimize(known.h, known.g + PSIS[psi], method="pqn", tol=1e-10, max_iter=3000)
    return known, best


@pytest.mark.parametrize(
    ("spoil", "psi", "stiff"),
    [
        ("intact", "box", 1e4),
        ("tiny", "box", 1e4),
        ("huge", "l1", 0.0),
        ("random", "simplex", 1e4),
        ("huge", "simplex", 1e4),
    ],
)
def test_the_rate_holds_with_psi(spoil, psi, stiff, monkeypatch):
    """f* is that of the accurate run up to what its gradient proves."""
    known, best = solved(psi, stiff)
    psi = PSIS[psi]
    x0 = psi.prox(np.zeros(40), 1.0)
    mu, r = 1e-6, best.grad_norm
    slack = r**2 / (2.0 * mu)  # f(x) - f* for an f that is mu-strongly convex
    assert slack <= 1e-6
    SPOILERS[spoil](monkeypatch)
    problem = known.sum(psi=psi)

    def f(x):
        return known.f(x) + psi.value(x) - best.fun + slack

    R = norm(x0 - best.x) + r / mu
    gap = 4e-4 * known.h.L * R**2
    states = run(problem, f, gap, x0)
    assert [v for v in violations(f, known.h.L, R, states) if v != "f increases"] == []
    assert f(states[-1][0].point) <= gap


def test_with_prices_proven_steps_cost_a_quarter_of_the_calls_of_h(monkeypatch):
    constant(1e3)(monkeypatch)
    rho = 3.0
    known = logistic()
    x0 = np.zeros(known.x_star.size)
    f = lambda x: known.f(x) - known.f_star  # noqa: E731
    states = run(known.sum(), f, accuracy(known, x0), x0, most=600, rho=rho)
    for (old, _), (new, _) in itertools.pairwise(states):
        if new.safeguard.paid > old.safeguard.paid:
            before, after = old.safeguard, new.safeguard
            assert after.run == after.paid - before.paid
            assert before.paid + before.run <= 0.25 * rho * after.calls


PLANTED = {
    "the certificate is wrong": lambda m: m.setattr(
        CutCertificate, "lowered", lambda self, drop, geometry: replace(self, A=2.0 * self.A)
    ),
    "the certificate grows too slowly": lambda m: m.setattr(
        Safeguard, "is_due", lambda self, A, rho: False
    ),
    "the safeguard does not count the calls": lambda m: m.setattr(
        Safeguard, "called", lambda self, calls, secant=0.0: self
    ),
}


@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_found(error, monkeypatch):
    flipped(monkeypatch)
    PLANTED[error](monkeypatch)
    known = chain()
    x0 = np.zeros(120)
    states = run(known.sum(), lambda x: known.f(x) - known.f_star, 1e-9, x0, most=150)
    found = violations(lambda x: known.f(x) - known.f_star, known.h.L, norm(known.x_star), states)
    assert error in found


def proven(known, x0, steps):
    """The safeguard after proven steps alone, with L = sharp L_h."""
    method, problem = ProximalQuasiNewton(), known.sum()
    state = method.init(problem, x0)
    sharp = state.safeguard.sharp
    guard = replace(state.safeguard, L=sharp * known.h.L, L_seen=known.h.L, credit=-(10**6))
    state = replace(state, safeguard=guard)
    for _ in range(steps):
        old, state = state, method.step(problem, state)
        L, a, _ = old.safeguard.start(old.certificate, old.at.v)
        if state.safeguard.failures == 0:
            assert L == guard.L and (old.A + a) * (1.0 - 1e-6) <= state.A
    return state.safeguard


@pytest.mark.parametrize("case", CASES)
def test_a_proven_step_passes_where_L_is_large_enough(case):
    known = CASES[case]()
    guard = proven(known, np.zeros(known.x_star.size), 20)
    assert (guard.steps, guard.failures) == (20, 0)
    assert guard.calls == 41


def test_a_wrong_sign_in_the_proven_step_is_found(monkeypatch):
    """z = x_0 + G instead of x_0 - G."""
    monkeypatch.setattr(CutCertificate, "z", property(lambda self: self.x0 + self.G))
    assert proven(chain(), np.zeros(120), 20).failures > 0


@pytest.mark.parametrize("L", [1e-250, 1e-3, 1.0, 1e250])
def test_the_first_proven_step_is_right_in_any_unit_of_f(L):
    """L a^2 = A + a, where L^2 and 1/L^2 may leave the range of floats."""
    for A in (0.0, 1e-3 / L, 1e3 / L):
        certificate = CutCertificate(np.zeros(2), np.zeros(2), A)
        used, a, x = Safeguard(True, L=L).start(certificate, np.ones(2))
        assert used == L and L * a == pytest.approx((A + a) / a) and np.isfinite(x).all()


def test_the_value_of_a_rejected_point_is_in_its_cut():
    """f(w) - f(y) is part of c: two cuts of one quadratic bound it from below at any point."""
    f = gt.Quadratic(np.diag([1.0, 4.0, 9.0]))
    x0, w = np.array([3.0, 2.0, -1.0]), np.array([0.2, 0.1, -0.3])
    y = 0.1 * w
    empty = CutCertificate(x0, np.zeros(3))
    above = f.value(w) - f.value(y)
    with_value = empty.with_cut(w, f.grad(w), above, EUCLIDEAN)
    a = with_value.A
    assert a > 0.0
    assert with_value.c == pytest.approx(a * (above + f.grad(w) @ (x0 - w)), rel=1e-12)
    assert with_value.A >= empty.with_cut(w, f.grad(w), 0.0, EUCLIDEAN).A
    np.testing.assert_allclose(with_value.G, a * f.grad(w), rtol=1e-12)
    # the bound is tight for one cut: A = 2 c/|u|^2
    assert a == pytest.approx(2.0 * (above + f.grad(w) @ (x0 - w)) / (f.grad(w) @ f.grad(w)))


def test_a_rejected_trial_point_enters_the_certificate_with_its_value(monkeypatch):
    """`with_cut` is told f(v) - f(p) of a rejected point, less rounding."""
    seen = []
    cut = CutCertificate.with_cut

    def recorded(self, w, grad, above, geometry):
        seen.append((w, above))
        return cut(self, w, grad, above, geometry)

    monkeypatch.setattr(CutCertificate, "with_cut", recorded)
    constant(1e-3)(monkeypatch)
    known = logistic()
    problem, method = known.sum(), ProximalQuasiNewton()
    state = method.init(problem, 5.0 * np.ones(10))
    for _ in range(3):
        before, seen[:] = state, []
        state = method.step(problem, state)
        for w, above in seen:
            rise = known.f(w) - known.f(before.point)
            if above > 0.0:
                assert above == pytest.approx(rise, rel=1e-9, abs=1e-12)
            else:  # it was accepted, or is not above by more than rounding
                assert above == 0.0 or rise <= 1e-12
        assert any(above > 0.0 for _, above in seen) or state.accepted
