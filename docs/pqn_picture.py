"""The picture of the learned method: what its model keeps, and what that saves."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import geartrain as gt

SUM, OURS, OTHER = "0.2", "tab:blue", "tab:red"


def write(path: Path) -> None:
    """Draw it."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 3.8), layout="constrained")
    _models(left)
    _runs(right)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _models(axes: plt.Axes) -> None:
    """In one dimension: both models at p, and where they are lowest."""

    def h(x: np.ndarray) -> np.ndarray:
        return 0.5 * (x - 0.5) ** 2 + 0.004 * (x - 0.5) ** 4

    def g(x: np.ndarray) -> np.ndarray:
        return 1.2 * np.sqrt(x**2 + 1e-3)

    x, p, d = np.linspace(-2.2, 2.6, 4801), -1.4, 1e-3

    def parabola(f: object) -> np.ndarray:
        below, at, above = (f(np.array(t)) for t in (p - d, p, p + d))
        slope, bend = (above - below) / (2 * d), (above - 2 * at + below) / d**2
        return at + slope * (x - p) + bend / 2 * (x - p) ** 2

    f = h(x) + g(x)
    kept, whole = parabola(h) + g(x), parabola(lambda t: h(t) + g(t))
    axes.plot(x, f, color=SUM, lw=2.5, label="f = h + g")
    axes.plot(x, kept, color=OURS, label="pqn: a model of h, plus g itself")
    axes.plot(x, whole, color=OTHER, ls="--", label="L-BFGS: a model of the sum")
    axes.plot(p, np.interp(p, x, f), "o", color=SUM)
    axes.annotate("p", (p, np.interp(p, x, f)), (-12, -12), textcoords="offset points")
    for model, color in ((kept, OURS), (whole, OTHER)):
        v = x[model.argmin()]
        axes.plot(v, np.interp(v, x, f), "v", color=color, ms=9)
    axes.set(title="One step: the next point (triangle)", xlabel="x", ylim=(f.min() - 1.3, 6.5))
    axes.legend(loc="upper center", fontsize=9)


def _runs(axes: plt.Axes) -> None:
    """The example of the README: f - f* against gradients of h."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 200)) * np.geomspace(1, 0.01, 200)
    D = np.diff(np.eye(200), axis=0)
    h = gt.LinearModel(A, np.sign(A @ rng.standard_normal(200)))
    g = gt.Quadratic(10 * D.T @ D + 1e-4 * np.eye(200))
    runs = {name: gt.minimize(h, g, method=name, record="f", tol=1e-8) for name in ("pqn", "lbfgs")}
    best = min(res.fun for res in runs.values())
    for (name, res), color in zip(runs.items(), (OURS, OTHER), strict=True):
        gap = np.maximum(np.array(res.history["f"]) - best, 1e-16)
        label = "L-BFGS on the sum" if name == "lbfgs" else name
        axes.loglog(res.history["h.grad"], gap, color=color, label=label)
    axes.set(title="A whole run: the ten lines of the README", ylim=(1e-12, None))
    axes.set(xlabel="gradients of h", ylabel="f - f*")
    axes.legend(fontsize=9)
