r"""
Where do the emissions come from? Seconds of an inverse problem
===============================================================

An aircraft measures a gas on six days, each with another wind. Which parts of the ground emit it,
and how much?

.. math:: \min_{x \ge 0} \; \underbrace{\sum_{k=1}^{6} \frac{1}{2\sigma^2} \|S_k u_k - d_k\|^2}_{h}
          + \underbrace{\lambda \, \mathrm{TV}_\epsilon(x)}_{g}, \qquad
          -\kappa \Delta u_k + w_k \cdot \nabla u_k + r u_k = x

x is the emission of each of 64 x 64 pixels of the ground. The air of day k carries it along with
the wind :math:`w_k`, mixes it and loses some of it, which finite elements on a grid of 257 x 257
nodes tell (`scikit-fem <https://scikit-fem.readthedocs.io>`_). :math:`S_k` takes the solution
where the aircraft has measured, 960 times a day.

*h*
    The misfit. A value with its gradient takes twelve solutions of a linear system with 66,049
    unknowns, one for each day and one for its adjoint. The matrices are factorised before, once.
*g*
    The smoothed total variation, `geartrain.HuberTV`, since emissions have borders. It costs about
    a thousandth of h.

Nothing is priced by hand: the picture has seconds of the clock on its axis. ``gt.minimize`` runs
with its default settings, measures what the terms cost, and ends by itself. SciPy's L-BFGS-B then
minimises the sum from the same start until it has reached the same value.

(The matrix of all sensitivities, after which no system would have to be solved, takes 5,760
solutions: as many as 480 gradients of h.)

Run it by ``python examples/emissions.py``; it takes a few minutes and needs scikit-fem.
"""

# %%
# Options
# -------
from __future__ import annotations

import argparse
import contextlib
import os
import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize
import scipy.sparse as sp
import skfem
from numpy.typing import NDArray
from scipy.sparse.linalg import splu
from skfem.helpers import dot, grad

import geartrain as gt

Array = NDArray[Any]

parser = argparse.ArgumentParser(description="Emissions from measurements in the air.")
parser.add_argument("--weight", type=float, default=3.0, help="of the total variation (3)")
parser.add_argument("--quick", action="store_true", help="16 x 16 pixels on a coarse grid")
parser.add_argument("--out", default="out/examples", help="folder of the picture; '' for none")
args = parser.parse_args()
side, finer = (16, 2) if args.quick else (64, 4)  # pixels, and elements along the side of a pixel
n = side * side

# %%
# The air
# -------
# Lengths are in kilometres and times in hours: a wind of 10 km/h, a mixing of 100 m^2/s.
size, speed, mixing, loss = 10.0, 10.0, 0.36, 0.2

line = np.linspace(0.0, size, side * finer + 1)
mesh = skfem.MeshQuad.init_tensor(line, line)
basis = skfem.Basis(mesh, skfem.ElementQuad1())
elements = basis.with_element(skfem.ElementQuad0())


@skfem.BilinearForm
def transport(u: Any, v: Any, w: Any) -> Any:
    """What mixing, wind and loss do to the gas."""
    carried = w["east"] * grad(u)[0] + w["north"] * grad(u)[1]
    return mixing * dot(grad(u), grad(v)) + carried * v + loss * u * v


@skfem.BilinearForm
def emission(u: Any, v: Any, w: Any) -> Any:
    """What an element of the ground adds."""
    return u * v


column, row = (mesh.p[:, mesh.t].mean(axis=1) / size * side).astype(int)
pixel = sp.csr_array((np.ones(row.size), (np.arange(row.size), row * side + column)))
emitted = sp.csr_array(emission.assemble(elements, basis)) @ pixel


class Day:
    """A wind, and the path of the aircraft: twelve lines with 80 measurements each."""

    def __init__(self, angle: float, offset: float, turned: bool) -> None:
        east, north = speed * np.cos(angle), speed * np.sin(angle)
        inflow = basis.get_dofs(
            lambda X: (X[0] == (0.0 if east > 0 else size)) | (X[1] == (0.0 if north > 0 else size))
        ).all()  # clean air comes in there
        A = skfem.enforce(transport.assemble(basis, east=east, north=north), D=inflow)
        inside = np.ones(basis.N)
        inside[inflow] = 0.0
        self.air = splu(sp.csc_matrix(A))
        self.ground = sp.diags_array(inside) @ emitted
        along, across = (np.arange(80) + 0.5) / 80 * size, (np.arange(12) + offset) / 12 * size
        path = np.array([np.tile(along, 12), np.repeat(across, 80)])
        self.sensors = basis.probes(path[::-1] if turned else path)

    def measured(self, x: Array) -> Array:
        """What the sensors show if the ground emits x."""
        return self.sensors @ self.air.solve(self.ground @ x)

    def adjoint(self, r: Array) -> Array:
        """The adjoint of `measured`."""
        return self.ground.T @ self.air.solve(self.sensors.T @ r, trans="T")


angles = 0.3 + np.pi / 3 * np.arange(6)
days = [Day(angle, (k % 3 + 0.5) / 3, k % 2 == 1) for k, angle in enumerate(angles)]

