r"""
A simulator with a budget: irrigation
=====================================

How much water should every sprinkler of a farm give in every week, if water is short?

.. math:: \min_x \; \underbrace{\textstyle\sum_k \tfrac12\|\max(\text{need} - m_k(x), 0)\|^2_w}_{h}
          + \underbrace{\langle c, x\rangle + \tfrac{\nu}{2}\|D x\|^2}_{g}
          \quad\text{subject to}\quad l \le A x \le u, \; 0 \le x \le 1

*h*
    The harvest that is lost where the soil is too dry. The moisture m follows from a simulation:
    water spreads and evaporates in a soil that is different everywhere, day by day. The gradient
    takes another run backwards. One call takes about a tenth of a second.
*g*
    The price of pumping, and the wear of pumps whose rate changes from week to week.
*A*
    The water right of the season, the yield of every well in every week, and a minimum for each of
    the four tenants: **linear inequality constraints**. The rates of the pumps have **bounds**.

The multipliers of the constraints are **shadow prices**: what one more unit of water is worth.

Run it by ``python examples/water_budget.py``; ``--help`` lists the options.
"""

# %%
# Options
# -------
from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse
from scipy.ndimage import gaussian_filter
from scipy.sparse.linalg import splu

import geartrain as gt

Array = NDArray[Any]

parser = argparse.ArgumentParser(description="A simulator with a budget: irrigation.")
parser.add_argument("--side", type=int, default=100, help="cells of the grid along a side (100)")
parser.add_argument("--quick", action="store_true", help="a grid of 24 and fewer sprinklers")
parser.add_argument("--out", default="out/examples", help="folder of the picture; '' for none")
args = parser.parse_args()
side = 24 if args.quick else args.side
across, weeks, days = (4, 4, 3) if args.quick else (6, 6, 5)
if side < 16:
    parser.error("--side must be at least 16")

# %%
# The simulator
# -------------
# Implicit Euler steps of the diffusion equation with evaporation, a step per day. The matrix is
# factorised once. The farm is a square of side 1.
rng = np.random.default_rng(0)
grid = np.stack(np.meshgrid(*2 * [(np.arange(side) + 0.5) / side], indexing="ij"), axis=-1)
spread = 0.01 * np.exp(gaussian_filter(rng.standard_normal((side, side)), side / 8) * side / 6)
evaporation = (0.9 + 0.4 * grid[..., 0]).ravel()  # one side of the farm is windy
cells = side * side
number = np.arange(cells).reshape(side, side)


def diffusion() -> Any:
    """-div(spread grad m) on the grid; no water leaves through the fence."""
    pairs = ((number[:, :-1], number[:, 1:]), (number[:-1], number[1:]))
    one, two = (np.concatenate([pair[k].ravel() for pair in pairs]) for k in (0, 1))
    flow = side**2 * 0.5 * (spread.ravel()[one] + spread.ravel()[two])
    edges = sparse.csr_array(
        (
            np.concatenate([np.ones(len(one)), -np.ones(len(one))]),
            (np.tile(np.arange(len(one)), 2), np.concatenate([one, two])),
        ),
        shape=(len(one), cells),
    )
    return edges.T @ sparse.diags_array(flow) @ edges


step = 0.2
implicit = splu(
    sparse.csc_array(
        sparse.eye_array(cells) + step * (diffusion() + sparse.diags_array(evaporation))
    )
)
# A sprinkler waters a disc around it; the places form a slightly disturbed grid.
where = (np.arange(across) + 0.5) / across
places = np.stack(np.meshgrid(where, where, indexing="ij"), axis=-1).reshape(-1, 2)
places += 0.25 / across * rng.uniform(-1.0, 1.0, places.shape)
far = ((grid.reshape(-1, 1, 2) - places) ** 2).sum(axis=2)
discs = np.exp(-0.5 * far * (2.5 * across) ** 2)
sprinklers = len(places)
n = weeks * sprinklers

# Crops need different moisture, and are worth differently.
need = 0.35 + 0.25 * (grid[..., 1] > 0.5).ravel()
worth = np.where((grid[..., 0] + grid[..., 1] > 1.0).ravel(), 2.0, 1.0) * 20.0 / cells


def moisture(x: Array) -> list[Array]:
    """The moisture after every day; x has a row per week and a column per sprinkler."""
    m, out = np.full(cells, 0.3), []
    for rates in x.reshape(weeks, sprinklers):
        water = step * (discs @ rates)
        for _ in range(days):
            m = implicit.solve(m + water)
            out.append(m)
    return out


