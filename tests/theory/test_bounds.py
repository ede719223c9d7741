"""`theory.bound` is never below what a run needs, over a grid of constants."""

from __future__ import annotations

import math

import numpy as np
import pytest

import geartrain as gt
from geartrain import theory
from geartrain.core.loop import solve_model
from geartrain.methods.baselines.ags import stage_length
from geartrain.theory.bounds import FAR, middle_steps
from problems import Known, logistic, quadratics

METHODS = {
    "sae": lambda mu: gt.SAE(),
    "r-sae": lambda mu: gt.methods.RSAE(),
    "sc-sae": lambda mu: gt.methods.SCSAE(mu=mu),
    "afb": lambda mu: gt.methods.AFB(),
    "fgm": lambda mu: gt.methods.FGM(mu=mu),
    "ags": lambda mu: gt.methods.AGS(mu=mu),
}


def run(known, method, mu, eps, x0, **options):
    stop = gt.stop.Value(known.f_star + eps)
    res = gt.minimize(known.h, known.g, x0, method=method, stop=stop, mu=mu, **options)
    assert res.success, res.message
    return res.calls


def bill(calls, kappa=1):
    return calls["h.grad"], kappa * calls["g.grad"] + calls["g.coord"] + calls["g.component"]


def below(calls, most, kappa=1):
    h, g = bill(calls, kappa)
    assert h <= most["h"]
    assert g <= most["g"]


def unaware(term):
    """The same function, whose strong convexity nobody knows."""
    return gt.Term(value=term.value, grad=term.grad, L=term.L, n=term.n)


@pytest.mark.parametrize("strong", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_runs_stay_below_the_bound(method, strong):
    """The same function with mu, and with nothing known of it."""
    if (method == "sae" and strong) or (method == "r-sae" and not strong):
        return
    known, mu, eps = quadratics(L_h=1.0, L_g=1e3, mu=1e-2), 1e-2 if strong else 0.0, 1e-3
    if not strong:
        known = Known(unaware(known.h), unaware(known.g), known.x_star, 0.0)
    x0 = known.x_star + 1.0
    R = float(np.linalg.norm(x0 - known.x_star))
    constants = {"L_h": known.h.L, "L_g": known.g.L, "mu": mu, "eps": eps, "R": R}
    calls = run(known, METHODS[method](mu), mu, eps, x0)
    below(calls, theory.bound("full", **constants, method=method))


@pytest.mark.parametrize(("L", "mu"), [(0.1, 1e-2), (2.0, 0.0), (25.0, 1e-2), (25.0, 0.0)])
def test_any_parameter_of_the_envelope(L, mu):
    known = quadratics(L_g=30.0, mu=1e-2)
    x0 = known.x_star + 1.0
    R = float(np.linalg.norm(x0 - known.x_star))
    method = gt.methods.RSAE(L=L) if mu else gt.SAE(L=L)
    constants = {"L_h": known.h.L, "L_g": known.g.L, "mu": mu, "eps": 1e-3, "R": R}
    below(run(known, method, mu, 1e-3, x0), theory.bound("full", **constants, L=L))


RANDOM = {
    "coordinate": (gt.inner.ACD, lambda g: float(np.sqrt(g.L_coord).mean() ** 2), "n"),
    "finite-sum": (gt.inner.LKatyusha, lambda g: float(g.L_components.max()), "m"),
}


@pytest.mark.parametrize("setting", RANDOM)
@pytest.mark.parametrize("mu", [1e-2, 0.0])
def test_randomised_inner_methods(setting, mu):
    known = logistic()
    make, constant, size = RANDOM[setting]
    kappa = getattr(known.g, size)
    x0 = np.ones(10)
    R = float(np.linalg.norm(x0 - known.x_star))
    most = theory.bound(
        setting,
        L_h=known.h.L,
        L_g=constant(known.g),
        mu=mu,
        eps=1e-5,
        R=R,
        delta=0.05,
        **{size: kappa},
    )
    method = gt.methods.RSAE(inner=make()) if mu else gt.SAE(inner=make())
    below(run(known, method, mu, 1e-5, x0), most, kappa)


@pytest.mark.parametrize("ratio", [0.03, 0.4, 1.0, 2.4, 2.5, 25.0])
def test_middle_steps(ratio):
    """As many as runs need at most, 1 exactly where L_h <= (sigma - r) L, about L_h/L below."""
    K = middle_steps(ratio, 1.0, 100.0, 0.5, 0.1)
    assert (K == 1) == (ratio >= 2.5)
    if ratio >= 1.0:
        assert K <= 5
    if ratio <= 0.1:
        assert K * ratio <= 4 * math.log(2 * 200**2 / ratio**3)
    known = quadratics(L_g=99.0)
    x0 = np.ones(24)
    problem = known.sum()
    state = gt.SAE(L=ratio).init(problem, x0)
    for _ in range(6):
        state = gt.SAE(L=ratio).step(problem, state)
        assert state.middle_steps <= K


@pytest.mark.parametrize("method", ["sc-sae", "afb"])
def test_the_warm_start_is_near_enough(method, monkeypatch):
    """The assumption beside the bounds of SC-SAE and AFB, along runs."""
    module = "geartrain.methods.gmco" if method == "sc-sae" else "geartrain.methods.afb"
    known = quadratics(L_g=300.0)
    ratios = []

    def looking(inner, phi, v0, accept, **more):
        best = np.linalg.solve(known.g.Q + phi.alpha * np.eye(24), known.g.b - phi.beta)
        starts.append((v0, best))
        return solve_model(inner, phi, v0, accept, **more)

    monkeypatch.setattr(f"{module}.solve_model", looking)
    starts = []
    problem = known.sum()
    made = METHODS[method](known.mu)
    state = made.init(problem, known.x_star + 1.0)
    for _ in range(40):
        state = made.step(problem, state)
        v0, best = starts[-1]
        ratios.append(np.linalg.norm(v0 - best) / np.linalg.norm(state.y - best))
    assert len(starts) == 40
    assert max(ratios) <= FAR


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "lbfgs"}, "unknown method 'lbfgs'; choose one of sae, r-sae, sc-sae"),
        ({"method": "r-sae"}, "R-SAE needs mu > 0; use method='sae'"),
        ({"method": "sc-sae", "L": 0.5}, "SC-SAE has this bound for L > 5/9 L_h"),
        ({"L": -1.0}, "L must be positive, got -1"),
    ],
)
def test_wrong_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        theory.bound("full", L_h=1.0, L_g=10.0, eps=1e-3, **arguments)


