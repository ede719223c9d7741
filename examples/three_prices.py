r"""
Three prices: a fine grid, a coarse grid and a regulariser
==========================================================

The initial temperature u of a rod is to be found from two kinds of measurements:

.. math:: \min_u \; \underbrace{\tfrac{w_1}{2}\|S_1 F u - a\|^2}_{h_1}
          + \underbrace{\tfrac{w_2}{2}\|C u - b\|^2}_{h_2}
          + \underbrace{\tfrac{w_3}{2}\|D u\|^2 + \tfrac{\mu}{2}\|u\|^2}_{g}

*h1*
    A few sensors that have measured early. Predicting them takes many small time steps on a fine
    grid.
*h2*
    Pictures of the whole rod at a later time. By then the temperature is smooth, and a few large
    time steps on a coarse grid predict it.
*g*
    The regulariser: one difference per point.

A gradient of h1 costs 200 times as much as one of g, and one of h2 costs 10 times as much. With
two terms, h2 has to be asked as often as h1 or as often as g. ``gt.minimize({"fine": h1, "coarse":
h2}, g)`` asks each of the three as often as its own constant requires.

Run it by ``python examples/three_prices.py``; ``--help`` lists the options.
"""

# %%
# Options
# -------
from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded

import geartrain as gt

Array = NDArray[Any]

parser = argparse.ArgumentParser(description="Three prices: fine grid, coarse grid, regulariser.")
parser.add_argument("--points", type=int, default=96, help="points of the fine grid (96)")
parser.add_argument("--quick", action="store_true", help="48 points and fewer time steps")
parser.add_argument("--out", default="out/examples", help="folder of the picture; '' for none")
args = parser.parse_args()
n = 48 if args.quick else args.points
if n < 16 or n % 4:
    parser.error("--points must be a multiple of 4, and at least 16")

# %%
# The two simulators
# ------------------
# Implicit Euler steps of the heat equation. They are symmetric, so a gradient takes one run
# forward and one run backward.


def heat(u: Array, time: float, steps: int) -> Array:
    """The temperature after `time`, on the grid of u."""
    r = time / steps * (len(u) + 1) ** 2
    bands = np.empty((3, len(u)))
    bands[:] = [[-r], [1.0 + 2.0 * r], [-r]]
    for _ in range(steps):
        u = solve_banded((1, 1), bands, u)
    return u


fine_steps, coarse_steps = (50, 10) if args.quick else (100, 20)
sensors = np.linspace(0, n - 1, 14).astype(int)[1:-1]


def fine(u: Array) -> Array:
    """What the sensors show early."""
    return heat(u, 2e-4, fine_steps)[sensors]


def fine_adjoint(a: Array) -> Array:
    """Its adjoint."""
    source = np.zeros((n, *a.shape[1:]))
    source[sensors] = a
    return heat(source, 2e-4, fine_steps)


