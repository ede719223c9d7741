"""Extragradient, optimistic gradient and Anderson mixing for 0 in P(z) + Q(z) + dpsi(z)."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status
from geartrain.methods.operators.anderson import Anderson
from geartrain.methods.operators.extragradient import Extragradient
from geartrain.methods.operators.optimistic import OptimisticGradient
from geartrain.oracles.ledger import Ledger, NonFiniteAnswer, Oracle
from geartrain.oracles.splitting import Psi
from geartrain.problem import Constant, Inclusion, norm
from problems import states
from runs import NEVER, same

METHODS = {
    "extragradient": Extragradient(),
    "extragradient-adaptive": Extragradient(adaptive=True),
    "optimistic": OptimisticGradient(),
    "optimistic-adaptive": OptimisticGradient(adaptive=True),
    "anderson": Anderson(),
}
WITH_PSI = [name for name in METHODS if name != "anderson"]
ONCE = list(zip(METHODS, ("simplex", "box", "box", "simplex", "none"), strict=True))
SETS = {"none": None, "box": gt.Box(-1.0, 1.0), "simplex": gt.Simplex()}
N = 20


class Known:
    """P(z) = A z - b and Q(z) = 3 arctan(z) + B z - c, with the solution z_star."""

    def __init__(self, psi="none", mu=0.1, seed=0):
        rng = np.random.default_rng(seed)
        self.psi = SETS[psi]
        K, M = rng.standard_normal((2, N, N)) / np.sqrt(N)
        self.A, self.B = K - K.T + mu * np.eye(N), M @ M.T
        self.z_star, w = rng.standard_normal(N), np.zeros(N)  # w is in dpsi(z_star)
        if psi == "box":
            self.z_star = np.clip(self.z_star, -1.0, 1.0)
            w = np.where(np.abs(self.z_star) == 1.0, self.z_star, 0.0)
        elif psi == "simplex":
            self.z_star = self.psi.prox(self.z_star, 1.0)
            w = np.where(self.z_star > 0.0, 0.7, 0.2)
        self.b = rng.standard_normal(N)
        self.c = np.zeros(N)
        self.c = self.P(self.z_star) + self.Q(self.z_star) + w
        self.L_P, self.L_Q = norm2(self.A), 3.0 + norm2(self.B)
        start = 3.0 * rng.standard_normal(N)
        self.z0 = start if self.psi is None else self.psi.prox(start, 1.0)

    def P(self, z):
        return self.A @ z - self.b

    def Q(self, z):
        return 3.0 * np.arctan(z) + self.B @ z - self.c

    def R(self, z):
        return self.P(z) + self.Q(z)

    def prox(self, u, t):
        return u if self.psi is None else self.psi.prox(u, 1.0 / t)

    def residual(self, z):
        return self.R(z) if self.psi is None else self.psi.residual(z, self.R(z))

    def problem(self):
        return inclusion(self.P, self.Q, N, self.psi, self.L_P, self.L_Q)

    def terms(self):
        Q = gt.Operator(self.Q, n=N, L=self.L_Q)
        return gt.Operator(self.P, n=N, L=self.L_P), Q if self.psi is None else Q + self.psi


def norm2(A):
    return float(np.linalg.norm(A, 2))


def inclusion(P, Q, n, psi=None, L_P=None, L_Q=None):
    """A counted problem with a ledger of its own."""
    ledger = Ledger(("P", "Q"))
    return Inclusion(
        Oracle(gt.Operator(P, n=n), "P", ledger, n),
        Oracle(gt.Operator(Q, n=n), "Q", ledger, n),
        Constant(L_P, "given"),
        Constant(L_Q, "given"),
        Constant(0.0, "given"),
        psi=None if psi is None else Psi(psi, 1.0, "Q", ledger, n),
    )


def zero(z):
    return np.zeros_like(z)


def rotation(z):
    """By a right angle in every plane of two coordinates: 2 (z_2, -z_1), ..."""
    return 2.0 * np.stack([z[1::2], -z[::2]], axis=1).ravel()


# Literal transcriptions of the boxes. They count: R is a list of one call after the other.


class Asked:
    def __init__(self, R):
        self.R, self.count = R, 0

    def __call__(self, z):
        self.count += 1
        return self.R(z)


def secant(R, prox, z, Rz):
    t = 1e-4 * np.linalg.norm(z) / np.linalg.norm(Rz)
    w = prox(z - t * Rz, t)
    return np.linalg.norm(w - z) / np.linalg.norm(R(w) - Rz)


def trials(R, z, Rz, t, theta, place):
    while True:
        w = place(t)
        Rw = R(w)
        longest = theta * np.linalg.norm(w - z) / np.linalg.norm(Rw - Rz)
        if t <= longest:
            return w, Rw, t, min(1.2 * t, max(t, 0.9 * longest))
        t = 0.9 * longest


def extragradient(R, prox, z, L, steps, theta=0.9):
    Rz = R(z)
    t = 0.9 * theta * secant(R, prox, z, Rz) if L is None else theta / L
    for _ in range(steps):
        if L is None:
            w, Rw, t, t_next = trials(R, z, Rz, t, theta, lambda t, z=z, Rz=Rz: prox(z - t * Rz, t))
        else:
            t_next = t
            w = prox(z - t * Rz, t)
            Rw = R(w)
        z = prox(z - t * Rw, t)
        Rz, t = R(z), t_next
        yield z, R.count


def optimistic(R, prox, z, L, steps, theta=0.49):
    Rz = R_old = R(z)
    t = t_old = 0.9 * theta * secant(R, prox, z, Rz) if L is None else theta / L
    for _ in range(steps):

        def place(t, z=z, Rz=Rz, back=t_old * (Rz - R_old)):
            return prox(z - t * Rz - back, t)

        R_old = Rz
        if L is None:
            z, Rz, t_old, t = trials(R, z, Rz, t, theta, place)
        else:
            z = place(t)
            Rz = R(z)
        yield z, R.count


def anderson(R, prox, z, L, steps, memory):
    Rz, S, Y = R(z), [], []
    length = secant(R, prox, z, Rz)
    for _ in range(steps):
        weight = length if L is None else 1.0 / L
        c = np.zeros(len(Y))
        if Y:
            Ym = np.array(Y).T
            c = np.linalg.solve(Ym.T @ Ym + 1e-10 * np.eye(len(Y)), Ym.T @ Rz)
        v = z - weight * Rz
        for c_i, s, y in zip(c, S, Y, strict=True):
            v = v - c_i * (s - weight * y)
        Rv = R(v)
        size = np.linalg.norm(Rv - Rz)
        S, Y = [*S, (v - z) / size][-memory:], [*Y, (Rv - Rz) / size][-memory:]
        length = np.linalg.norm(v - z) / size
        z, Rz = v, Rv
        yield z, R.count


BOXES = {"extragradient": extragradient, "optimistic": optimistic}


@pytest.mark.parametrize("psi", SETS)
@pytest.mark.parametrize("name", WITH_PSI)
def test_iterates_and_calls_are_those_of_the_box(name, psi):
    known = Known(psi)
    problem = known.problem()
    L = None if name.endswith("adaptive") else known.L_P + known.L_Q
    box = BOXES[name.removesuffix("-adaptive")]
    expected = box(Asked(known.R), known.prox, known.z0, L, 40)
    state = METHODS[name].init(problem, known.z0)
    for z, count in expected:
        state = METHODS[name].step(problem, state)
        np.testing.assert_allclose(state.point, z, atol=1e-10)
        assert problem.ledger.calls["P.operator"] == problem.ledger.calls["Q.operator"] == count


@pytest.mark.parametrize("L", [None, 5.0])
@pytest.mark.parametrize("memory", [2, 200])
def test_anderson_is_its_box(memory, L):
    """The normal equations of the transcription square the condition: hence few steps."""
    known = Known()
    problem, method = known.problem(), Anderson(L=L, memory=memory)
    state = method.init(problem, known.z0)
    for z, count in anderson(Asked(known.R), known.prox, known.z0, L, 7, memory):
        state = method.step(problem, state)
        np.testing.assert_allclose(state.point, z, atol=1e-6)
        assert problem.ledger.calls["P.operator"] == problem.ledger.calls["Q.operator"] == count
        assert len(state.S) == len(state.Y) <= memory


@pytest.mark.parametrize(("name", "psi"), ONCE)
def test_the_residual_belongs_to_the_point(name, psi):
    known = Known(psi)
    for state in states(METHODS[name], known.problem(), known.z0, 25):
        np.testing.assert_allclose(state.R, known.R(state.point), atol=1e-11)
        np.testing.assert_allclose(state.grad, known.residual(state.point), atol=1e-11)
        assert known.psi is None or known.psi.value(state.point) == 0.0


@pytest.mark.parametrize(
    ("name", "first", "each", "first_prox", "each_prox"),
    [
        ("extragradient", 1, 2, 0, 2),
        ("extragradient-adaptive", 2, 2, 1, 2),
        ("optimistic", 1, 1, 0, 1),
        ("optimistic-adaptive", 2, 1, 1, 1),
        ("anderson", 2, 1, 0, 0),
    ],
)
def test_calls_per_iteration(name, first, each, first_prox, each_prox):
    """Every secant of z + rotation(z) is sqrt(5): no trial fails."""
    box = gt.Box(-9.0, 9.0) if name in WITH_PSI else None
    problem = inclusion(lambda z: z - 1.0, rotation, 6, box, 1.0, 2.0)
    calls, method = problem.ledger.calls, METHODS[name]
    state = method.init(problem, np.arange(6.0))
    for k in itertools.count():
        assert calls["P.operator"] == calls["Q.operator"] == first + each * k
        assert calls["Q.prox"] == first_prox + each_prox * k
        if k == (4 if name == "anderson" else 20):  # Anderson is at the solution then
            break
        state = method.step(problem, state)
    assert sum(calls.values()) == 2 * calls["P.operator"] + calls["Q.prox"]


# The potentials of the guarantees. Rounding errors are below 1e-12 of numbers of size 100.


@pytest.mark.parametrize(
    ("psi", "mu", "theta", "adaptive"),
    [
        ("none", 0.0, 0.99, False),
        ("box", 0.1, 0.3, False),
        ("simplex", 0.0, 0.9, False),
        ("none", 0.1, 0.9, True),
        ("box", 0.0, 0.99, True),
    ],
)
def test_extragradient_comes_closer(psi, mu, theta, adaptive):
    known = Known(psi, mu)
    run = states(Extragradient(theta=theta, adaptive=adaptive), known.problem(), known.z0, 80)
    for old, new in itertools.pairwise(run):
        before, after = norm(old.z - known.z_star) ** 2, norm(new.z - known.z_star) ** 2
        fall = 0.0
        if not adaptive:  # then the point ahead is known
            ahead = known.prox(old.z - old.t * old.R, old.t)
            fall = (1.0 - theta**2) * norm(ahead - old.z) ** 2
        assert after <= before - fall + 1e-10


@pytest.mark.parametrize(
    ("psi", "mu", "theta", "adaptive"),
    [
        ("none", 0.0, 0.49, False),
        ("simplex", 0.1, 0.2, False),
        ("none", 0.1, 0.2, True),
        ("box", 0.0, 0.49, True),
    ],
)
def test_potential_of_the_optimistic_gradient(psi, mu, theta, adaptive):
    known = Known(psi, mu)
    method = OptimisticGradient(theta=theta, adaptive=adaptive)
    run, before = states(method, known.problem(), known.z0, 80), None
    for old, new in itertools.pairwise(run):
        z, step = new.z, norm(new.z - old.z)
        ahead = 2.0 * new.t_old * (known.R(z) - known.R(old.z)) @ (known.z_star - z)
        potential = norm(z - known.z_star) ** 2 + ahead + theta * step**2
        assert potential >= (1.0 - theta) * norm(z - known.z_star) ** 2 - 1e-10
        if before is None:
            before = norm(old.z - known.z_star) ** 2
        assert potential <= before - (1.0 - 2.0 * theta) * step**2 + 1e-10
        assert new.t_old * norm(known.R(z) - known.R(old.z)) <= theta * step * (1 + 1e-9) + 1e-12
        before = potential


def test_anchor_of_anderson_moves_by_success_or_by_a_proven_step():
    """With one pair in memory mixing fails on rotations, and extragradient goes on."""
    problem = inclusion(lambda z: rotation(z) - 1.0, lambda z: np.linspace(0, 1, 8) * z, 8)
    method, guard, proven = Anderson(memory=1), Extragradient(adaptive=True), 0
    state = method.init(problem, np.linspace(-1.0, 2.0, 8))
    for _ in range(400):
        state, old = method.step(problem, state), state
        if old.failures >= 30:
            proven += 1
            expected = guard.step(problem, old.anchor)
            np.testing.assert_array_equal(state.z, expected.z)
            np.testing.assert_array_equal(state.anchor.z, expected.z)
            assert state.failures == 15
        elif norm(state.R) <= 0.9 * old.least:
            assert state.anchor.z is state.z and state.failures == 0
        else:
            assert state.anchor is old.anchor and state.failures > old.failures
        assert state.least == min(old.least, norm(state.R))
    assert proven > 0


@pytest.mark.parametrize(("name", "psi"), ONCE)
def test_resumed_is_uninterrupted(name, psi, tmp_path):
    known = Known(psi)
    P, Q = known.terms()
    options = dict(method=METHODS[name], stop=NEVER)
    whole = gt.equilibrium(P, Q, known.z0, max_iter=40, **options)
    gt.equilibrium(P, Q, known.z0, max_iter=17, checkpoint=tmp_path / "run", **options)
    same(whole, gt.resume(tmp_path / "run", P, Q, stop=NEVER, max_iter=23))


# What is not finite, what diverges, and rounding.


@pytest.mark.parametrize(("name", "bad"), list(zip(METHODS, itertools.cycle([np.nan, np.inf]))))
def test_answers_that_are_not_finite(name, bad):
    """From the fifth call on nothing else comes."""
    known, calls = Known(), itertools.count(1)

    def P(z):
        return known.P(z) if next(calls) < 5 else np.full(N, bad)

    P = gt.Operator(P, n=N, L=known.L_P)
    res = gt.equilibrium(P, known.terms()[1], known.z0, method=METHODS[name])
    assert res.status is Status.NON_FINITE and not res.success
    assert np.isfinite(res.x).all()


@pytest.mark.parametrize("name", ["extragradient-adaptive", "optimistic-adaptive", "anderson"])
def test_steps_that_lead_out_of_the_domain_are_shortened(name):
    def P(z):
        return np.sinh(z) if norm(z) < 3.0 else np.full(2, np.nan)

    x0 = np.array([2.9, 0.0])
    res = gt.equilibrium(gt.Operator(P, n=2), gt.Operator(rotation), x0, method=METHODS[name])
    assert res.success and norm(res.x) <= 1e-4


@pytest.mark.parametrize("method", [Extragradient(L=0.2), OptimisticGradient(L=0.1)])
@pytest.mark.parametrize("most", [50, 100_000])
def test_a_wrong_constant_is_no_success(method, most):
    P = gt.Operator(lambda z: rotation(z) - 1.0, n=4)
    res = gt.equilibrium(P, None, np.ones(4), method=method, max_iter=most)
    assert res.status is (Status.MAX_ITER if most == 50 else Status.NON_FINITE)
    assert not res.success


@pytest.mark.parametrize(("name", "psi"), ONCE)
def test_a_tolerance_below_rounding(name, psi):
    """It is met by luck or ends in time; the point is as good as rounding allows."""
    known = Known(psi)
    res = gt.equilibrium(*known.terms(), known.z0, method=METHODS[name], stop=NEVER, max_iter=5000)
    assert norm(known.residual(res.x)) <= 1e-11
    np.testing.assert_allclose(res.x, known.z_star, atol=1e-9)  # mu is 0.1
    if not res.success and res.status is not Status.MAX_ITER:
        assert res.status is Status.STALLED and "Rounding" in res.message


def test_constants():
    known = Known()
    with pytest.raises(TypeError, match="Anderson is not made for a non-smooth term"):
        gt.equilibrium(*Known("box").terms(), known.z0, method=Anderson())
    P, Q = gt.Operator(known.P, n=N), gt.Operator(known.Q, n=N)
    for method in (Extragradient(), OptimisticGradient()):
        with pytest.raises(ValueError, match=f"{type(method).__name__} needs L_P"):
            gt.equilibrium(P, Q, method=method)
        given = gt.equilibrium(P, Q, method=method, L_P=known.L_P, L_Q=known.L_Q)
        own = gt.equilibrium(P, Q, method=replace(method, L=known.L_P + known.L_Q))
        np.testing.assert_array_equal(given.x, own.x)
    constant = inclusion(lambda z: np.ones(2), zero, 2, gt.Box(0.0, 1.0), 0.0, 0.0)
    for method in (Extragradient(), OptimisticGradient()):
        assert not states(method, constant, np.ones(2), 2)[-1].grad.any()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Extragradient(theta=1.0), "theta must be between 0 and 1"),
        (lambda: OptimisticGradient(theta=0.5), "theta must be between 0 and 1/2"),
        (lambda: Extragradient(L=0.0), "L must be positive"),
        (lambda: OptimisticGradient(L=-1.0), "L must be positive"),
        (lambda: Anderson(L=np.nan), "L must be"),
        (lambda: Anderson(memory=0), "memory must be"),
    ],
)
def test_parameters(make, words):
    with pytest.raises(ValueError, match=words):
        make()


class PlainBox:
    """A box that gives projections and nothing else."""

    def prox(self, u, alpha):
        return np.clip(u, -1.0, 1.0)


@pytest.mark.parametrize("name", WITH_PSI)
def test_a_set_without_residuals(name):
    """The proximal step shows an element of the normal cone."""
    known = Known("box")
    problem = inclusion(known.P, known.Q, N, PlainBox(), known.L_P, known.L_Q)
    run = states(METHODS[name], problem, known.z0, 300)
    for state in run[1:]:
        inside = np.abs(state.z) < 1.0
        np.testing.assert_allclose(state.grad_psi[inside], 0.0, atol=1e-11)
        assert np.all(state.grad_psi[~inside] * state.z[~inside] >= -1e-11)
        np.testing.assert_allclose(state.grad, known.R(state.z) + state.grad_psi, atol=1e-11)
    assert norm(run[-1].grad) <= 1e-4 * norm(run[1].grad)


@pytest.mark.parametrize(("method", "steps"), [(Extragradient, 1), (OptimisticGradient, 2)])
def test_steps_that_do_not_move_z_end_the_run(method, steps):
    """Nothing is asked where w = z."""
    P = gt.Operator(lambda z: z - 3.0, n=2)
    res = gt.equilibrium(P, None, np.ones(2), method=method(L=1e30))
    assert res.status is Status.STALLED and "Rounding" in res.message
    assert res.nit == steps and res.calls["P.operator"] == 1


def inside_of(radius, R):
    return lambda z: R(z) if norm(z) < radius else np.full(z.size, np.nan)


def test_trials_out_of_the_domain():
    """t = 100 and 10 lead out of it, t = 1 is too long for the secant, t = 0.81 passes."""
    problem = inclusion(inside_of(3.0, lambda z: z), zero, 2)
    method, z = Extragradient(adaptive=True), np.array([2.0, 0.0])
    start = replace(method.init(problem, z), t=100.0)
    before = dict(problem.ledger.calls)
    new = method.step(problem, start)
    np.testing.assert_allclose(new.z, (1.0 - 0.81 * (1.0 - 0.81)) * z, atol=1e-12)
    made = {key: n - before[key] for key, n in problem.ledger.calls.items() if n > before[key]}
    assert made == {"P.operator": 5, "Q.operator": 3}


def test_a_first_secant_out_of_the_domain():
    """The short step is the first trial, then."""
    problem = inclusion(inside_of(3.0, lambda z: z - 5.0), zero, 1)
    for method in (METHODS["extragradient-adaptive"], METHODS["anderson"]):
        state = method.step(problem, method.init(problem, np.array([2.9999])))
        assert np.isfinite(state.R).all()


@pytest.mark.parametrize("psi", [None, gt.Box(-9.0, 9.0)])
@pytest.mark.parametrize(("size", "jump", "t"), [(1.0, -1.0, 1e-6), (1e-140, 1e200, 1e-10)])
def test_an_operator_that_jumps_at_z(size, jump, t, psi):
    """No trial passes: one that leads to z itself is none, and no length becomes 0."""
    z = np.array([1.0 if size == 1.0 else 0.0])
    problem = inclusion(lambda w: np.where(w == z, size, jump), zero, 1, psi)
    for method in (METHODS["extragradient-adaptive"], METHODS["optimistic-adaptive"]):
        start = replace(method.init(problem, z), t=t)
        state = method.step(problem, start)
        assert state.stalled and not state.rounding and state.z is start.z


def test_a_mixture_far_out_empties_the_pairs():
    known = Known()
    problem, method = known.problem(), Anderson()
    state = states(method, problem, known.z0, 4)[-1]
    assert len(state.S) == 4
    for far in (np.full(N, np.nan), np.full(N, 1001.0 * state.least)):
        new = method.step(inclusion(lambda z, far=far: far, zero, N), state)
        assert new.S == new.Y == () and new.failures == 30 and new.z is state.z
        proven = method.step(problem, new)
        assert norm(proven.z - known.z_star) <= norm(state.anchor.z - known.z_star) + 1e-10


def test_an_overflow_of_the_sum_is_not_finite():
    """Two finite answers whose sum is not: no point of the run is taken for a solution."""
    huge = inclusion(lambda z: np.full(2, 1.5e308), lambda z: np.full(2, 1.5e308), 2)
    with np.errstate(over="ignore", invalid="ignore"):
        start = Extragradient(adaptive=True).init(
            inclusion(lambda z: z, zero, 2), np.array([1.0, 2.0])
        )
        with pytest.raises(NonFiniteAnswer):
            Extragradient(adaptive=True).step(huge, start)