# %%
# The ground, and what is measured: a works, a strong small source and a wide weak one; the noise is
# 3 % of the largest measurement.
X, Y = np.meshgrid(*2 * [(np.arange(side) + 0.5) / side * size])
truth = 1.0 * ((abs(X - 2.8) < 0.9) & (abs(Y - 6.8) < 0.6))
truth += 2.0 * (np.hypot(X - 6.8, Y - 7.0) < 0.55)
truth += 0.5 * ((abs(X - 6.0) < 2.2) & (abs(Y - 2.8) < 0.8))
rng = np.random.default_rng(0)
clean = [day.measured(truth.ravel()) for day in days]
sigma = 0.03 * max(c.max() for c in clean)
seen = [c + sigma * rng.standard_normal(c.size) for c in clean]

# %%
# The two terms
# -------------


def misfit(x: Array) -> tuple[float, Array]:
    """h and its gradient."""
    value, slope = 0.0, np.zeros(n)
    for day, data in zip(days, seen, strict=True):
        r = (day.measured(x) - data) / sigma
        value += 0.5 * float(r @ r)
        slope += day.adjoint(r) / sigma
    return value, slope


h = gt.Term(misfit, n=n)
g = gt.HuberTV((side, side), lam=args.weight, eps=0.01)
x0 = np.zeros(n)


def seconds_of(call: Any) -> float:
    """Of one call; the median of five."""
    spent = []
    for _ in range(5):
        begin = time.perf_counter()
        call(truth.ravel())
        spent.append(time.perf_counter() - begin)
    return float(np.median(spent))


price_h, price_g = seconds_of(misfit), seconds_of(g.value_and_grad)
print(f"{n} pixels, {basis.N} nodes, {sum(d.size for d in seen)} measurements")
print(f"a gradient of h takes {1e3 * price_h:.0f} ms, one of g {1e3 * price_g:.2f} ms")

# %%
# The runs
# --------
# Values are noted with the seconds since the start.


class Enough(Exception):
    """The value is reached."""


def reached(fun: Any, target: float) -> list[tuple[float, float]]:
    """Seconds and values of L-BFGS-B on `fun`, until it has come to the target."""
    begin, curve = time.perf_counter(), []

    def noted(x: Array) -> tuple[float, Array]:
        value, slope = fun(x)
        curve.append((time.perf_counter() - begin, value))
        if value <= target:
            raise Enough
        return value, slope

    never = {"maxiter": 10_000, "maxfun": 10_000, "ftol": 0.0, "gtol": 0.0}
    bounds = scipy.optimize.Bounds(0.0)
    with contextlib.suppress(Enough):
        scipy.optimize.minimize(
            noted, x0, jac=True, method="L-BFGS-B", bounds=bounds, options=never
        )
    return curve


def total(x: Array) -> tuple[float, Array]:
    """h + g and its gradient."""
    (a, slope_a), (b, slope_b) = misfit(x), g.value_and_grad(x)
    return a + b, slope_a + slope_b


load = os.getloadavg()[0]
mine: list[tuple[float, float]] = []
begin = time.perf_counter()


def note(intermediate_result: Any) -> None:
    """Called by geartrain after every iteration."""
    mine.append((time.perf_counter() - begin, intermediate_result.fun))


res = gt.minimize(h, g, x0, bounds=(0.0, None), callback=note)
spent = time.perf_counter() - begin
print(res)
rival = reached(total, res.fun)
print()
print(f"geartrain: {spent:.1f} s, {res.calls['h.grad']} gradients of h, {res.calls['g.grad']} of g")
print(
    f"L-BFGS-B: {rival[-1][0]:.1f} s, {len(rival)} gradients of h and of g, f = {rival[-1][1]:.6f}"
)
print(f"error of x: {np.linalg.norm(res.x - truth.ravel()) / np.linalg.norm(truth):.3f}")
print(f"load average before and after: {load:.1f}, {os.getloadavg()[0]:.1f}")

# %%
# The picture
# -----------
# Both runs end at the same value, which is 0 on the axis.
figure, axes = plt.subplots(
    1, 3, figsize=(9.6, 3.2), width_ratios=(1, 1, 1.5), layout="constrained"
)
for ax, pixels, title in zip(
    axes, (truth, res.x.reshape(side, side)), ("what emits", "reconstructed"), strict=False
):
    ax.imshow(pixels, origin="lower", extent=(0, size, 0, size), cmap="magma", vmin=0, vmax=2)
    ax.set_title(title, fontsize=11)
    ax.set_xticks((0, 5, 10), ("0", "5", "10 km"))
    ax.set_yticks(())

curves = {
    f"geartrain, {spent:.0f} s": (*np.array(mine).T, "#009E73"),
    f"L-BFGS-B, {rival[-1][0]:.0f} s": (*np.array(rival).T, "#444444"),
}
lowest = min(res.fun, rival[-1][1])
for name, (seconds, values, colour) in curves.items():
    best = np.minimum.accumulate(values)
    gap = (best - lowest) / (rival[0][1] - lowest)
    axes[2].semilogy(seconds, np.maximum(gap, 1e-9), color=colour, label=name)
    axes[2].plot(seconds[-1], 1e-9, "o", color=colour, clip_on=False)
axes[2].set_ylim(1e-9, 2.0)
axes[2].set_xlim(0, None)
axes[2].set_xlabel("seconds")
axes[2].set_title("$f$ above its last value, 1 at the start", fontsize=11)
axes[2].grid(True, alpha=0.3)
axes[2].legend(frameon=False)

if args.out:
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "emissions.png", dpi=110)
    print(f"picture: {folder / 'emissions.png'}")