def lost_harvest(x: Array) -> tuple[float, Array]:
    """h and its gradient: a run forwards and one backwards."""
    lacking = [np.maximum(need - m, 0.0) for m in moisture(x)]
    value = sum(0.5 * float(worth @ lack**2) for lack in lacking)
    slope, grad = np.zeros(cells), np.zeros((weeks, sprinklers))
    for day in reversed(range(weeks * days)):
        slope = implicit.solve(slope - worth * lacking[day], trans="T")
        grad[day // days] += step * (discs.T @ slope)
    return value, grad.ravel()


# %%
# Costs and constraints
# ---------------------
# Three wells serve a third of the sprinklers each, and give less and less in the course of the
# season. The four tenants own the quarters of the farm.
h = gt.Term(lost_harvest, n=n)
change = np.kron(np.diff(np.eye(weeks), axis=0), np.eye(sprinklers))
friction = np.tile(rng.permutation(np.geomspace(0.01, 1.0, sprinklers)), weeks)  # long thin pipes
g = gt.Quadratic(np.diag(friction) + 2.0 * change.T @ change, np.full(n, -0.05))

well = (3 * places[:, 0]).astype(int)
tenant = 2 * (places[:, 0] > 0.5).astype(int) + (places[:, 1] > 0.5)
of_week = np.eye(weeks)
season = np.ones((1, n))
wells = np.vstack([np.kron(of_week, (well == w) * 1.0) for w in range(3)])
tenants = np.vstack([np.kron(np.ones((1, weeks)), (tenant == t) * 1.0) for t in range(4)])
A = np.vstack([season, wells, tenants])
right = 0.3 * n
yields = np.concatenate(
    [np.linspace(first, last, weeks) for first, last in ((0.4, 0.1), (0.5, 0.3), (0.5, 0.15))]
) * np.repeat([(well == w).sum() for w in range(3)], weeks)
least = 0.22 * tenants.sum(axis=1)
lower = np.concatenate([np.full(1 + 3 * weeks, -np.inf), least])
upper = np.concatenate([[right], yields, np.full(4, np.inf)])
rows = optimize.LinearConstraint(A, lower, upper)
bounds = optimize.Bounds(0.0, 1.0)
print(f"{n} unknowns, {len(A)} linear inequality constraints, {cells} cells, {weeks * days} days")

# %%
# The run
# -------
# ``constraints`` and ``bounds`` are SciPy's objects; x0 = 0 gives the tenants too little and is
# projected. A call of the simulator is worth thousands of gradients of g.
start = perf_counter()
lost_harvest(np.zeros(n))
print(f"a call of the simulator takes about {1e3 * (perf_counter() - start):.0f} ms")
prices = {"h": 1e4, "g": 1.0}
limits: dict[str, Any] = {
    "constraints": optimize.LinearConstraint(A, lower, upper),
    "bounds": optimize.Bounds(0.0, 1.0),
}
start = perf_counter()
res = gt.minimize(h, g, prices=prices, tol=1e-6, record="f", **limits)
seconds = {"geartrain": perf_counter() - start}
print(f"{res.message} f = {res.fun:.5f}")

# %%
# The same by SLSQP, with gradients and from the same point. Every evaluation is a call of the
# simulator; it is stopped when f falls by less than 1e-9.
has_lower, has_upper = np.isfinite(lower), np.isfinite(upper)
inequalities = [
    {
        "type": "ineq",
        "fun": lambda x: upper[has_upper] - A[has_upper] @ x,
        "jac": lambda x: -A[has_upper],
    },
    {
        "type": "ineq",
        "fun": lambda x: A[has_lower] @ x - lower[has_lower],
        "jac": lambda x: A[has_lower],
    },
]
seen: list[float] = []


def f(x: Array) -> tuple[float, Array]:
    """h + g and its gradient; the values are kept."""
    (value, grad), (cost, slope) = lost_harvest(x), g.value_and_grad(x)
    seen.append(value + cost if np.all(A @ x <= upper + 1e-6) else np.nan)
    return value + cost, grad + slope


x0 = gt.Linear(A, lower, upper, bounds=limits["bounds"]).prox(np.zeros(n), 1.0)
start = perf_counter()
rival = optimize.minimize(
    f,
    x0,
    jac=True,
    method="SLSQP",
    bounds=limits["bounds"],
    constraints=inequalities,
    options={"maxiter": 500, "ftol": 1e-9},
)
seconds["SLSQP"] = perf_counter() - start
calls = {"geartrain": res.calls["h.grad"], "SLSQP": len(seen)}
for name, value in (("geartrain", res.fun), ("SLSQP", rival.fun)):
    print(
        f"{name:10} {calls[name]:4d} calls of the simulator {seconds[name]:6.1f} s  f = {value:.5f}"
    )

# %%
# Shadow prices
# -------------
# ``res.multipliers["rows"]`` has the derivative of the minimum with respect to the side of every
# constraint that is active, and 0 for the others: negative where more would lower f. What the
# multiplier of the season's water predicts for one percent more is compared with another run,
# which starts at the solution.
y = res.multipliers["rows"]
by_well, by_tenant = np.abs(y[1:-4]).reshape(3, weeks), np.abs(y[-4:])
more = upper.copy()
more[0] *= 1.01
wetter = gt.minimize(
    h,
    g,
    res.x,
    constraints=optimize.LinearConstraint(A, lower, more),
    bounds=limits["bounds"],
    prices=prices,
    tol=1e-5,
)
predicted, gained = -y[0] * (more[0] - upper[0]), res.fun - wetter.fun
print(f"\none percent more water: {predicted:.4f} by its shadow price, {gained:.4f} by another run")
print(f"season's water   {-y[0]:6.3f} per unit")
for w, prices_of_weeks in enumerate(by_well):
    print(f"well {w + 1}, by week ", " ".join(f"{one:6.3f}" for one in prices_of_weeks))
print("tenants' minima ", " ".join(f"{one:6.3f}" for one in by_tenant))

# %%
# The farm
# --------
# On the left is the moisture at the end over what the crops need; the discs are the sprinklers with
# the water of the whole season, and the minima of the tenants cost what is written in the corners.
# In the middle are the shadow prices of the wells.
figure, panels = plt.subplots(
    1, 3, figsize=(11.6, 3.7), layout="constrained", width_ratios=(5, 4, 4)
)
farm, worth_of_wells, gaps = panels
shown = farm.imshow(
    (moisture(res.x)[-1] / need).reshape(side, side).T,
    origin="lower",
    extent=(0, 1, 0, 1),
    cmap="YlGnBu",
    vmin=0.0,
)
total = res.x.reshape(weeks, sprinklers).sum(axis=0)
farm.scatter(*places.T, s=160.0 * total / weeks + 2.0, facecolor="none", edgecolor="#D55E00")
for t, cost in enumerate(by_tenant):
    corner = (0.02 + 0.96 * (t // 2), 0.02 + 0.96 * (t % 2))
    farm.text(
        *corner,
        f"the minimum costs {cost:.2f}",
        ha="right" if t // 2 else "left",
        va="top" if t % 2 else "bottom",
        fontsize=8,
        bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5},
    )
farm.set_title("moisture / need at the end, and water", fontsize=11)
farm.set_xticks([])
farm.set_yticks([])
figure.colorbar(shown, ax=farm, shrink=0.85)
for w, paint in enumerate(("#0072B2", "#E69F00", "#009E73")):
    place = np.arange(1, weeks + 1) + 0.27 * (w - 1)
    worth_of_wells.bar(place, by_well[w], width=0.27, color=paint, label=f"well {w + 1}")
worth_of_wells.axhline(-y[0], color="#D55E00", linestyle="--", label="season's water")
worth_of_wells.set_xlabel("week")
worth_of_wells.set_title("shadow price of a unit of water", fontsize=11)
worth_of_wells.legend(frameon=False, fontsize=8)
lowest = min(res.fun, rival.fun)
falls = {
    "geartrain": (res.history["h.grad"], res.history["f"]),
    "SLSQP": (np.arange(1, len(seen) + 1), np.fmin.accumulate(seen)),
}
for (name, (asked, values)), paint in zip(falls.items(), ("#009E73", "#444444"), strict=True):
    fall = (values - lowest) / (seen[0] - lowest)
    gaps.semilogy(asked, np.maximum(fall, 1e-8), color=paint, label=name)
gaps.set_ylim(1e-7, 2.0)
gaps.set_xlabel("calls of the simulator")
gaps.set_title("$(f - f^*)/(f_0 - f^*)$", fontsize=11)
gaps.legend(frameon=False)
for ax in (worth_of_wells, gaps):
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
if args.out:
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "water_budget.png", dpi=110)
    print(f"picture: {folder / 'water_budget.png'}")
