r"""Section 5.2: log-density with a Gaussian prior, the problem labelled eq:softmax_reg.

min ln sum_k exp(<A_k, x>) + 1/2 \|G x\|^2, n = 500, p = 6,000; A has a share 0.001 of nonzeros,
uniform on (-1, 1); G^2 = sum_i lambda_i e_i e_i' with sum lambda_i = 1 and entries of e_i uniform
on (1, 2). h is the logarithm, g the quadratic.
"""

from __future__ import annotations

# Paper: Figure 3
# Paper: Figure 4
# Paper: log-density
from typing import Any

import numpy as np
from scipy import sparse

import geartrain as gt
from geartrain.lab.runner import Case, Entry, Probe, Stage, timed
from geartrain.oracles.protocols import Vector

EXPERIMENT = "log-density"
N, P, SPARSITY, SEED = 500, 6000, 0.001, 7
# Differences of gradients of h that the local curvature takes.
_POWER_STEPS = 6


def make(n: int = N, p: int = P, sparsity: float = SPARSITY, seed: int = SEED) -> tuple[Any, Any]:
    """A and G^2 as Section 5.2 describes them."""
    rng = np.random.default_rng(seed)
    A = sparse.random_array(
        (p, n),
        density=sparsity,
        format="csr",
        rng=rng,
        data_sampler=lambda size: rng.uniform(-1.0, 1.0, size=size),
    )
    E = rng.uniform(1.0, 2.0, (n, n))
    weights = rng.uniform(size=n)
    G2 = (E.T * (weights / weights.sum())) @ E
    return A, 0.5 * (G2 + G2.T)


def newton(A: Any, G2: Any, tol: float = 1e-13, max_iter: int = 100) -> tuple[Vector, float]:
    """Reference minimiser by Newton's method with Armijo's rule, and its decrement^2/2 ~ f - f*."""
    h, g = gt.LogSumExp(A), gt.Quadratic(G2)
    x = np.zeros(A.shape[1])
    best = (x, np.inf)
    for _ in range(max_iter):
        scores = A @ x
        pi = np.exp(scores - scores.max())
        pi /= pi.sum()
        mean = A.T @ pi
        hessian = (A.T @ A.multiply(pi[:, None]).tocsr()).toarray() - np.outer(mean, mean) + G2
        grad = mean + G2 @ x
        step = np.linalg.solve(hessian, grad)
        decrement = 0.5 * float(grad @ step)
        if decrement < best[1]:
            best = (x, decrement)
        if decrement <= tol:
            break
        f, t = h.value(x) + g.value(x), 1.0
        while t > 1e-6 and h.value(x - t * step) + g.value(x - t * step) > f - 0.5 * t * decrement:
            t *= 0.5
        x = x - t * step
    return best


def build(n: int = N, p: int = P, sparsity: float = SPARSITY, seed: int = SEED) -> Case:
    """The instance, by default the paper's, and f* from Newton's method."""
    A, G2 = make(n, p, sparsity, seed)
    x_star, error = newton(A, G2)
    h, g = gt.LogSumExp(A), gt.Quadratic(G2)
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
