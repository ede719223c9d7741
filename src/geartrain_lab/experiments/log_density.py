"""Section 5.2 of the paper: the log-density with a Gaussian prior."""

from __future__ import annotations

# Paper: Figure 3
# Paper: Figure 4
# Paper: log-density
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

import geartrain as gt
from geartrain.oracles.protocols import Vector
from geartrain_lab import problems
from geartrain_lab.problems.density import SEED, SPARSITY, N, P
from geartrain_lab.runner import LBFGS, PQN, Case, Entry, Probe, Stage

EXPERIMENT, CASE = "log-density", "synthetic"
QUICK_N, QUICK_P = 250, 3000
_POWER_STEPS = 6  # of the power iteration for the local curvature


def build(n: int = N, p: int = P, sparsity: float = SPARSITY, seed: int = SEED) -> Case:
    """The instance, by default of the paper's size, and f* from Newton's method."""
    h, g = problems.log_density(n, p, sparsity, seed)
    x_star, error = problems.newton(h, g)
    A: Any = h.A
    f_star = h.value(x_star) + g.value(x_star)
    columns = np.asarray(A.multiply(A).sum(axis=0)).ravel()
    facts = {
        "n": n,
        "p": p,
        "s": A.nnz / p,
        "nnz": A.nnz,
        "seed of the data": seed,
        "L_h": h.L,
        "L_h of the paper": float(columns.max()),
        "L_g": g.L,
        "L_g_bar": float(np.sqrt(g.L_coord).mean() ** 2),
        "R": float(np.linalg.norm(x_star)),
        "f_star": f_star,
        "f_star_error": error,
        "reference": "Newton's method",
    }
    return Case(EXPERIMENT, CASE, f"n = {n}, p = {p:,}, seed {seed}", h, g, f_star, facts)


def local_curvature(h: Any, x0: Vector) -> tuple[float, int]:
    """Estimate of the largest curvature of h near x0, and the gradients that it took.

    The estimate is 1.5 times what a power iteration on differences of gradients finds. It is a
    starting value and no bound: the methods raise it where h is more curved, and the
    Monteiro-Svaiter test does not depend on it.
    """
    base = h.grad(x0)
    u = np.random.default_rng(0).standard_normal(x0.size)
    seen = 0.0
    for _ in range(_POWER_STEPS):
        u *= 1e-3 / np.linalg.norm(u)
        change = h.grad(x0 + u) - base
        seen = float(np.linalg.norm(change) / np.linalg.norm(u))
        u = change
    return 1.5 * seen, _POWER_STEPS + 1


def _local(case: Case) -> Probe:
    start = perf_counter()
    L_h, calls = local_curvature(case.h, np.zeros(case.facts["n"]))
    return Probe(L_h, calls, perf_counter() - start)


def _paper(case: Case) -> Probe:
    return Probe(case.facts["L_h of the paper"], 0, 0.0)


def _restarted(method: Any) -> Any:
    return gt.methods.Restarted(method, gt.methods.GradientTest())


_AT_X0 = f"curvature at x0, from {_POWER_STEPS + 1} gradients of h, counted"

SAE_PAPER = Entry(
    "SAE (paper)",
    "SAE (Algorithm 1) with the paper's settings: L = 25 L_h, and inside an accelerated coordinate "
    "method that is restarted after every 300 steps.",
    lambda case: gt.SAE(
        L=25.0 * case.facts["L_h of the paper"], inner=gt.inner.NesterovStich(restart=300)
    ),
    randomised=True,
    probe=_paper,
    L_h="the paper's estimate",
)
R_SAE = Entry(
    "R-SAE (tuned)",
    "Restarted SAE (Algorithm 2) with our settings: restarts by the gradient test instead of a "
    "fixed period, sigma = 0.9, inner tolerance 0.5 instead of 0.2, and inside an accelerated "
    "coordinate method that is not restarted after 300 steps.",
    lambda case: gt.methods.RSAE(
        sigma=0.9, accuracy=0.5, inner=gt.inner.NesterovStich(), restart=gt.methods.GradientTest()
    ),
    randomised=True,
    L_h=_AT_X0,
    probe=_local,
)
AFB = Entry(
    "AFB (tuned)",
    "Accelerated forward-backward with the same restarts and the same coordinate method inside. "
    "Not in the paper.",
    lambda case: _restarted(gt.methods.AFB(inner=gt.inner.NesterovStich())),
    randomised=True,
    L_h=_AT_X0,
    probe=_local,
)
FCD = Entry(
    "FCD",
    "Accelerated coordinate descent on the sum, without separation.",
    lambda case: gt.methods.ACDWhole(mu=0.0),
    randomised=True,
    L_h="constants of the coordinates",
)
FCD_RESTARTED = Entry(
    "FCD, restarted",
    "The same with momentum restarted by the gradient test. Not in the paper.",
    lambda case: _restarted(gt.methods.ACDWhole()),
    randomised=True,
    L_h="constants of the coordinates",
)
FGM = Entry(
    "FGM",
    "Fast gradient method on the sum, without separation.",
    lambda case: gt.methods.FGM(mu=0.0),
)
FGM_RESTARTED = Entry(
    "FGM, restarted",
    "The same with momentum restarted by the gradient test. Not in the paper.",
    lambda case: _restarted(gt.methods.FGM()),
    L_h=_AT_X0,
    probe=_local,
)

ENTRIES = (SAE_PAPER, R_SAE, AFB, FCD, FCD_RESTARTED, FGM, FGM_RESTARTED, LBFGS, PQN)


def stages(quick: bool) -> list[Stage]:
    """One stage; the quick form has a quarter of the paper's matrix entries."""
    if not quick:
        return [Stage(build, ENTRIES, target=1e-8, limit=30.0)]
    # The paper's setting would need minutes, so its curve is cut off.
    entries = [replace(e, limit=2.0) if e is SAE_PAPER else e for e in ENTRIES]
    return [Stage(partial(build, QUICK_N, QUICK_P), entries, target=5e-7, limit=20.0)]
