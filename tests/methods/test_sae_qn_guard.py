"""SAE-QN with models that are worth nothing: the rate of the theorem holds all the same."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods.quasi_newton.certificate import CutCertificate
from geartrain.methods.quasi_newton.guard import FREE, Guard
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.methods.quasi_newton.models import Shelf
from geartrain.methods.quasi_newton.trial import Proposer
from geartrain.problem import norm
from problems import Known, logistic, quadratics


def chain(n=120):
    """Nesterov's chain as h, for which gradients tell one further coordinate each; a small g."""
    T = 2.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    b = np.zeros(n)
    b[0] = 1.0
    h, g = gt.Quadratic(T / 4.0, b=b / 4.0), gt.Quadratic(1e-6 * np.diag(np.arange(1.0, n + 1.0)))
    x_star = np.linalg.solve(h.Q + g.Q, b / 4.0)
    return Known(h, g, x_star, 1e-6)


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


CASES = {"chain": chain, "quadratic": quadratics, "logistic": logistic, "non-convex": non_convex}


def constant(size):
    """All models are size times the identity."""

    def spoil(monkeypatch):
        monkeypatch.setattr(Shelf, "__getitem__", lambda self, candidate: LowRank(size))

    return spoil


def random(monkeypatch):
    """All models are those of other pairs: the small matrix is a random one of the same size."""
    rng = np.random.default_rng(1)
    make = Shelf._make

    def other(self, kind, size):
        B = make(self, kind, size)
        if B.small is None:
            return B
        W = rng.standard_normal(B.small.M.shape)
        scale = np.abs(B.small.M).max() * 10.0 ** rng.uniform(-3, 3)
        return replace(B, small=replace(B.small, M=scale * W @ W.T / len(W)))

    monkeypatch.setattr(Shelf, "_make", other)


def flipped(monkeypatch):
    """Every trial point lies in the opposite direction."""
    for name in ("keeping_g", "plain"):
        make = getattr(Proposer, name)

        def turned(self, candidate, B, make=make):
            trial = make(self, candidate, B)
            return replace(trial, v=2.0 * self.p.v - trial.v, known_g=None)

        monkeypatch.setattr(Proposer, name, turned)


SPOILERS = {
    "tiny": constant(1e-3),
    "huge": constant(1e3),
    "random": random,
    "flipped": flipped,
}


def accuracy(known, x0):
    """An eps for which the theorem allows K + 2 + 258 calls of a convex h."""
    return 4e-4 * known.h.L * norm(x0 - known.x_star) ** 2


def run(known, x0, most=450, rho=math.inf):
    """The states until f - f* <= eps, and the calls of h at each."""
    method, problem, gap = gt.methods.SAEQN(rho=rho), known.sum(), accuracy(known, x0)
    out = [(method.init(problem, x0), 1)]
    while known.f(out[-1][0].point) - known.f_star > gap and out[-1][1] < most:
        state = method.step(problem, out[-1][0])
        out.append((state, problem.ledger.calls["h.grad"]))
        if state.stalled:
            break
    return out


def violations(known, x0, states):
    """What of the theorem fails along a run."""
    found = []
    convex = states[0][0].guard.convex
    R, L_h, s = norm(x0 - known.x_star), known.h.L, states[0][0].guard.slope
    assert s == pytest.approx(0.137 if convex else 0.097, rel=1e-2)
    for (old, _), (new, N) in itertools.pairwise(states):
        gap = known.f(new.point) - known.f_star
        K = FREE + 2 * new.guard.failures
        if new.guard.calls != N:
            found.append("the guard does not count the calls")
        if known.f(new.point) > known.f(old.point) + 1e-13 * abs(known.f(old.point)):
            found.append("f increases")
        if 2.0 * new.A * gap > R**2 * (1.0 + 1e-9) + 1e-13 * new.A:
            found.append("the certificate is wrong")
        if math.sqrt(new.A) < s * (N - K - 2) / math.sqrt(L_h) * (1.0 - 1e-9):
            found.append("the certificate grows too slowly")
        if K + 2 + math.sqrt(L_h * R**2 / (2.0 * max(gap, 1e-300))) / s < N:
            found.append("too many calls of h")
    if states[-1][0].guard.failures > 2 + math.log(L_h / states[0][0].guard.least, 1.5):
        found.append("too many failures")
    return found


