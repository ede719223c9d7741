r"""The law of equilibria: calls of P and of Q when L_P, L_Q or 1/mu grows.

P turns some planes, with speeds between mu and L_P, and Q turns the planes orthogonal to them, with
speeds between mu and L_Q; Q has mu times the identity besides. So both are skew apart from mu, the
hardest case for first-order methods. The zero z* is planted, runs start at 0 and end at the
residual that proves |z - z*| <= 1e-6 |z*|. For `hpe` the stated exponents are those of
N_P = O(L_P/mu) and N_Q = O((L_P + L_Q)/mu); whoever takes P and Q together asks both
O((L_P + L_Q)/mu) times.
"""

from __future__ import annotations

import numpy as np

import geartrain as gt
from geartrain_lab.laws.law import Law, Sweep

TOL = 1e-6


def calls(
    method: str, *, L_P: float, L_Q: float, mu: float, seed: int = 0, n: int = 40
) -> tuple[int, int]:
    """Calls of P and of Q until the residual is small."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    A, B = (
        V @ np.kron(np.diag(np.geomspace(mu, L, n // 4)), turn) @ V.T
        for V, L in ((U[:, : n // 2], L_P), (U[:, n // 2 :], L_Q))
    )
    B += mu * np.eye(n)
    z_star = rng.standard_normal(n)
    shift = (A + B) @ z_star
    P = gt.Operator(lambda z: A @ z - shift, n=n, L=L_P)
    Q = gt.Operator(lambda z: B @ z, n=n, L=float(np.hypot(mu, L_Q)))
    rule = gt.stop.Gradient(abs=TOL * mu * float(np.linalg.norm(z_star)))
    res = gt.equilibrium(P, Q, np.zeros(n), method=method, mu=mu, stop=rule, max_iter=10**5)
    if not res.success:
        raise RuntimeError(f"{method} with L_P={L_P:g}, L_Q={L_Q:g}, mu={mu:g}: {res.message}")
    return res.calls["P.operator"], res.calls["Q.operator"]


_MU = tuple(1.0 / inverse for inverse in (3.0, 10.0, 30.0, 100.0))
EQUILIBRIA = Law(
    "The law of equilibria",
    ("P", "Q"),
    ("hpe", "extragradient"),
    (
        Sweep("L_Q", (3.0, 10.0, 30.0, 100.0), {"L_P": 1.0, "mu": 0.05}, "hpe: P 0, Q at most 1"),
        Sweep("L_P", (1.0, 3.0, 10.0, 30.0), {"L_Q": 30.0, "mu": 0.3}, "hpe: P 1, Q at most 1"),
        Sweep("mu", _MU, {"L_P": 1.0, "L_Q": 10.0}, "hpe: P -1, Q -1"),
    ),
    calls,
)