def test_settings_without_a_bound():
    with pytest.raises(ValueError, match="there is no bound for setting 'values'"):
        theory.bound("values", L_h=1.0, L_g=10.0, eps=1e-3, n=5)
    with pytest.raises(ValueError, match="method 'afb' asks g for gradients"):
        theory.bound("coordinate", L_h=1.0, L_g=10.0, eps=1e-3, n=5, method="afb")


# The constants, derived again -------------------------------------------------------------------

CASES = [(1.0, 7.0, 1e-3, 2.0), (0.3, 1e3, 1e-6, 0.5), (20.0, 30.0, 1e-4, 1.0)]


@pytest.mark.parametrize(("L", "M", "eps", "R"), CASES)
@pytest.mark.parametrize("mu", [0.0, 1e-3])
def test_constant_of_ags(L, M, eps, R, mu):
    """f - f* <= Gamma_N C R^2/2 with Gamma_N = 2/(N (N + 1)), C the weight of |x_0 - x*|^2/2.

    In the first iteration Lambda_t = 2/(t (t + 1)) and a_t q_t/Lambda_t = 6 M telescopes to
    Lambda_T 6 M; beta_1 = 3 L stays. From T >= sqrt(M/L), C = 3 L + 12 M/(T (T + 1)) <= 15 L. The
    library drops the 1 in N + 1. A stage ends where 15 L R^2/N^2 <= (mu/2) (R^2/2).
    """
    R_0, a, q = R, (lambda t: 2 / (t + 1)), (lambda t: 6 * M / t)
    T = math.ceil(math.sqrt(M / L))
    Lambda = np.cumprod([1.0] + [1 - a(t) for t in range(2, T + 1)])
    weights = [a(t) * q(t) / Lambda[t - 1] for t in range(1, T + 1)]
    np.testing.assert_allclose(weights, 6 * M)
    assert Lambda[-1] * 6 * M <= 12 * L * (1 + 1e-12)
    C = 3 * L + 12 * L
    period = math.ceil(math.sqrt(4 * C / mu)) if mu else math.inf
    N, last = 0, math.ceil(math.sqrt(C * R**2 / eps))
    while last > period:  # a whole stage, after which R^2 is halved
        N, R = N + period, R / math.sqrt(2)
        last = math.ceil(math.sqrt(C * R**2 / eps))
    N += last
    most = theory.bound("full", L_h=L, L_g=M, mu=mu, eps=eps, R=R_0, method="ags")
    assert most == {"h": N, "g": N * T}
    if mu:
        assert stage_length(L, mu) == period


@pytest.mark.parametrize(("L_h", "L_g", "eps", "R"), CASES)
@pytest.mark.parametrize("ratio", [0.03, 0.6, 3.0])
def test_constant_of_sae(L_h, L_g, eps, R, ratio):
    """R^2/(2 A_N) <= eps with A_N >= (N + 1)^2/(4 L): N + 1 >= sqrt(2 L R^2/eps)."""
    L = ratio * L_h
    N = math.ceil(math.sqrt(2 * L * R**2 / eps)) - 1
    most = theory.bound("full", L_h=L_h, L_g=L_g, eps=eps, R=R, L=L)
    assert most["h"] == N * (middle_steps(L, L_h, L_h + L_g, 0.5, 0.1) + 1)


