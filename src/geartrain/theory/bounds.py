r"""Numbers of calls with every constant: what a run of the library does not exceed.

=======  =================  =========================================================
symbol   name               meaning
=======  =================  =========================================================
N        ``N``              outer iterations, from f(x_N) - f* <= R^2/(2 A_N) and the growth of A
K        ``K``              middle steps per outer iteration
D        --                 \|x - zeta*\|, from the centre of the envelope to its minimiser
r        ``r``              inner runs end at \|grad phi(v)\| <= r L \|v - x\|
T        ``target``         an inner run is over once \|grad phi(v)\| <= T \|v^0 - v*\|
alpha    ``alpha``          strong convexity of phi
M        ``M``              smoothness of phi
=======  =================  =========================================================

Those of randomised methods hold with probability 1 - delta, and those of AFB and SC-SAE for g under
an assumption, see `FAR`. The paper ends inner runs after N_M calls; the library ends them by their
residual, so the numbers of middle steps and inner calls have proofs of their own, which are told
where they are used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from geartrain.oracles.validation import as_positive
from geartrain.theory.arguments import Calls, Constants

METHODS = ("sae", "r-sae", "sc-sae", "afb", "fgm", "ags")

# SC-SAE and AFB start inner runs at y plus the previous displacement. That start is assumed to be
# at most so many times as far from the minimiser of phi as y is.
FAR = 10.0


def bound(
    setting: str, *, L: float | None = None, method: str | None = None, **constants: Any
) -> Calls:
    r"""Calls of h and of g's basic oracle until f - f* <= eps, with every constant.

    Section 6 of the paper and the proofs of the methods, for the library's methods with their
    default parameters. A gradient of g counts as kappa_g calls of its basic oracle.

    Parameters
    ----------
    setting : {"full", "coordinate", "finite-sum"}
        As in `geartrain.theory.calls`. The inner method is AGM, ACD or LKatyusha. In the last two
        settings the bound holds with probability 1 - delta.
    L : float, optional
        Parameter of the envelope of SAE, R-SAE and SC-SAE.
    method : {"sae", "r-sae", "sc-sae", "afb", "fgm", "ags"}, optional
        SAE where mu = 0 and R-SAE otherwise, unless another one is named; those after the first two
        in the setting "full" only. AFB and SC-SAE start inner runs at y plus the previous
        displacement; their numbers for g assume that this start is at most ten times as far from
        the minimiser as y is. AFB needs mu in the terms, not in their sum alone.
    **constants
        L_h, L_g, eps, mu=0, R=1, delta=0.05, n=None, m=None: see `geartrain.theory.Constants`.

    Examples
    --------
    >>> import geartrain as gt
    >>> most = gt.theory.bound("full", L_h=1, L_g=100, mu=1e-2, eps=1e-6, method="fgm")
    >>> most["h"] == most["g"]
    True
    """
    c = Constants(setting=setting, **constants)
    if setting == "values":
        raise ValueError(
            "there is no bound for setting 'values', whose noise the proofs leave out; "
            "theory.calls gives its order"
        )
    if method is None:
        method = "r-sae" if c.mu > 0.0 else "sae"
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
    if method == "r-sae" and c.mu == 0.0:
        raise ValueError("R-SAE needs mu > 0; use method='sae' for mu = 0")
    if setting != "full" and method not in ("sae", "r-sae"):
        raise ValueError(f"method {method!r} asks g for gradients; use setting 'full'")
    if L is not None:
        as_positive(L, "L")
    if method in ("fgm", "ags", "afb"):
        return {"fgm": _fgm, "ags": _ags, "afb": _afb}[method](c)
    if method == "sc-sae":
        return _sc_sae(c, 0.75 * c.L_h if L is None else L)
    return _sae(c if method == "r-sae" else replace(c, mu=0.0), c.L_h if L is None else L)


# Paper: gradient sliding
def gradient_sliding(*, L_h: float, M: float, eps: float, R: float = 1.0) -> Calls:
    r"""Gradients of h and subgradients of g of gradient sliding (Lan 2016; Section 1 of the paper).

    N iterations with 6 L_h R^2/(N (N + 1)) <= eps, and sum_k T_k <= N + 4 M^2 N^2 (N + 1) (2 N +
    1)/(18 R^2 L_h^2) subgradients; M is twice the Lipschitz constant of g. The number for h is N of
    `geartrain.methods.GradientSliding`.
    """
    for name, value in (("L_h", L_h), ("M", M), ("eps", eps), ("R", R)):
        as_positive(value, name)
    N = max(1, math.ceil(math.sqrt(6.0 * L_h * R**2 / eps + 0.25) - 0.5))
    squares = N * (N + 1) * (2 * N + 1) / 6.0
    return {"h": float(N), "g": N + M**2 * N * squares / (0.75 * R**2 * L_h**2)}


# Paper: conditional gradient sliding
def conditional_gradient_sliding(*, L: float, D: float, eps: float) -> Calls:
    r"""Gradients and linear minimisations until f - f* <= eps (Lan and Zhou 2016; Section 1).

    N iterations with 15 L D^2/(2 (N + 1)(N + 2)) <= eps, at most 12 k - 3 linear minimisations in
    the k-th one, and one gradient and one linear minimisation at the point after the last.
    L is the smoothness of h + g, D the diameter of the set.

    The number 12 k - 3 is that of CndG with C = beta D^2 = 3 k eta. Its first step leaves at most
    C/2 of the model's values above their minimum, and a step from a gap V >= delta, delta what is
    left, takes off V^2/(2 C) or more: so 2 C/(t + 2) is left at the t-th linear minimisation,
    t >= 2. Each one with a gap above eta takes off eta^2/(2 C), so that fewer than
    4 (3 k)^2/(t + 2) follow; t = 6 k - 2 gives 12 k - 3 in all.
    """
    for name, value in (("L", L), ("D", D), ("eps", eps)):
        as_positive(value, name)
    N = max(1, math.ceil(math.sqrt(7.5 * L * D**2 / eps + 0.25) - 1.5))
    return {"h": N + 1.0, "g": N + 1.0, "lmo": 6.0 * N * (N + 1) - 3.0 * N + 1.0}


def frank_wolfe(*, L: float, D: float, eps: float) -> Calls:
    r"""Calls of `geartrain.methods.FrankWolfe` until f - f* <= eps (Jaggi 2013, Theorem 1).

    N iterations with 2 L D^2/(N + 2) <= eps, each with one of all, and those at x_0. L is the
    smoothness of h + g, D the diameter of the set.
    """
    for name, value in (("L", L), ("D", D), ("eps", eps)):
        as_positive(value, name)
    N = max(1, math.ceil(2.0 * L * D**2 / eps) - 2)
    return dict.fromkeys(("h", "g", "lmo"), N + 1.0)


@dataclass(frozen=True)
class _Stages:
    """A method with f(x_N) - f* <= c R^2/(N + shift)^2, restarted every `period` iterations."""

    c: float
    shift: float
    period: int | None  # halves |x - x*|^2; None for no restarts

    def iterations(self, eps: float, R: float) -> int:
        whole = 0
        while True:
            rest = math.sqrt(self.c * R**2 / 2.0**whole / eps) - self.shift
            last = max(1, math.ceil(rest))
            if self.period is None or last <= self.period:
                return last + (0 if self.period is None else whole * self.period)
            whole += 1


def _growth(eta: float, c: Constants) -> int:
    r"""Smallest N with R^2/(2 A_N) <= eps by the two growths of A.

    A_N >= eta (N + 1)^2/4 and A_N >= eta (1 - s)^{-(N-1)}, s = sqrt(mu eta/(1 + mu eta)).
    """
    wanted = c.R**2 / (2.0 * c.eps * eta)
    N = 2.0 * math.sqrt(wanted) - 1.0
    if c.mu > 0.0:
        s = math.sqrt(c.mu * eta / (1.0 + c.mu * eta))
        N = min(N, 1.0 + max(0.0, math.log(wanted)) / -math.log1p(-s))
    return max(1, math.ceil(N))


def _fgm(c: Constants) -> Calls:
    r"""N + 1 gradients; A_N >= max((N + 1)^2/4, (1 - sqrt q)^{-(N-1)})/L, q = mu/L."""
    L = c.L_h + c.L_g
    wanted = L * c.R**2 / (2.0 * c.eps)
    N = 2.0 * math.sqrt(wanted) - 1.0
    if c.mu > 0.0:
        q = min(c.mu / L, 1.0 - 1e-15)
        N = min(N, 1.0 + max(0.0, math.log(wanted)) / -math.log1p(-math.sqrt(q)))
    calls = float(max(1, math.ceil(N)) + 1)
    return {"h": calls, "g": calls}


def _ags(c: Constants) -> Calls:
    """f - f* <= 15 L_h R^2/(N (N + 1)); stages of ceil(sqrt(60 L_h/mu))."""
    period = math.ceil(math.sqrt(60.0 * c.L_h / c.mu)) if c.mu > 0.0 else None
    N = _Stages(15.0 * c.L_h, 0.0, period).iterations(c.eps, c.R)
    return {"h": float(N), "g": float(N * math.ceil(math.sqrt(c.L_g / c.L_h)))}


def _afb(c: Constants, zeta: float = 0.5) -> Calls:
    r"""One gradient of h per iteration, eta = (1 - zeta^2)/L_h, alpha = L_h.

    The rule lambda \|grad phi(v)\| <= zeta lambda \|G\| follows from \|grad phi(v)\| <=
    zeta/(1 + zeta) \|v - y\|/lambda, and \|v - y\| >= \|v* - y\| - \|grad phi(v)\|/alpha.
    """
    N = _growth((1.0 - zeta**2) / c.L_h, c)
    left = zeta / (1.0 + zeta) * max(c.L_h - c.mu, 1e-3 * c.L_h)
    inner = agm_calls(c.L_h, c.L_g, left / (1.0 + left / c.L_h) / FAR)
    return {"h": float(N), "g": float(N * (1 + inner))}


def _sc_sae(c: Constants, L: float) -> Calls:
    r"""Two gradients of h per iteration: the first middle step passes the test.

    The model's error is at most L_h/2 \|v - y\|, the inner run leaves r L \|v - y\| with r = 0.95
    (1 - L_h/(2 L)), together at most L \|v - y\|.
    """
    slack = 1.0 - 0.5 * c.L_h / L
    if slack <= 0.1:
        raise ValueError(
            f"SC-SAE has this bound for L > 5/9 L_h = {c.L_h / 1.8:g} only, got L = {L:g}"
        )
    r, alpha = 0.95 * slack, L + 0.5 * c.L_h
    N = _growth(1.0 / L, c)
    inner = agm_calls(alpha, c.L_g, r * L / (1.0 + r * L / alpha) / FAR)
    return {"h": 2.0 * N, "g": float(N * (1 + inner))}


def _sae(c: Constants, L: float, sigma: float = 0.5, accuracy: float = 0.2) -> Calls:
    r"""N (K + 1) gradients of h; for g one gradient and K inner runs per iteration.

    Inner runs start at zeta with \|zeta - v*\| <= (1 + q) D, q = L_h/(L + L_h), and
    \|v - x\| >= (1 - q) D - \|grad phi(v)\|/(L + L_h): hence the target.
    """
    L_h, L_g, size = c.L_h, c.L_g, c.size
    period = math.ceil(math.sqrt(8.0 * L / c.mu)) if c.mu > 0.0 else None
    N = _Stages(2.0 * L, 1.0, period).iterations(c.eps, c.R)
    r, alpha = accuracy * sigma, L + L_h
    smooth = size**2 * L_g if c.setting == "coordinate" else L_g
    K = middle_steps(L, L_h, L_h + smooth, sigma, r)
    target = r * L / (1.0 + r * L / alpha) * L / (L + 2.0 * L_h)
    runs = N * K
    if c.setting == "full":
        gradients, inner = N + 1, runs * agm_calls(alpha, L_g, target)
    elif c.setting == "coordinate":
        gradients = size * (N + 1)
        inner = runs * coordinate_calls(alpha, L_g, size, target, c.delta / runs)
    else:
        gradients = size * (N + 1)
        inner = loopless_calls(alpha, L_g, size, target, c.delta, runs)
    return {"h": float(N * (K + 1)), "g": float(gradients + inner)}


def middle_steps(L: float, L_h: float, L_f: float, sigma: float, r: float) -> int:
    r"""Steps of GMCO (Step 2 of the proof) until the test passes; inner runs leave r L \|v - x\|.

    L_f is the smoothness of f. Let d_k = \|zeta_k - zeta*\|. The exact step contracts by
    q = L_h/(L + L_h), so d_{k+1} <= q d_k + s (d_{k+1} + D), s = r L/(L + L_h); and the test passes
    at zeta_{k+1} if L_h (d_k + d_{k+1}) <= (sigma - r) L (D - d_{k+1}). Where the limit of d_k is
    too large for that, values decide: a step after which the test fails has
    (1 + theta) (F(zeta_{k+1}) - F*) <= F(zeta_k) - F*, theta = 2 L c ((sigma - r)/(sigma L_h))^2
    with c = (L + L_h)/2 - r L_h/(sigma - r), and the test fails only while
    F(zeta_k) - F* > sigma^2 L^2 D^2/(2 (sqrt(L + L_f) + sigma sqrt L)^2).
    """
    if L_h <= (sigma - r) * L:
        return 1
    q, s = L_h / (L + L_h), r * L / (L + L_h)
    d, K = 1.0, 0
    limit = s / (1.0 - s - q)
    if L_h * 2.0 * limit < (sigma - r) * L * (1.0 - limit):
        while True:
            d_next = (q * d + s) / (1.0 - s)
            K += 1
            if L_h * (d + d_next) <= (sigma - r) * L * (1.0 - d_next):
                return K
            d = d_next
    c = 0.5 * (L + L_h) - r * L_h / (sigma - r)
    theta = 2.0 * L * c * ((sigma - r) / (sigma * L_h)) ** 2
    first = 0.5 * L_h + 2.0 * (r * L) ** 2 / (L + L_h)
    last = 0.5 * (sigma * L) ** 2 / (math.sqrt(L + L_f) + sigma * math.sqrt(L)) ** 2
    return 2 + math.floor(math.log(first / last) / math.log1p(theta))


# Basic calls of one inner run until |grad phi(v)| <= T |v^0 - v*|.


def agm_calls(alpha: float, L_g: float, target: float) -> int:
    r"""Steps of AGM, that is gradients of g after the one at the start.

    v_k = (1 - t) x_k + t z_k with t^2 <= (1/A_k + alpha)/M, phi(x_k) - phi* <= R^2/(2 A_k) and
    \|z_k - v*\|^2 <= R^2/(1 + alpha A_k) give \|grad phi(v_k)\|^2 <= 2 M (phi(v_k) - phi*) <=
    (1 + 1/sqrt q) M R^2/A_k, q = alpha/M. A_k grows as for FGM.
    """
    M = L_g + alpha
    root = math.sqrt(alpha / M)
    wanted = (1.0 + 1.0 / root) * (M / target) ** 2  # of M A_k
    k = 2.0 * math.sqrt(wanted) - 1.0
    if root < 1.0:
        k = min(k, 1.0 + max(0.0, math.log(wanted)) / -math.log1p(-root))
    return max(1, math.ceil(k))


def coordinate_calls(alpha: float, L_bar: float, n: int, target: float, delta: float) -> int:
    r"""Partial derivatives of ACD, with probability 1 - delta; a test costs n of them.

    E[P_{j+1}] <= (1 - tau) P_j for P = phi(y) - phi* + alpha/2 \|z - v*\|^2, so by Ville's
    inequality P_j <= (1 - tau)^j P_0/delta for all j at once; 1/tau <= 1 + S/sqrt(alpha), and
    \|grad phi(y)\|^2 <= 2 M P with M <= n^2 L_g-bar + alpha.
    """
    M = n**2 * L_bar + alpha
    K = n * (math.sqrt(L_bar / alpha) + 1.0)  # at least S/sqrt(alpha)
    steps = (1.0 + K) * max(0.0, math.log(M * (M + alpha) / (target**2 * delta)))
    # A chunk has at least n steps, so that the tests cost at most as much, and at most max(n, K).
    return math.ceil(2.0 * steps + max(n, math.ceil(K)) + n)


def loopless_calls(
    alpha: float, L_hat: float, m: int, target: float, delta: float, runs: int
) -> int:
    r"""Gradients of summands of all `runs` runs of LKatyusha, with probability 1 - delta.

    The potential of `geartrain.inner.LKatyusha` falls by 1 - rate per step in expectation; by
    Ville's inequality with delta/(3 runs) it is small at the first snapshot after `steps`. The
    snapshots before, and the steps up to that one, are sums of coin flips (Chernoff's bounds,
    delta/3 each).
    A run that is handed a gradient asks for the m slopes of its snapshot once more.
    """
    M, p = L_hat + alpha, 1.0 / m
    theta = min(math.sqrt(2.0 * alpha / (3.0 * p * L_hat)), 0.5)
    growth = alpha / (3.0 * theta * L_hat)  # eta sigma
    rate = min(growth / (1.0 + growth), 0.5 * theta, p * theta / (1.0 + theta))
    start = 1.5 * theta * L_hat * (1.0 + growth) + 0.5 * M * (1.0 + 0.5 * (1.0 + theta) * m) / theta
    # W = theta_2 (1 + theta_1)/(p theta_1) (phi(w) - phi*), |grad phi(w)|^2 <= 2 M (phi(w) - phi*)
    inside = 2.0 * M * start * 2.0 * p * theta / (1.0 + theta) / target**2
    steps = max(1.0, math.log(max(inside * 3.0 * runs / delta, 1.0)) / -math.log1p(-rate))
    sure = math.log(3.0 / delta)
    snapshots = runs + 2.0 * runs * steps * p + 3.0 * sure
    waiting = m * (2.0 * runs + 8.0 * sure)
    return math.ceil(runs * steps + waiting + m * (snapshots + runs))
