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
parser.add_argument("--side", type=int, default=80, help="cells of the grid along a side (80)")
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
spread = 0.01 * np.exp(gaussian_filter(rng.standard_normal((side, side)), side / 8) * side / 6)
evaporation = 0.25 + 0.15 * np.linspace(0.0, 1.0, side)[:, None] * np.ones((side, side))  # a slope
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
        sparse.eye_array(cells) + step * (diffusion() + sparse.diags_array(evaporation.ravel()))
    )
)
# A sprinkler waters a disc around it; the places form a slightly disturbed grid.
where = (np.arange(across) + 0.5) / across
places = np.stack(np.meshgrid(where, where, indexing="ij"), axis=-1).reshape(-1, 2)
places += 0.25 / across * rng.uniform(-1.0, 1.0, places.shape)
grid = np.stack(np.meshgrid(*2 * [(np.arange(side) + 0.5) / side], indexing="ij"), axis=-1)
far = ((grid.reshape(-1, 1, 2) - places) ** 2).sum(axis=2)
discs = np.exp(-0.5 * far * (2.5 * across) ** 2)
sprinklers = len(places)
n = weeks * sprinklers

# Crops need different moisture, and are worth differently.
need = 0.35 + 0.25 * (grid[..., 1] > 0.5).ravel()
worth = np.where((grid[..., 0] + grid[..., 1] > 1.0).ravel(), 2.0, 1.0) * 100.0 / cells


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
price = 0.02 * (1.0 + 0.5 * rng.random(n))
g = gt.Quadratic(0.05 * change.T @ change + 1e-4 * np.eye(n), -price)

well = (3 * places[:, 0]).astype(int)
tenant = 2 * (places[:, 0] > 0.5).astype(int) + (places[:, 1] > 0.5)
of_week = np.eye(weeks)
season = np.ones((1, n))
wells = np.vstack([np.kron(of_week, (well == w) * 1.0) for w in range(3)])
tenants = np.vstack([np.kron(np.ones((1, weeks)), (tenant == t) * 1.0) for t in range(4)])
A = np.vstack([season, wells, tenants])
right = 0.3 * n
yields = np.concatenate(
    [np.linspace(first, last, weeks) for first, last in ((0.7, 0.3), (0.6, 0.4), (0.5, 0.15))]
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
# ``constraints`` and ``bounds`` are SciPy's objects. A call of the simulator is worth thousands of
# gradients of g.
x0 = np.zeros(n)
start = perf_counter()
lost_harvest(x0)
print(f"a call of the simulator takes {1e3 * (perf_counter() - start):.0f} ms")
prices = {"h": 1e4, "g": 1.0}
start = perf_counter()
res = gt.minimize(h, g, x0, constraints=rows, bounds=bounds, prices=prices, tol=1e-6)
seconds = {"geartrain": perf_counter() - start}
print(res.message, f"f = {res.fun:.6f}, violation {rows_violated(res.x):.0e}" if False else "")
