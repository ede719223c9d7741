r"""The law of equilibria: calls of P and of Q when L_P, L_Q or 1/mu grows.

P turns some planes, with speeds between mu and L_P, and Q turns the planes orthogonal to them, with
speeds between mu and L_Q; Q has mu times the identity besides. So both are skew apart from mu, the
hardest case for first-order methods. The zero z* is planted, runs start at 0 and end at the
residual that proves |z - z*| <= 1e-6 |z*|. For `hpe` the stated exponents are those of
N_P = O(L_P/mu) and N_Q = O((L_P + L_Q)/mu); whoever takes P and Q together asks both
O((L_P + L_Q)/mu) times.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import geartrain as gt
from geartrain_lab.chart import Chart, Curve
from geartrain_lab.laws.common import Row, arguments, exponent, geometric_means, write_csv
from geartrain_lab.static import sheet

METHODS = ("hpe", "extragradient")
# Constant that grows -> its levels, and the others meanwhile.
SWEEPS: dict[str, tuple[tuple[float, ...], dict[str, float]]] = {
    "L_Q": ((3.0, 10.0, 30.0, 100.0), {"L_P": 1.0, "mu": 0.05}),
    "L_P": ((1.0, 3.0, 10.0, 30.0), {"L_Q": 30.0, "mu": 0.3}),
    "1/mu": ((3.0, 10.0, 30.0, 100.0), {"L_P": 1.0, "L_Q": 10.0}),
}
SHOWN = {"L_Q": "$L_Q$", "L_P": "$L_P$", "1/mu": "$1/\\mu$"}
TOL = 1e-6


def calls(method: str, L_P: float, L_Q: float, mu: float, n: int = 40, seed: int = 0) -> list[int]:
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
    return [res.calls["P.operator"], res.calls["Q.operator"]]


def sweep(seeds: Sequence[int] = (0, 1, 2), every: int = 1, n: int = 40) -> list[Row]:
    """Rows: the constant that grows, method, its level, calls of P, calls of Q."""
    out: list[Row] = []
    for name, (levels, others) in SWEEPS.items():
        for method in METHODS:
            for level in levels[::every]:
                own = {"mu": 1.0 / level} if name == "1/mu" else {name: level}
                found = [calls(method, **own, **others, n=n, seed=seed) for seed in seeds]
                out.append((name, method, level, *geometric_means(found)))
    return out


def exponents(rows: list[Row], name: str, method: str) -> tuple[float, float]:
    """Of the calls of P and of Q in a constant."""
    _, _, level, n_P, n_Q = zip(*[row for row in rows if row[:2] == (name, method)], strict=True)
    return exponent(level, n_P), exponent(level, n_Q)


def report(rows: list[Row]) -> None:
    """Print the calls and their exponents."""
    print("calls of P / of Q by the constant that grows, and the exponents in it")
    for name, (levels, others) in SWEEPS.items():
        fixed = ", ".join(f"{k} = {v:g}" for k, v in others.items())
        print(f"{name + ': ' + ', '.join(f'{x:g}' for x in levels):28}{fixed}")
        for method in METHODS:
            found = [f"{row[3]:.0f} / {row[4]:.0f}" for row in rows if row[:2] == (name, method)]
            of_P, of_Q = exponents(rows, name, method)
            line = "".join(f"{cell:>16}" for cell in found)
            print(f"  {method:16}{line}{of_P:>9.2f}{of_Q:>7.2f}")


def draw(rows: list[Row], path: Path) -> None:
    """Calls against each constant."""
    charts = []
    for name in SWEEPS:
        curves = []
        for method, paint in zip(METHODS, ("#0072B2", "#7F7F7F"), strict=True):
            mine = [row for row in rows if row[:2] == (name, method)]
            level, of_P, of_Q = ([row[j] for row in mine] for j in (2, 3, 4))
            both = " and Q" * (of_P == of_Q)  # they are asked together
            curves.append(Curve(f"{method}, P{both}", level, of_P, colour=paint, mark="marked"))
            if not both:
                dashed = Curve(f"{method}, Q", level, of_Q, colour=paint, mark="marked", dash=True)
                curves.append(dashed)
        charts.append(
            Chart("", SHOWN[name], "calls until $\\|z - z^*\\| \\leq 10^{-6}\\,\\|z^*\\|$", curves)
        )
    (picture,) = sheet(path.parent, path.stem, "The law of equilibria", charts, 3, ["png"])
    print(f"picture: {picture}")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the table and the picture."""
    args = arguments(__doc__, argv, "fewer points, one seed", "equilibria")
    rows = sweep(seeds=(0,), every=3) if args.quick else sweep()
    head = ("constant", "method", "level", "P.operator", "Q.operator")
    write_csv(args.out / "equilibria_law.csv", head, rows)
    report(rows)
    draw(rows, args.out / "equilibria_law.png")
