r"""Is R^2/(2 A_N) tight? The worst case over all convex functions, by performance estimation.

SAE: f convex, L = 1, R = 1, and every y^{k+1} that passes the Monteiro-Svaiter test
\|grad f(y) + L (y - x)\| <= sigma L \|y - x\|; the weights A_N do not depend on f. AFB: h convex
and 1-smooth, g convex, every x_{k+1} that passes the rule \|grad phi\| <= zeta \|G\|. The largest
f - f* after N iterations is the value of a semidefinite program (PEPit); the table has it times
2 A_N/R^2, which is 1 where the bound is attained.

    python benchmarks/worst_case.py [--quick]
"""

from __future__ import annotations

import argparse
import math

from PEPit import PEP, Expression, Point
from PEPit.functions import ConvexFunction, SmoothConvexFunction

from geartrain.methods.sc_sae import weights

SIGMAS = (0.0, 0.5, 0.9, 1.0)
ZETAS = (0.0, 0.5)


def sae(N, sigma, L=1.0):
    """(Largest f(y^N) - f*, A_N) of SAE from R = 1."""
    problem = PEP()
    f = problem.declare_function(ConvexFunction)
    x_star = f.stationary_point()
    y = z = problem.set_initial_point()
    problem.set_initial_condition((y - x_star) ** 2 <= 1)
    A, value = 0.0, None
    for _ in range(N):
        # line 3
        a = (1.0 / L + math.sqrt(1.0 / L**2 + 4.0 * A / L)) / 2.0
        x = (A * y + a * z) / (A + a)
        A += a
        # line 4: any y with error e = grad F(y), |e| <= sigma L |y - x|
        error = Point() if sigma > 0.0 else 0.0 * z
        grad, value = Point(), Expression()
        y = x + (error - grad) / L
        f.add_point((y, grad, value))
        if sigma > 0.0:
            problem.add_constraint(error**2 <= (sigma * L) ** 2 * (y - x) ** 2)
        # line 5
        z = z - a * grad
    problem.set_performance_metric(value - f(x_star))
    return solved(problem), A


def afb(N, zeta, L_h=1.0):
    """(Largest f(x_N) - f*, A_N) of AFB with sigma = 0, mu = 0, from R = 1."""
    problem = PEP()
    h = problem.declare_function(SmoothConvexFunction, L=L_h)
    g = problem.declare_function(ConvexFunction)
    f = h + g
    x_star = f.stationary_point()
    x = z = problem.set_initial_point()
    problem.set_initial_condition((x - x_star) ** 2 <= 1)
    lam = 1.0 / L_h
    eta = (1.0 - zeta**2) * lam
    A, g_value = 0.0, None
    for _ in range(N):
        # 1.
        w = weights(A, eta, 0.0)
        y = x + w.theta * (z - x)
        grad_h = h.gradient(y)
        # 2.: any x with error e = grad phi(x) and |e| <= zeta |G|, G = grad h(y) + grad g(x)
        error = Point() if zeta > 0.0 else 0.0 * z
        grad_g, g_value = Point(), Expression()
        G = grad_h + grad_g
        x = y + lam * (error - G)
        g.add_point((x, grad_g, g_value))
        if zeta > 0.0:
            problem.add_constraint(error**2 <= zeta**2 * G**2)
        # 3.
        z, A = w.keep * z + w.pull * x - w.push * G, w.A
    problem.set_performance_metric(h(x) + g_value - f(x_star))
    return solved(problem), A


def solved(problem):
    """The value of the semidefinite program."""
    return problem.solve(wrapper="cvxpy", solver="CLARABEL", verbose=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to three iterations")
    lengths = range(1, 4 if parser.parse_args().quick else 9)
    print("largest 2 A_N (f - f*)/R^2 after N iterations")
    print(f"{'N':>18}" + "".join(f"{N:>9}" for N in lengths))
    for name, make, options in (("SAE, sigma", sae, SIGMAS), ("AFB, zeta", afb, ZETAS)):
        for option in options:
            found = [make(N, option) for N in lengths]
            print(
                f"{f'{name} = {option:g}':>18}"
                + "".join(f"{2.0 * A * worst:>9.4f}" for worst, A in found),
                flush=True,
            )


if __name__ == "__main__":
    main()
