"""Section 5.2 of the paper: the log-density with a Gaussian prior."""

from __future__ import annotations

# Paper: Figure 3
# Paper: Figure 4
# Paper: log-density
from typing import Any

import numpy as np

import geartrain as gt
from geartrain.lab import problems
from geartrain.lab.problems.density import SEED, SPARSITY, N, P
from geartrain.lab.runner import Case, Entry, Probe, Stage, timed
from geartrain.oracles.protocols import Vector

EXPERIMENT = "log-density"
# Differences of gradients of h that the local curvature takes.
_POWER_STEPS = 6


def build(n: int = N, p: int = P, sparsity: float = SPARSITY, seed: int = SEED) -> Case:
    """The instance, by default the paper's, and f* from Newton's method."""
    h, g = problems.log_density(n, p, sparsity, seed)
    x_star, error = problems.newton(h, g)
    A = h.A
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
    return Case(EXPERIMENT, "synthetic", f"n = {n}, p = {p:,}, seed {seed}", h, g, f_star, facts)


def local_curvature(h: Any, x0: Vector) -> tuple[float, int]:
    """Largest curvature of h near x0 by power iteration on differences of gradients.

    Returns an estimate, half more than was seen, and the number of gradients. It is a start, not a
    bound: the methods raise it where h shows more, and the Monteiro-Svaiter test does not
    depend on it.
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
    (L_h, calls), seconds = timed(lambda: local_curvature(case.h, np.zeros(case.facts["n"])))
    return Probe(L_h, calls, seconds)


def _paper(case: Case) -> Probe:
    return Probe(case.facts["L_h of the paper"], 0, 0.0)


def _restarted(method: Any) -> Any:
    return gt.Restarted(method, gt.GradientTest())


SAE_PAPER = Entry(
    "SAE + ACD, paper",
    lambda case: gt.SAE(
        L=25.0 * case.facts["L_h of the paper"], inner=gt.NesterovStich(restart=300)
    ),
    probe=_paper,
)
SAE_OURS = Entry(
    "SAE + ACD, ours",
    lambda case: gt.RSAE(
        sigma=0.9, accuracy=0.5, inner=gt.NesterovStich(), restart=gt.GradientTest()
    ),
    probe=_local,
)
AFB = Entry(
    "AFB + ACD, ours", lambda case: _restarted(gt.AFB(inner=gt.NesterovStich())), probe=_local
)
FCD = Entry("FCD", lambda case: gt.ACDWhole(mu=0.0))
FCD_RESTARTED = Entry("FCD, restarted", lambda case: _restarted(gt.ACDWhole()))
FGM = Entry("FGM", lambda case: gt.FGM(mu=0.0))
FGM_RESTARTED = Entry("FGM, restarted", lambda case: _restarted(gt.FGM()), probe=_local)
LBFGS = Entry("L-BFGS", lambda case: gt.ScipyLBFGS())
SAE_QN = Entry("SAE-QN", lambda case: gt.SAEQN())

ENTRIES = (SAE_PAPER, SAE_OURS, AFB, FCD, FCD_RESTARTED, FGM, FGM_RESTARTED, LBFGS, SAE_QN)


def stages(quick: bool) -> list[Stage]:
    """One stage; in the quick form the baselines without restarts have less time."""
    if not quick:
        return [Stage(build, ENTRIES, target=1e-8, limit=30.0)]
    short = {SAE_PAPER.label: 2.0, FCD.label: 4.0, FGM.label: 5.0}
    entries = [Entry(e.label, e.make, e.probe, short.get(e.label)) for e in ENTRIES]
    return [Stage(build, entries, target=1e-7, limit=8.0)]
