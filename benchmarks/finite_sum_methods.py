"""The inner methods for finite sums: calls against m and L/alpha, beside sqrt(m L/alpha).

phi(v) = <beta, v> + alpha/2 |v|^2 + (1/m) sum_k 1/2 (<a_k, v> - y_k)^2 with rows of norm 1 (L = 1),
badly conditioned, solved to |grad phi| <= 1e-6 |grad phi(v_0)|. Calls are gradients of summands
(and m for every gradient of g), geometric means over seeds; exponents are in L/alpha at m = 100 and
in m at L/alpha = 1e5, both stated as 1/2.

    python benchmarks/finite_sum_methods.py [--quick]
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import geartrain as gt
from geartrain.core.loop import basic_calls
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.problem import Model

INNER = {
    "katyusha": gt.Katyusha,
    "l-katyusha": gt.inner.LKatyusha,
    "varag": gt.inner.Varag,
    "rpdg": gt.inner.RPDG,
    "spdc": gt.inner.SPDC,
    "apcg": gt.inner.APCG,
}
ACCURACY = 1e-6


def calls(make, m, kappa, seed, n=40):
    """Basic calls of one inner run."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)) * np.geomspace(1.0, 1e-3, n)
    A /= np.linalg.norm(A, axis=1)[:, None]
    g = gt.LinearModel(A, rng.standard_normal(m), loss="squared")
    oracle = Oracle(g, "g", Ledger(), n)
    phi = Model(oracle, rng.standard_normal(n), 1.0 / kappa, L_g=g.L, key=(seed,))
    inner = make()
    state = inner.init(phi, np.zeros(n), None)
    first = np.linalg.norm(phi.grad(state.v, state.grad_g))
    while np.linalg.norm(phi.grad(state.v, state.grad_g)) > ACCURACY * first:
        state = inner.step(phi, state)
    return basic_calls(oracle, inner.needs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, fewer points")
    quick = parser.parse_args().quick
    seeds = range(1 if quick else 5)
    kappas = (1e3, 1e4, 1e5) if quick else (1e3, 1e4, 1e5, 1e6)
    sizes = (50, 200) if quick else (50, 100, 200, 400)
    print("calls over (m + sqrt(m L/alpha)) ln(1/accuracy)")
    head = "".join(f"{f'L/alpha = {k:g}':>17}" for k in kappas)
    head += "".join(f"{f'm = {m}':>10}" for m in sizes)
    print(f"{'':12}{head}{'in L/alpha':>14}{'in m':>8}")
    for name, make in INNER.items():
        rows = []
        for points in ([(100, k) for k in kappas], [(m, 1e5) for m in sizes]):
            logs = [[math.log(calls(make, *point, seed)) for seed in seeds] for point in points]
            rows.append(np.exp(np.mean(logs, axis=1)))
        of_kappa, of_m = rows
        unit = math.log(1.0 / ACCURACY)
        cells = "".join(
            f"{c / ((100 + math.sqrt(100 * k)) * unit):17.2f}"
            for c, k in zip(of_kappa, kappas, strict=True)
        )
        cells += "".join(
            f"{c / ((m + math.sqrt(m * 1e5)) * unit):10.2f}"
            for c, m in zip(of_m, sizes, strict=True)
        )
        slopes = [
            np.polyfit(np.log(axis), np.log(found), 1)[0]
            for axis, found in ((kappas, of_kappa), (sizes, of_m))
        ]
        print(f"{name:12}{cells}{slopes[0]:14.2f}{slopes[1]:8.2f}", flush=True)


if __name__ == "__main__":
    main()
