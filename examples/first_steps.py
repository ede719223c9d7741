r"""
First steps
===========

Two terms, one call, and how to read what comes back. h is the expensive term, a logistic loss on
2,000 rows; g is the cheap one, a quadratic whose condition number is a million.

Run it by ``python examples/first_steps.py``.
"""

# %%
# The call. Prices are what a gradient costs, in any unit; without them they are measured.
import matplotlib.pyplot as plt
import numpy as np

import geartrain as gt

rng = np.random.default_rng(0)
A = rng.standard_normal((2000, 100))
y = np.sign(A[:, 0] + 0.5 * rng.standard_normal(2000))
h = gt.LinearModel(A, y, loss="logistic")
g = gt.Quadratic(np.diag(np.logspace(-4, 2, 100)))

res = gt.minimize(h, g, prices={"h.grad": 100.0, "g.grad": 1.0}, tol=1e-6)

# %%
# The answer: ``res.x`` is the best point, ``res.message`` says how the run ended.
print(f"{res.message} f = {res.fun:.6f} after {res.nit} iterations")

# %%
# What was chosen, why, and what it cost.
print(res.plan)

# %%
# Every question that was asked. Looking at a run is never counted.
print({kind: calls for kind, calls in res.calls.items() if calls})

# %%
# The same by L-BFGS on the sum, which asks both terms equally often.
other = gt.minimize(h, g, method="lbfgs", tol=1e-6)
print({kind: calls for kind, calls in other.calls.items() if calls})

# %%
# ``res.history`` has a row for every iteration; ``res.history.to_pandas()`` makes a table of it.
figure, ax = plt.subplots(figsize=(5.0, 3.2), layout="constrained")
for run, name, colour in ((res, "pqn", "#009E73"), (other, "L-BFGS", "#444444")):
    size = run.history["grad_norm"]
    ax.loglog(run.history["h.grad"], size / size[0], color=colour, label=name)
ax.set_xlabel("gradients of h")
ax.set_ylabel("relative gradient norm")
ax.legend(frameon=False)
plt.show()
