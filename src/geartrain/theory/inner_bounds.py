r"""Basic calls of one inner run until \|grad phi(v)\| <= T \|v^0 - v*\|, with every constant.

=======  ============  ==============================================================
symbol   name          meaning
=======  ============  ==============================================================
alpha    ``alpha``     strong convexity of phi
M        ``M``         smoothness of phi
T        ``target``    wanted size of the gradient, over the distance from the start
=======  ============  ==============================================================
"""

from __future__ import annotations

import math


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
