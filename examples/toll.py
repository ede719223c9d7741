r"""
An equilibrium: traffic before and after a toll
===============================================

Every driver takes the way that is the fastest for him, given all the others. Where does the traffic
flow, and where does it go if the streets of the centre cost a toll? Nothing is minimised here: the
flows x are an **equilibrium**,

.. math:: 0 \in \underbrace{(w(v), \dots, w(v))}_{P(x)}
          + \underbrace{(s(v), \dots, s(v)) + c\,x + \text{toll}}_{Q(x)} + N_C(x),
          \qquad v = \textstyle\sum_k x_k,

with a flow :math:`x_k` on all arcs for every destination k.

*P*
    The waiting times w at the junctions, by a simulation of the rush hour. Those on the smaller
    street wait for those on the larger one, and hardly the other way round: the Jacobian of w is
    **not symmetric**, so there is no function that the equilibrium would minimise.
*Q*
    What is cheap: the time s on the streets themselves, a steep formula; the toll; and tastes,
    which spread the drivers a little.
*C*
    What enters a junction leaves it, unless it is there to stay; flows are not negative.

Run it by ``python examples/toll.py``; ``--help`` lists the options.
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
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

import geartrain as gt

Array = NDArray[Any]
parser = argparse.ArgumentParser(description="Traffic before and after a toll.")
parser.add_argument("--side", type=int, default=7, help="junctions along a side of the town (7)")
parser.add_argument(
    "--toll", type=float, default=0.5, help="minutes that the toll of a street is worth (0.5)"
)
parser.add_argument("--quick", action="store_true", help="a town of 5 x 5 junctions")
parser.add_argument("--out", default="out/examples", help="folder of the picture; '' for none")
args = parser.parse_args()
side = 5 if args.quick else args.side
if side < 5 or side % 2 == 0:
    parser.error("--side must be odd and at least 5")

# %%
# The town
# --------
# Streets form a grid. Those along the border are the ring road, which is wide and fast; every
# street is an arc in each direction. Traffic passes through from west to east and from south to
# north, and goes from the corners to the centre.
number = np.arange(side * side).reshape(side, side)
place = np.stack(np.divmod(number.ravel(), side), axis=1).astype(float)
one = np.concatenate([number[:-1].ravel(), number[:, :-1].ravel()])
two = np.concatenate([number[1:].ravel(), number[:, 1:].ravel()])
tail, head = np.concatenate([one, two]), np.concatenate([two, one])
arcs, last, middle = len(tail), side - 1, side // 2
along = place[tail] == place[head]  # the coordinate that does not change
ring = (along & np.isin(place[tail], (0, last))).any(axis=1)
free, capacity = np.where(ring, 0.9, 1.0), np.where(ring, 4.0, 1.2)

centre, corners = number[middle, middle], number[[0, 0, -1, -1], [0, -1, 0, -1]]
journeys = [  # from, to, and how many
    (number[0, middle], number[-1, middle], 5.0),
    (number[middle, 0], number[middle, -1], 4.0),
    *((corner, centre, 0.5) for corner in corners),
]
targets = list(dict.fromkeys(to for _, to, _ in journeys))
n = len(targets) * arcs

# %%
# The simulator
# -------------
# The flows rise and fall within the hour. A junction takes longer for all the more arrive at it,
# and some have the right of way: the ring road, and otherwise whoever goes east or west.
profile = 1.0 + 0.5 * np.sin(np.pi * np.linspace(-0.5, 1.5, 60))
rank = 2 * ring + (place[tail, 1] == place[head, 1])
arrive = (head == np.arange(side * side)[:, None]) * 1.0
meet = (head[:, None] == head) & (tail[:, None] != tail)
waits = 0.15 * (meet & (rank[:, None] < rank)) + 0.02 * (meet & (rank[:, None] > rank))
waits += 0.5 * np.diag(waits.sum(axis=0) + waits.sum(axis=1))  # so P is monotone


def junctions(v: Array) -> Array:
    """The mean waiting time at the end of every arc, by the minutes of the rush hour."""
    minutes = profile[:, None] * v
    crowd = 0.01 * np.maximum(minutes @ arrive.T, 0.0) ** 2
    return np.asarray((crowd @ arrive + minutes @ waits.T).mean(axis=0))


def P(x: Array) -> Array:
    """Waiting times, whatever the destination is."""
    return np.tile(junctions(x.reshape(-1, arcs).sum(axis=0)), len(targets))


# %%
# Streets, toll and conservation
# ------------------------------
# The time on a street is the formula of the Bureau of Public Roads. The toll is due on the streets
# between the junctions around the centre.
inside = np.abs(place - middle).max(axis=1) <= 1
tolled = inside[tail] & inside[head]


def streets(v: Array) -> Array:
    """The time on every arc without the junction."""
    return np.asarray(free * (1.0 + 0.15 * (np.maximum(v, 0.0) / capacity) ** 4))


def Q(toll: float) -> Any:
    """Streets, tastes and a toll."""

    def costs(x: Array) -> Array:
        of_arc = streets(x.reshape(-1, arcs).sum(axis=0)) + toll * tolled
        return np.tile(of_arc, len(targets)) + 0.02 * x

    return gt.Operator(costs, n=n)


leaves = (tail == np.arange(side * side)[:, None]) * 1.0
leaves -= arrive
rows, enters = [], []
for k, target in enumerate(targets):
    others = np.arange(side * side) != target  # the row of the target follows from the others
    b = np.zeros(side * side)
    for start, to, many in journeys:
        b[start] += many * (to == target)
    rows.append(np.kron(np.arange(len(targets)) == k, leaves[others]))
    enters.append(b[others])
A, b = np.vstack(rows), np.concatenate(enters)
print(f"{n} flows on {arcs} arcs to {len(targets)} destinations, {len(A)} equations")

# %%
# Before and after
# ----------------
# The second run starts at the flows of the first.
C = gt.Linear(A, b, b, bounds=gt.NonNegative())
simulator = gt.Operator(P, n=n)
before = gt.equilibrium(simulator, Q(0.0) + C, np.zeros(n), tol=1e-6)
after = gt.equilibrium(simulator, Q(args.toll) + C, before.x, tol=1e-6)
flows = {"before": before.x.reshape(-1, arcs).sum(axis=0)}
flows["after"] = after.x.reshape(-1, arcs).sum(axis=0)
drivers = sum(many for _, _, many in journeys)
minutes = {name: float(v @ (junctions(v) + streets(v))) / drivers for name, v in flows.items()}
for name, res in (("before", before), ("after", after)):
    share = flows[name][tolled].sum() / flows[name].sum()
    print(
        f"{name:7} {res.calls['P.operator']:4d} calls of the simulator  "
        f"{minutes[name]:.2f} minutes per driver  {100 * share:.0f} % of the traffic in the centre"
    )

# %%
# The same by the extragradient method, which asks P and Q equally often, for a while.
rival = gt.equilibrium(
    simulator, Q(0.0) + C, np.zeros(n), method="extragradient", tol=1e-6, max_iter=40
)
for name, res in (("auto", before), ("extragradient", rival)):
    print(f"{name:14} {res.calls['P.operator']:4d} calls: residual {res.grad_norm:.1e}")

# %%
# The streets
# -----------
# Wide lines are large flows, in both directions together; the colour is the time that the street
# takes, in multiples of that when it is empty.
figure, panels = plt.subplots(1, 2, figsize=(10.4, 5.0), layout="constrained")
half = arcs // 2


def slowness(v: Array) -> Array:
    """The time of every arc in multiples of that when it is empty."""
    return (junctions(v) + streets(v)) / free


slowest = max(float(slowness(v).max()) for v in flows.values())
for ax, (name, v) in zip(panels, flows.items(), strict=True):
    both = v[:half] + v[half:]
    slow = slowness(v).reshape(2, half).max(axis=0)
    lines = LineCollection(
        list(place[np.stack([one, two], axis=1)]),
        linewidths=0.6 + 2.2 * both,
        array=slow,
        cmap="YlOrRd",
        capstyle="round",
    )
    lines.set_clim(1.0, slowest)
    if name == "after":
        corner, width = (middle - 1.25, middle - 1.25), 2.5
        ax.add_patch(plt.Rectangle(corner, width, width, color="#0072B2", alpha=0.15, zorder=0))
        ax.text(middle + 0.5, middle + 1.3, "toll", color="#0072B2", ha="center", va="bottom")
    ax.add_collection(lines)
    ax.scatter(*place.T, s=14, color="#444444", zorder=3)
    for start, to, many in journeys[:2]:
        ax.annotate(
            f"{many:g}",
            place[start] - 0.12 * np.sign(place[to] - place[start]),
            place[start] - 0.75 * np.sign(place[to] - place[start]),
            arrowprops={"arrowstyle": "->", "color": "#444444"},
            ha="center",
            va="center",
        )
    ax.set_title(f"{name}: {minutes[name]:.2f} minutes per driver", fontsize=12)
    ax.set_xlim(-1.0, side - 0.5)
    ax.set_ylim(-1.0, side - 0.5)
    ax.set_aspect("equal")
    ax.axis("off")
figure.colorbar(lines, ax=panels, shrink=0.7, label="time / time of the empty street")
if args.out:
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "toll.png", dpi=110)
    print(f"picture: {folder / 'toll.png'}")
