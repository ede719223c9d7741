"""What each part of the learned method is worth, on development problems of the profile.

Gradients of h over those of SciPy's L-BFGS with its better memory (geometric mean, 95th percentile,
worst), problems that were not solved, and gradients and proximal steps of g per gradient of h. The
problems are those with n <= 200 from number 20,000 on: nobody uses them to choose a constant, and
the report's problems are others.

    python benchmarks/ablation.py [--quick]
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace

import numpy as np
from geartrain.methods.quasi_newton.tuning import DEFAULT, LearnedTuning

import geartrain as gt
from geartrain.lab.profile.families import problems


def without(kind: str) -> LearnedTuning:
    """The tuning without the models of one kind."""
    return replace(
        DEFAULT,
        convex_models=tuple(c for c in DEFAULT.convex_models if c[0] != kind),
        other_models=tuple(c for c in DEFAULT.other_models if c[0] != kind),
    )


@dataclass(frozen=True)
class FromG(LearnedTuning):
    """The first lam is a part of the curvature of g, and not that of a loss like h."""

    def lam_at_start(self, convex: bool, curvature: float, unlike: float, as_loss: float) -> float:
        """Without what h tells."""
        return super().lam_at_start(convex, curvature, unlike, math.nan)


UNUSED = 20_000  # number of the first problem

VARIANTS = {
    "all parts": DEFAULT,
    "without the mixed model": without("mixed"),
    "without the careful correction": without("careful"),
    "without the shrunk model": without("shrunk"),
    "without models of h in shards": replace(DEFAULT, other_models=DEFAULT.other_models[-1:]),
    "without the plain model": without("plain"),
    "mean curvature, not that at the end": replace(DEFAULT, local=1.0),
    "without the trust radius": replace(DEFAULT, far=math.inf),
    "coarse inner runs": replace(DEFAULT, eta=0.3, eta_other=0.3),
    "without cuts of h": replace(DEFAULT, foresight=0),
    "a first lam from g alone": FromG(),
}


def ends(problem, method):
    """Gradients of h and calls of g until 1e-6; infinity where that is not reached."""
    limit = gt.stop.Calls({"h.grad": 3000, "g.grad": 50_000})
    stop = gt.stop.any_of(gt.stop.Gradient(rel=1e-6), limit)
    res = gt.minimize(problem.h, problem.g, problem.x0, method=method, stop=stop)
    of_g = sum(res.calls[f"g.{kind}"] for kind in ("grad", "value", "prox"))
    return (res.calls["h.grad"] if res.success else math.inf), of_g


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one problem of each family")
    count = 22 if parser.parse_args().quick else 66
    chosen = [p for p in problems("development", count, start=UNUSED) if p.n <= 200]
    best = [min(ends(p, gt.ScipyLBFGS(m))[0] for m in (10, 50)) for p in chosen]
    known = [(p, b) for p, b in zip(chosen, best, strict=True) if math.isfinite(b)]
    print(f"{len(known)} development problems from number {UNUSED:,} on, with n <= 200")
    print(f"{'':38}{'mean':>8}{'95 %':>8}{'worst':>8}{'unsolved':>10}{'g per h':>9}")
    for name, tuning in VARIANTS.items():
        runs = [ends(p, gt.methods.ProximalQuasiNewton(tuning=tuning)) for p, _ in known]
        ratios = np.array([h / b for (h, _), (_, b) in zip(runs, known, strict=True)])
        solved = np.isfinite(ratios)
        per_h = np.median([g / h for h, g in runs if math.isfinite(h)])
        mean = math.exp(np.mean(np.log(ratios[solved])))
        high = np.quantile(ratios, 0.95, method="inverted_cdf")
        print(
            f"{name:38}{mean:8.3f}{high:8.2f}{ratios.max():8.2f}{(~solved).sum():10}{per_h:9.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
