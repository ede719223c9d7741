"""How far the theory is from what is measured: calls over their order and over their bound.

Quadratics f = h + g whose h and g are badly conditioned in different directions, a grid of L_h, L_g
and mu, solved to f - f* <= eps. Order: `theory.calls` (its constants are 1; for FGM that of
`theory.compare`). Bound: `theory.bound`. The table has, for each method, the smallest, the
geometric mean and the largest of measured/order and of measured/bound over the grid. A bound that
a run exceeds ends the script with an error.

    python benchmarks/theory_factors.py [--quick]
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import replace

import numpy as np

import geartrain as gt
from geartrain.datasets import KnownProblem
from geartrain_lab.laws.law import calls_to

N, M = 40, 80
METHODS = {
    "sae": ("full", lambda mu: gt.SAE()),
    "r-sae": ("full", lambda mu: gt.methods.RSAE()),
    "sc-sae": ("full", lambda mu: gt.methods.SCSAE(mu=mu)),
    "afb": ("full", lambda mu: gt.methods.AFB()),
    "fgm": ("full", lambda mu: gt.methods.FGM(mu=mu)),
    "ags": ("full", lambda mu: gt.methods.AGS(mu=mu)),
    "sae, acd": ("coordinate", lambda mu: gt.SAE(inner=gt.inner.ACD())),
    "r-sae, acd": ("coordinate", lambda mu: gt.methods.RSAE(inner=gt.inner.ACD())),
    "sae, l-katyusha": ("finite-sum", lambda mu: gt.SAE(inner=gt.inner.LKatyusha())),
    "r-sae, l-katyusha": ("finite-sum", lambda mu: gt.methods.RSAE(inner=gt.inner.LKatyusha())),
}


def problem(L_h, L_g, mu, seed):
    """Quadratic h, g a mean of M squared losses with the largest eigenvalue L_g, mu in both."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((N, N)))[0]
    half = N // 2
    H = np.full(N, mu / 2)
    H[:half] = np.geomspace(mu / 2, L_h, half)
    G = np.zeros(N)
    G[half:] = np.geomspace(mu / 2, L_g - mu / 2, N - half)
    rows = np.linalg.qr(rng.standard_normal((M, N)))[0]
    A = np.sqrt(M) * (rows * np.sqrt(G)) @ U.T
    x_star = rng.standard_normal(N)
    H = (U * H) @ U.T
    g = gt.LinearModel(A, A @ x_star, loss="squared", l2=mu / 2)
    H = (H + H.T) / 2
    h = gt.Quadratic(H, b=H @ x_star + mu / 2 * x_star)
    return KnownProblem(h, g, x_star, h.value(x_star) + g.value(x_star))


def unaware(term):
    """The same term, whose strong convexity AFB does not see."""
    return gt.Term(value=term.value, grad=term.grad, L=term.L, n=N)


def measure(name, L_h, L_g, mu, eps, seed):
    """(calls of h, of g's basic oracle), and the same by order and by bound."""
    setting, make = METHODS[name]
    strong = name.split(",")[0] != "sae" and mu > 0.0
    used = mu if strong else 0.0
    known = problem(L_h, L_g, mu or 1e-4, seed)
    g = known.g
    constants = {"L_h": known.h.L, "mu": used, "eps": eps}
    constants["R"] = float(np.linalg.norm(known.x_star))
    constants["L_g"] = {
        "full": g.L,
        "coordinate": float(np.sqrt(g.L_coord).mean() ** 2),
        "finite-sum": float(g.L_components.max()),
    }[setting]
    size = {"full": {}, "coordinate": {"n": N}, "finite-sum": {"m": M}}[setting]
    if name == "fgm":
        order = gt.theory.compare(**constants)["FGM"]
    else:
        order = gt.theory.calls(setting, **constants, **size)
    most = gt.theory.bound(setting, **constants, **size, method=name.split(",")[0])
    if name == "afb" and not strong:
        known = replace(known, h=unaware(known.h), g=unaware(g))
    calls = calls_to(known, eps, make(used), mu=used, seed=seed, max_iter=10**7)
    kappa = next(iter(size.values()), 1)
    asked_g = kappa * calls["g.grad"] + calls["g.coord"] + calls["g.component"]
    asked = np.array([calls["h.grad"], asked_g], dtype=float)
    over_bound = asked / (most["h"], most["g"])
    if over_bound.max() > 1.0:
        raise RuntimeError(f"{name} exceeds its bound at L_h = {L_h:g}, L_g = {L_g:g}, mu = {mu:g}")
    return asked / (order["h"], order["g"]), over_bound


def span(values):
    """Smallest, geometric mean and largest."""
    values = np.array(values)
    return f"{values.min():9.2g}{np.exp(np.log(values).mean()):9.2g}{values.max():9.2g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a part of the grid")
    quick = parser.parse_args().quick
    grid = list(
        itertools.product(
            (1.0,) if quick else (0.1, 1.0),
            (1.0, 100.0) if quick else (1.0, 30.0, 1000.0),
            (0.0, 1e-2) if quick else (0.0, 1e-3, 1e-1),
            (1e-4,) if quick else (1e-2, 1e-6),
        )
    )
    print(f"{'':20}{'measured / order':^54}   {'measured / bound':^54}")
    print(f"{'':20}" + ("   ".join(f"{w:^27}{v:^27}" for w, v in [("h", "g")] * 2)))
    print(f"{'method':20}" + "   ".join([f"{'min':>9}{'mean':>9}{'max':>9}" * 2] * 2), flush=True)
    for name in METHODS:
        strong = name.startswith("r-")
        cells = [c for c in grid if c[2] <= c[0] and not (strong and c[2] == 0.0)]
        if name.startswith("sae"):  # the method for mu = 0
            cells = [c for c in cells if c[2] == 0.0]
        if not cells:
            continue
        found = [measure(name, *cell, seed) for seed, cell in enumerate(cells)]
        order = np.array([f[0] for f in found])
        most = np.array([f[1] for f in found])
        print(
            f"{name:20}{span(order[:, 0])}{span(order[:, 1])}   "
            f"{span(most[:, 0])}{span(most[:, 1])}",
            flush=True,
        )


if __name__ == "__main__":
    main()