@pytest.mark.parametrize(("L_h", "L_g", "eps", "R"), CASES)
@pytest.mark.parametrize("strong", [True, False])
@pytest.mark.parametrize("method", ["fgm", "sc-sae", "afb"])
def test_iterations_are_those_of_the_growth_of_A(method, L_h, L_g, eps, R, strong):
    """The closed forms for A, of mu = 0 and of a high accuracy, are nearly its recursion.

    FGM: A_1 = 1/L, A_{k+1} = A_k/(1 - t) with t^2 = (1 - t) t_k^2 + t mu/L. The envelopes:
    a^2 (1 + mu eta) = eta A_+ (1 + mu A_+) with A_+ = A + a, and eta = 1/L for SC-SAE,
    (1 - zeta^2)/L_h for AFB, where zeta = 1/2.
    """
    mu, eps = (0.1 * L_h, 1e-30 * eps) if strong else (0.0, eps)
    eta = {"fgm": 1 / (L_h + L_g), "sc-sae": 4 / (3 * L_h), "afb": 0.75 / L_h}[method]
    A, t, N, wanted = eta, 1.0, 1, R**2 / (2 * eps)
    while wanted > A:
        if method == "fgm":
            linear = t**2 - mu * eta
            t = (math.sqrt(linear**2 + 4 * t**2) - linear) / 2
            A /= 1 - t
        else:  # a^2 = eta (A (1 + mu A) + a (1 + 2 mu A))
            linear = eta * (1 + 2 * mu * A)
            A += (linear + math.sqrt(linear**2 + 4 * eta * A * (1 + mu * A))) / 2
        N += 1
    most = theory.bound("full", L_h=L_h, L_g=L_g, mu=mu, eps=eps, R=R, method=method)
    found = {"fgm": most["h"] - 1, "sc-sae": most["h"] / 2, "afb": most["h"]}[method]
    assert N <= found <= 1.15 * N + 3


@pytest.mark.parametrize(("L_h", "L_g", "eps", "R"), CASES)
@pytest.mark.parametrize("method", ["sae", "sc-sae", "afb"])
def test_inner_runs_end_where_the_error_rule_must_hold(method, L_h, L_g, eps, R, monkeypatch):
    """The residual e of the last point, from the start as far away as it may be, meets the rule.

    Lengths are in units of D, the distance from the centre of phi to its minimiser v*: the start is
    at most `far` from v*, and |v - centre| >= near - e/alpha. The rule is e <= r |v - centre|.
    """
    seen = []

    def agm_calls(alpha, L, target):
        seen.append((alpha, L, target))
        return 7

    monkeypatch.setattr("geartrain.theory.bounds.agm_calls", agm_calls)
    most = theory.bound("full", L_h=L_h, L_g=L_g, eps=eps, R=R, method=method)
    q = 1 / 2  # how much GMCO contracts at L = L_h
    far, near = (1 + q, 1 - q) if method == "sae" else (FAR, 1.0)
    alpha, r = {
        "sae": (2 * L_h, 0.2 * 0.5 * L_h),
        "sc-sae": (1.25 * L_h, 0.95 * (1 - 2 / 3) * 0.75 * L_h),
        "afb": (L_h, 0.5 / 1.5 * L_h),
    }[method]
    ((found, L, target),) = seen
    e = far * target
    assert (found, L) == pytest.approx((alpha, L_g))
    assert e == pytest.approx(r * (near - e / alpha))
    if method == "sae":
        K = middle_steps(L_h, L_h, L_h + L_g, 0.5, 0.1)
        N = most["h"] / (K + 1)
        assert most["g"] == N + 1 + N * K * 7
    else:
        N = most["h"] / (2 if method == "sc-sae" else 1)
        assert most["g"] == N * (1 + 7)


@pytest.mark.parametrize("ratio", np.geomspace(0.02, 2.49, 9))
@pytest.mark.parametrize("L_f", [1.0, 1e6])
def test_steps_of_the_middle_loop_are_those_of_the_proof(ratio, L_f):
    """Its two recursions, step by step, for D = L_h = 1 and tests that pass only when they must."""
    L, sigma, r = ratio, 0.5, 0.1
    # Distances: (1 - s) d_+ = q d + s from d = 1, until the test must pass.
    q, s, d, by_distance = 1 / (L + 1), r * L / (L + 1), 1.0, math.inf
    for k in range(1, 10_000):
        after = (q * d + s) / (1 - s)
        if d + after <= (sigma - r) * L * (1 - after):
            by_distance = k
            break
        d = after
    # Values: after the first step F - F* <= L_h/2 + 2 (r L)^2/(L + L_h); every failed test after a
    # step divides it by 1 + theta, and none fails once it is small.
    c = (L + 1) / 2 - r / (sigma - r)
    theta = 2 * L * c * ((sigma - r) / sigma) ** 2
    gap, by_value = 0.5 + 2 * (r * L) ** 2 / (L + 1), 1
    while gap > (sigma * L) ** 2 / 2 / (math.sqrt(L + L_f) + sigma * math.sqrt(L)) ** 2:
        gap, by_value = gap / (1 + theta), by_value + 1
    expected = by_value if by_distance == math.inf else by_distance
    assert middle_steps(L, 1.0, L_f, sigma, r) == expected
