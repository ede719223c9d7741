r"""
A path of sparse models with warm starts
========================================

.. math:: \min_x \; \frac1m \sum_k \log(1 + e^{-y_k \langle a_k, x\rangle}) + \lambda \|x\|_1

l1-regularised logistic regression on the breast cancer data of scikit-learn, for a falling sequence
of weights :math:`\lambda`. The loss is h, the l1 norm is a non-smooth term without a smooth part
beside it, and coefficients of features that are not used are exactly zero. The intercept has the
weight 0. Every run starts at the solution before it: such a warm start saves a part of the work.

Run it by ``python examples/sparse_path.py``; ``--help`` lists the options.
"""

# %%
# The data, with features of mean 0 and variance 1.
from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import geartrain as gt

parser = argparse.ArgumentParser(description="A path of sparse models with warm starts.")
parser.add_argument("--points", type=int, default=25, help="weights on the path (25)")
parser.add_argument("--quick", action="store_true", help="8 weights")
parser.add_argument("--out", default="out/examples", help="folder of the picture; '' for none")
args = parser.parse_args()

table = load_breast_cancer()
X = (table.data - table.data.mean(axis=0)) / table.data.std(axis=0)
y = np.where(table.target == 1, 1.0, -1.0)
A = np.column_stack([X, np.ones(y.size)])
h = gt.LinearModel(A, y)
n = A.shape[1]


def psi(weight: float) -> gt.L1:
    """The l1 norm with this weight; the intercept is the last coordinate."""
    weights = np.full(n, weight)
    weights[-1] = 0.0
    return gt.L1(weights)


# %%
# The largest weight is the smallest one for which all coefficients are 0. There the intercept is
# known: it fits the share of the classes.
start = np.zeros(n)
start[-1] = np.log(np.mean(y > 0) / np.mean(y < 0))
largest = float(np.abs(h.grad(start)[:-1]).max())
points = 8 if args.quick else args.points
weights = largest * np.geomspace(1.0, 1e-3, points)

# %%
# The path. ``tol`` would be relative to the start of each run, which is close to its solution, so
# the rule is absolute.
first = float(np.linalg.norm(h.grad(np.zeros(n))))
rule = gt.stop.Gradient(abs=1e-7 * first)
path, used, warm, cold = [], [], 0, 0
x = start
for weight in weights:
    res = gt.minimize(h, psi(weight), x, stop=rule)
    x = res.x
    path.append(x)
    used.append(int(np.count_nonzero(x[:-1])))
    warm += res.calls["h.grad"]
    cold += gt.minimize(h, psi(weight), stop=rule).calls["h.grad"]
print(f"features used along the path: {used}")
print(f"gradients of h: {warm} with warm starts, {cold} without")

# %%
# The coefficients against the weight.
figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
ax.semilogx(weights, np.array(path)[:, :-1], lw=1.2)
ax.invert_xaxis()
ax.set_xlabel(r"weight $\lambda$ of the l1 norm")
ax.set_ylabel("coefficients")
ax.spines[["top", "right"]].set_visible(False)
if args.out:
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "sparse_path.png", dpi=100)
    print(f"picture: {folder / 'sparse_path.png'}")
plt.show()
