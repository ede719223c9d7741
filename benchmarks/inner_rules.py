"""What the two rules for inner runs cost: N_M calls as in the paper, or a small residual.

R-SAE to f - f* <= 1e-6 on the quadratics of `geartrain_lab.experiments.map`, with three inner
methods. N_M is `theory.inner_calls` with the constants of the problem; calls of g are those of its
basic oracle, a gradient being n or m of them. A run that has reached rounding before N_M calls ends
there, so the paper's rule is a little dearer than the table says.

    python benchmarks/inner_rules.py [--quick]
"""

from __future__ import annotations

import argparse

import numpy as np

import geartrain as gt
from geartrain.core.loop import basic_calls
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain_lab.experiments.map import EPS, N, problem

INNER = {"AGM": gt.inner.AGM, "ACD": gt.inner.ACD, "Katyusha": gt.Katyusha}


def measure(known, mu, make, rule):
    """Iterations, middle steps per iteration, gradients of h, basic calls of g."""
    stop = gt.stop.Value(known.f_star + EPS)
    res = gt.minimize(
        known.h, known.g, method=gt.methods.RSAE(inner=make(), rule=rule), stop=stop, mu=mu
    )
    if not res.success:
        raise RuntimeError(f"{make.__name__}, {rule}: {res.message}")
    ledger = Ledger()
    ledger.calls.update(res.calls)
    asked = basic_calls(Oracle(known.g, "g", ledger, N), make.needs)
    return res.nit, res.calls["h.grad"] / res.nit - 1, res.calls["h.grad"], asked


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one problem")
    quick = parser.parse_args().quick
    cells = [(10.0, 1e-1)] if quick else [(10.0, 1e-1), (100.0, 1e-2), (1000.0, 1e-2)]
    print(f"{'':34}{'paper':^40}{'residual':^32}{'paper/residual':>16}")
    head = f"{'iter':>7}{'middle':>8}{'h':>7}{'g':>10}"
    print(f"{'L_g':>6}{'mu':>7}{'m':>5}  {'inner':14}{'N_M':>8}{head}{head}{'h':>8}{'g':>8}")
    for L_g, mu in cells:
        m = 200
        known = problem(1.0, L_g, mu, m, 0)
        R = float(np.linalg.norm(known.x_star))
        paper = gt.methods.PaperRule(eps=EPS, R=R)
        for name, make in INNER.items():
            f = _sum(known, mu)
            N_M = paper.basic_calls(f, make(), known.h.L, known.h.L)
            rows = [measure(known, mu, make, rule) for rule in (paper, "residual")]
            cells = "".join(f"{i:>7}{k:>8.2f}{h:>7}{g:>10}" for i, k, h, g in rows)
            ratios = f"{rows[0][2] / rows[1][2]:8.2f}{rows[0][3] / rows[1][3]:8.1f}"
            print(f"{L_g:>6g}{mu:>7g}{m:>5}  {name:14}{N_M:>8}{cells}{ratios}", flush=True)


def _sum(known, mu):
    from geartrain.problem import Constant, Sum

    ledger = Ledger()
    h, g = (Oracle(term, name, ledger, N) for term, name in ((known.h, "h"), (known.g, "g")))
    constants = (Constant(value, "given") for value in (known.h.L, known.g.L, mu))
    return Sum(h, g, *constants)


if __name__ == "__main__":
    main()
