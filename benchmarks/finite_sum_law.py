"""The separation law for finite sums: who is asked how often when one constant grows.

f = h + g, h quadratic, g a mean of m squared losses whose rows have equal norms, mu > 0 in the sum,
h and g badly conditioned in different directions, m L_h <= L_g-hat; solved to f - f* <= 1e-6.
Component gradients are component calls plus m for each full gradient.

    python benchmarks/finite_sum_law.py [--quick]
"""

from __future__ import annotations

import argparse

import numpy as np

import geartrain as gt

MU, L_H, EPS = 1e-2, 1.0, 1e-6


def problem(m, L_hat, seed, n=40):
    """Rows of norm sqrt(L_hat) in one half of the space, the curvature of h in the other."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    half = n // 2
    A = rng.standard_normal((m, half)) * np.geomspace(1.0, 1e-3, half)
    A *= np.sqrt(L_hat / np.einsum("ij,ij->i", A, A))[:, None]
    spectrum = np.full(n, MU)
    spectrum[half:] = np.geomspace(MU, L_H, half)
    x_star = rng.standard_normal(n)
    A = A @ U[:, :half].T
    H = (U * spectrum) @ U.T
    h = gt.Quadratic((H + H.T) / 2, b=H @ x_star)
    g = gt.LinearModel(A, A @ x_star, loss="squared")
    return h, g, h.value(x_star) + g.value(x_star)


def measure(method, m, L_hat, seeds):
    """Geometric means of the gradients of h and of the component gradients of g."""
    calls = []
    for seed in seeds:
        h, g, f_star = problem(m, L_hat, seed)
        stop = gt.stop.Value(f_star + EPS)
        res = gt.minimize(h, g, method=method, stop=stop, L_h=L_H, mu=MU, seed=seed)
        if not res.success:
            raise RuntimeError(f"m = {m}, L_g-hat = {L_hat:g}: {res.message}")
        calls.append((res.calls["h.grad"], res.calls["g.component"] + m * res.calls["g.grad"]))
    return np.exp(np.log(calls).mean(axis=0))


def exponent(constants, calls):
    """Slope of the line through the points in log-log scale."""
    return np.polyfit(np.log(constants), np.log(calls), 1)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed")
    quick = parser.parse_args().quick
    seeds = (0,) if quick else (0, 1, 2)
    methods = {
        "SAE, Katyusha": lambda: gt.Restarted(gt.SAE(inner=gt.Katyusha()), gt.GradientTest()),
        "R-SAE, Katyusha": lambda: gt.RSAE(inner=gt.Katyusha()),
        "SC-SAE, Katyusha": lambda: gt.SCSAE(inner=gt.Katyusha()),
        "AFB, Katyusha": lambda: gt.Restarted(gt.AFB(inner=gt.Katyusha()), gt.GradientTest()),
    }
    in_L = [(100, L_hat) for L_hat in np.geomspace(1e4, 1e6, 3 if quick else 5)]
    in_m = [(m, 1e5) for m in (50, 100, 200, 400)]
    rows = []
    for name, make in methods.items():
        slopes = []
        for points in (in_L, in_m):
            found = np.array([measure(make(), *point, seeds) for point in points])
            for (m, L_hat), (n_h, n_g) in zip(points, found, strict=True):
                print(
                    f"{name:18} m {m:4d}  L_g-hat {L_hat:8.2g}  h {n_h:7.1f}  g_k {n_g:11.0f}",
                    flush=True,
                )
            axis = [point[1] if points is in_L else point[0] for point in points]
            slopes += [exponent(axis, found[:, 0]), exponent(axis, found[:, 1])]
        rows.append((name, slopes))
    print(f"\n{'exponents':18}", end="")
    print(f"{'h in L_g-hat':>14}{'g_k in L_g-hat':>16}{'h in m':>10}{'g_k in m':>10}")
    print(f"{'stated':18}{'<= 0.12':>14}{'0.5 +- 0.15':>16}{'<= 0.12':>10}{'0.5':>10}")
    for name, slopes in rows:
        a, b, c, d = slopes
        print(f"{name:18}{a:14.2f}{b:16.2f}{c:10.2f}{d:10.2f}")


if __name__ == "__main__":
    main()
