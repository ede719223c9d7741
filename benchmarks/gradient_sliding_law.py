"""Gradient sliding: gradients of h and subgradients of a non-smooth g against the accuracy.

h = 1/2 x'Qx - b'x, g = lambda |x|_1 with a known minimiser; N and T_k as Lan (2016) sets them for
each accuracy. Stated: N_h ~ eps^-1/2, N_g ~ eps^-2. Measured: calls until f - f* <= eps, and those
of the whole stage, N iterations, which the theory asks for.

    python benchmarks/gradient_sliding_law.py [--quick]
"""

from __future__ import annotations

import argparse

import numpy as np

import geartrain as gt
from geartrain.datasets import KnownProblem
from geartrain_lab.laws.law import calls_to, exponent, geometric_means

N_FEATURES, LAMBDA = 40, 0.2


def problem(seed):
    """Terms, minimiser, constants."""
    rng = np.random.default_rng(seed)
    q = np.geomspace(1e-3, 1.0, N_FEATURES)
    b = rng.standard_normal(N_FEATURES) * np.sqrt(q)
    each = LAMBDA / np.sqrt(N_FEATURES)
    x_star = np.sign(b) * np.maximum(np.abs(b) - each, 0.0) / q
    h = gt.Quadratic(np.diag(q), b=b)
    g = gt.Term(
        value=lambda x: each * float(np.abs(x).sum()),
        grad=lambda x: each * np.sign(x),
        n=N_FEATURES,
    )
    known = KnownProblem(h, g, x_star, h.value(x_star) + g.value(x_star))
    return known, {"M": 2.0 * LAMBDA, "R": float(np.linalg.norm(x_star))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, fewer accuracies")
    quick = parser.parse_args().quick
    seeds = range(1 if quick else 3)
    accuracies = 10.0 ** -np.linspace(0.5, 1.5 if quick else 3.0, 3 if quick else 6)
    rows = []
    print(f"{'eps/f(0)':>10}{'N':>8}{'N_h':>10}{'N_g':>12}{'stage: N_h':>14}{'N_g':>12}")
    for accuracy in accuracies:
        found = []
        for seed in seeds:
            known, numbers = problem(seed)
            eps = accuracy * (known.g.value(np.zeros(N_FEATURES)) - known.f_star)
            most = gt.theory.gradient_sliding(L_h=known.h.L, eps=eps, **numbers)
            method = gt.methods.GradientSliding(N=int(most["h"]), **numbers)
            calls = calls_to(known, eps, method, max_iter=10**6)
            found.append((calls["h.grad"], calls["g.grad"], most["h"], most["g"]))
        mean = geometric_means(found)
        rows.append(mean)
        print(
            f"{accuracy:>10.3g}{mean[2]:>8.0f}{mean[0]:>10.1f}{mean[1]:>12.0f}"
            f"{mean[2]:>14.1f}{mean[3]:>12.0f}",
            flush=True,
        )
    slopes = [exponent(accuracies, column) for column in np.array(rows).T]
    print(f"exponents of eps: N_h {slopes[0]:.2f} (stated -0.5), N_g {slopes[1]:.2f} (stated -2);")
    print(f"of the whole stage: N_h {slopes[2]:.2f}, N_g {slopes[3]:.2f}")


if __name__ == "__main__":
    main()
