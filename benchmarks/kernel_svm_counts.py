"""Kernel SVM on the gas sensor minutes: calls to f - f* <= 1e-3, SAE with Katyusha against AGS.

Banana against wine, 3,032 rows; RBF kernel with gamma = 0.1, h = lambda/2 x'Kx with lambda = 0.01,
g the mean smoothed hinge (mu = 0.1) with an intercept, x0 = 0. A pass is one gradient of g or m
component gradients.

    GEARTRAIN_DATA=DIR python benchmarks/kernel_svm_counts.py
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np

import geartrain as gt

F_STAR = 0.74709404
FEATURES = ("minute", *(f"R{i}" for i in range(1, 9)), "Temp", "Humidity")


def load():
    """Features scaled to [0, 1], labels +1 for banana and -1 for wine."""
    path = Path(os.environ.get("GEARTRAIN_DATA", ".")) / "gas_sensors_minutes.csv"
    with path.open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["class"] in ("banana", "wine")]
    X = np.array([[float(row[name]) for name in FEATURES] for row in rows])
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    return X, np.array([1.0 if row["class"] == "banana" else -1.0 for row in rows])


def problem(gamma=0.1, lam=0.01, mu=0.1):
    """The two terms on the coefficients and the intercept."""
    X, y = load()
    size = np.einsum("ij,ij->i", X, X)
    K = np.exp(-gamma * np.maximum(size[:, None] + size - 2.0 * X @ X.T, 0.0))
    bordered = np.zeros((len(y) + 1, len(y) + 1))
    bordered[:-1, :-1] = lam * K
    g = gt.LinearModel(K, y, loss="smoothed_hinge", mu=mu, intercept=True)
    return gt.Quadratic(bordered), g


def main():
    h, g = problem()
    L_h, L_g = h.L, g.L
    print(f"m = {g.m}, L_h = {L_h:.4g}, L_g = {L_g:.5g}, mean L_k = {g.L_components.mean():.5g}")
    methods = {
        "AGS": gt.AGS(),
        "SAE, Katyusha; L = 2 L_h, sigma = 0.9": gt.SAE(
            L=2.0 * L_h, sigma=0.9, accuracy=0.5, inner=gt.Katyusha()
        ),
        "SAE, Katyusha; L = L_h, sigma = 1/2": gt.SAE(inner=gt.Katyusha()),
        "SAE, loopless Katyusha; L = 2 L_h, sigma = 0.9": gt.SAE(
            L=2.0 * L_h, sigma=0.9, accuracy=0.5, inner=gt.LKatyusha()
        ),
        "SAE, Varag; L = 2 L_h, sigma = 0.9": gt.SAE(
            L=2.0 * L_h, sigma=0.9, accuracy=0.5, inner=gt.Varag()
        ),
        "SC-SAE, Katyusha": gt.SCSAE(inner=gt.Katyusha()),
    }
    print(f"{'method':48}{'h.grad':>8}{'per AGS':>9}{'passes':>9}{'per AGS':>9}{'f - f*':>11}")
    base = None
    for name, method in methods.items():
        stop = gt.stop.Value(F_STAR + 1e-3)
        res = gt.minimize(h, g, method=method, stop=stop, L_h=L_h, L_g=L_g, max_iter=1000)
        n_h = res.calls["h.grad"]
        passes = res.calls["g.grad"] + res.calls["g.component"] / g.m
        base = base or (n_h, passes)
        print(
            f"{name:48}{n_h:8d}{n_h / base[0]:9.2f}{passes:9.0f}{passes / base[1]:9.3f}"
            f"{res.fun - F_STAR:11.2e}{'' if res.success else '  ' + res.message}",
            flush=True,
        )
    print("goal: h.grad at most 1.2, passes at most 0.25 of AGS")


if __name__ == "__main__":
    main()