@pytest.mark.parametrize("spoil", SPOILERS)
@pytest.mark.parametrize("case", CASES)
def test_the_rate_holds_for_any_models(case, spoil, monkeypatch):
    SPOILERS[spoil](monkeypatch)
    known = CASES[case]()
    x0 = np.zeros(known.x_star.size)
    states = run(known, x0)
    assert violations(known, x0, states) == []
    assert known.f(states[-1][0].point) - known.f_star <= accuracy(known, x0)


def test_flipped_steps_are_saved_by_the_guard_alone(monkeypatch):
    flipped(monkeypatch)
    known = chain()
    states = run(known, np.zeros(120))
    assert states[-1][0].guard.steps > 5


def test_honest_models_need_no_guard():
    for make in CASES.values():
        known = make()
        end = run(known, np.zeros(known.x_star.size))[-1][0]
        assert end.guard.steps == end.guard.failures == 0


@pytest.mark.parametrize("rho", [3.0, 30.0])
def test_with_prices_proven_steps_cost_a_quarter_of_the_calls_of_h(rho, monkeypatch):
    """sqrt(A) >= s (min(1, rho/P) N - K - 4)/sqrt(L_h) with P gradients of g per inner run."""
    constant(1e3)(monkeypatch)
    known = logistic()
    x0 = np.zeros(known.x_star.size)
    states = run(known, x0, most=600, rho=rho)
    longest = 300
    for (old, _), (new, N) in itertools.pairwise(states):
        if new.guard.paid > old.guard.paid:
            assert old.guard.paid + old.guard.run <= 0.25 * rho * old.guard.calls
            assert new.guard.run == new.guard.paid - old.guard.paid
        longest = max(longest, new.guard.run)
        K = FREE + 2 * new.guard.failures
        grown = min(1.0, rho / longest) * N - K - 4
        assert math.sqrt(new.A) >= new.guard.slope * grown / math.sqrt(known.h.L)
    assert states[-1][0].guard.steps > 0


PLANTED = {
    "the certificate is wrong": lambda m: m.setattr(
        CutCertificate, "lowered", lambda self, drop, geometry: replace(self, A=2.0 * self.A)
    ),
    "the certificate grows too slowly": lambda m: m.setattr(
        Guard, "is_behind", lambda self, A: False
    ),
    "the guard does not count the calls": lambda m: m.setattr(
        Guard, "called", lambda self, calls, secant=0.0: self
    ),
}


@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_found(error, monkeypatch):
    flipped(monkeypatch)
    PLANTED[error](monkeypatch)
    known = chain()
    x0 = np.zeros(120)
    assert error in violations(known, x0, run(known, x0, most=150))


def proven(known, x0, steps):
    """The guard after proven steps alone, with L = sharp L_h."""
    method, problem = gt.methods.SAEQN(), known.sum()
    state = method.init(problem, x0)
    guard = replace(state.guard, L=state.guard.sharp * known.h.L, credit=-(10**6))
    state = replace(state, guard=guard)
    for _ in range(steps):
        old, state = state, method.step(problem, state)
        L, a, _ = old.guard.start(old.certificate, old.point)
        if state.guard.failures == 0:
            assert L == guard.L and (old.A + a) * (1.0 - 1e-9) <= state.A
    return state.guard


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
        used, a, x = Guard(True, 0.0, L=L).start(certificate, np.ones(2))
        assert used == L and L * a == pytest.approx((A + a) / a) and np.isfinite(x).all()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_units_of_f_beyond_the_square_root_of_the_range_raise_no_error(scale):
    known = logistic()
    h, g = (
        gt.Term(lambda x, t=term: tuple(scale * a for a in t.value_and_grad(x)), n=10)
        for term in (known.h, known.g)
    )
    res = gt.minimize(h, g, np.ones(10), method="sae-qn", max_iter=50)
    assert res.fun <= known.f(np.ones(10)) * scale


@pytest.mark.parametrize("contradictions", [0, 1])
def test_proven_steps_of_length_zero_do_not_go_on_for_ever(contradictions):
    """Noise may make L grow until x, y and v are the same: then answers or models mislead."""
    known = logistic()
    problem, method = known.sum(), gt.methods.SAEQN()
    state = method.step(problem, method.init(problem, np.ones(10)))
    doubt = replace(state.doubt, contradictions=contradictions)
    state = replace(state, doubt=doubt, guard=replace(state.guard, L=1e60))
    steps = 0
    while not state.stalled:
        state = method.step(problem, replace(state, tries=method.tuning.trials))
        steps += 1
    assert (steps, state.noisy) == ((3, True) if contradictions else (100, False))
    assert not state.rounding