def coarse(u: Array) -> Array:
    """The temperature of groups of four points at a later time."""
    return heat(u.reshape(n // 4, 4, *u.shape[1:]).mean(axis=1), 2e-3, coarse_steps)


def coarse_adjoint(b: Array) -> Array:
    """Its adjoint."""
    return np.repeat(heat(b, 2e-3, coarse_steps), 4, axis=0) / 4.0


# %%
# The three terms
# ---------------
# Their constants are the largest eigenvalues, from a few runs of the simulators in practice; here
# the matrices are small enough.
place = np.linspace(0.0, 1.0, n)
truth = np.exp(-(((place - 0.3) / 0.05) ** 2)) + 0.7 * ((place > 0.55) & (place < 0.8))
rng = np.random.default_rng(0)
seen_fine = fine(truth) + 0.02 * rng.standard_normal(len(sensors))
seen_coarse = coarse(truth) + 0.005 * rng.standard_normal(n // 4)
F, C = fine(np.eye(n)), coarse(np.eye(n))
D = np.diff(np.eye(n), axis=0)
mu = 1e-3
weights = {
    "fine": 1.0 / float(np.linalg.norm(F, 2)) ** 2,
    "coarse": 40.0 / float(np.linalg.norm(C, 2)) ** 2,
}


def misfit(simulate: Any, adjoint: Any, seen: Array, weight: float) -> gt.Term:
    """weight/2 |simulate(u) - seen|^2; L is the weight times the largest eigenvalue."""

    def value_and_grad(u: Array) -> tuple[float, Array]:
        residual = simulate(u) - seen
        return 0.5 * weight * float(residual @ residual), weight * adjoint(residual)

    L = weight * float(np.linalg.norm(simulate(np.eye(n)), 2)) ** 2
    return gt.Term(value_and_grad, n=n, L=L)


h = {
    "fine": misfit(fine, fine_adjoint, seen_fine, weights["fine"]),
    "coarse": misfit(coarse, coarse_adjoint, seen_coarse, weights["coarse"]),
}
g = gt.Quadratic(400.0 * D.T @ D + mu * np.eye(n))
terms: dict[str, Any] = {**h, "g": g}
# Prices: points times steps of one gradient.
work = {"fine": 2 * n * fine_steps, "coarse": 2 * n // 4 * coarse_steps, "g": n}
prices = {f"{name}.grad": amount / work["g"] for name, amount in work.items()}
print("L     ", {name: round(float(term.L), 2) for name, term in terms.items()})
print("prices", {key: round(price, 1) for key, price in prices.items()})

# %%
# The runs
# --------
# The minimiser is known from the matrices. Every method runs until f - f* is 1e-8 of its start.
hessian = weights["fine"] * F.T @ F + weights["coarse"] * C.T @ C + g.Q
right = weights["fine"] * F.T @ seen_fine + weights["coarse"] * C.T @ seen_coarse
u_star = np.linalg.solve(hessian, right)
names = ("fine", "coarse", "g")


def f(u: Array) -> float:
    """The sum of the three terms."""
    return sum(term.value_and_grad(u)[0] for term in terms.values())


f_star, f_0 = f(u_star), f(np.zeros(n))
enough = gt.stop.Value(f_star + 1e-8 * (f_0 - f_star))
train = gt.methods.Train
methods: dict[str, Any] = {
    "three levels": train((("fine",), ("coarse",), ("g",)), gt.methods.AFB()),
    "fine > coarse + g": train((("fine",), ("coarse", "g")), gt.methods.AFB()),
    "fine + coarse > g": train((("fine", "coarse"), ("g",)), gt.methods.AFB()),
    "FGM on the sum": "fgm",
    "auto": "auto",
}
results = {
    name: gt.minimize(h, g, method=m, prices=prices, stop=enough, max_iter=10**6)
    for name, m in methods.items()
}
print(f"\n{'':20s}{'fine':>8s}{'coarse':>8s}{'g':>9s}{'bill':>12s}")
bills = {}
for name, res in results.items():
    asked = [res.calls[f"{term}.grad"] for term in names]
    bills[name] = sum(res.calls[key] * price for key, price in prices.items())
    print(f"{name:20s}{asked[0]:8d}{asked[1]:8d}{asked[2]:9d}{bills[name]:12,.0f}")
print("\nauto:", results["auto"].plan)

# %%
# Three gears
# -----------
# On the left, each term of the train turns at a rate of its own; FGM turns all of them at the rate
# of the fastest. On the right is the bill.
colours = {"fine": "#0072B2", "coarse": "#E69F00", "g": "#009E73"}
figure, (left, right_) = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")


def gap(res: Any) -> Array:
    """(f - f*)/(f_0 - f*) along a run."""
    return np.maximum((res.history["f"] - f_star) / (f_0 - f_star), 1e-16)


for term in names:
    res = results["three levels"]
    left.loglog(
        np.maximum(res.history[f"{term}.grad"], 1), gap(res), color=colours[term], label=term
    )
whole = results["FGM on the sum"]
left.loglog(whole.history["g.grad"], gap(whole), "--", color="#777777", label="all, by FGM")
left.set_xlabel("gradients of the term")
left.set_ylabel("$(f - f^*)/(f_0 - f^*)$")
left.set_ylim(1e-8, 2.0)
left.legend(frameon=False)
left.set_title("three levels: every term at its own rate", fontsize=11)
styles = ("-", "-.", ":", "--", "-")
shades = ("#0072B2", "#56B4E9", "#E69F00", "#777777", "#D55E00")
for (name, res), style, shade in zip(results.items(), styles, shades, strict=True):
    bill = sum(res.history[key] * price for key, price in prices.items())
    right_.loglog(bill, gap(res), style, color=shade, label=name)
right_.set_xlabel("bill, in gradients of g")
right_.set_ylim(1e-8, 2.0)
right_.legend(frameon=False, fontsize=8, loc="upper right")
right_.set_title("what it costs", fontsize=11)
for ax in (left, right_):
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
if args.out:
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "three_prices.png", dpi=110)
    print(f"picture: {folder / 'three_prices.png'}")
