r"""A map of who is cheapest: the theory of Section 2 beside measurement.

f = h + g with a quadratic h and, as g, a mean of m squared losses, badly conditioned in different
directions, so that g can be asked for gradients, partial derivatives and summands. A gradient of h
costs rho, a gradient of g costs 1, a partial derivative of g is an n-th and a summand an m-th of a
gradient. A partial derivative of h is an n-th of its gradient in one half of the map; in the other
h answers with gradients only, as a simulator does, so that a partial derivative costs a gradient.
The methods are the rows of `geartrain.theory.compare`, and AFB; the bill of a method is rho N_h +
N_g until f - f* <= eps, predicted by `compare` and measured as the median over seeds.

The paper's setting is at its best where L_g/L_h and rho are large, and at its worst where L_g is
near L_h or gradients of h are cheap.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import geartrain as gt
from geartrain.core.status import Status
from geartrain.core.stopping import Look
from geartrain.datasets import KnownProblem
from geartrain.oracles.ledger import in_gradients
from geartrain_lab import harness
from geartrain_lab.harness import Row, Solver, Task

N, EPS = 40, 1e-6
# Rows of theory.compare, and the method of the library that each stands for. AFB has the orders of
# SAE with one gradient of h per iteration.
METHODS: dict[str, Callable[[], Any]] = {
    "FGM": gt.methods.FGM,
    "AGS": gt.methods.AGS,
    "SAE": gt.methods.RSAE,
    "AFB": gt.methods.AFB,
    "ACD": gt.methods.ACDWhole,
    "SAE coordinate": lambda: gt.methods.RSAE(inner=gt.inner.ACD()),
    "AFB coordinate": lambda: gt.methods.AFB(inner=gt.inner.ACD()),
    "Katyusha": gt.methods.KatyushaWhole,
    "SAE finite-sum": lambda: gt.methods.RSAE(inner=gt.Katyusha()),
    "AFB finite-sum": lambda: gt.methods.AFB(inner=gt.Katyusha()),
}
SAME_ORDERS = {
    "AFB": "SAE",
    "AFB coordinate": "SAE coordinate",
    "AFB finite-sum": "SAE finite-sum",
}
# theory.MEASURED, and the same for AFB over the rows of SAE.
MEASURED = {
    **gt.theory.MEASURED,
    "AFB": (0.57, 0.85),
    "AFB coordinate": (0.58, 2.4),
    "AFB finite-sum": (0.57, 2.1),
}
# A run ends at so many times the smallest bill of the runs before it: it is the cheapest nowhere.
HOPELESS = 20.0
PRICES = tuple(10.0**k for k in range(-2, 5))
SHOWN = PRICES[1::2]

# What a partial derivative of h costs, in gradients of h.
PARTIAL = {"h answers partial derivatives": 1.0 / N, "h answers gradients only": 1.0}


KINDS = ("predicted", "predicted with constants", "measured")


class CallsAsked(NamedTuple):
    """What a method asks for, in gradients but for the partial derivatives of h."""

    h: float
    h_partials: float
    g: float

    def bill(self, rho: float, partial: float) -> float:
        """rho N_h + N_g, a partial derivative of h being worth `partial` gradients."""
        return rho * (self.h + partial * self.h_partials) + self.g


def problem(L_h: float, L_g: float, mu: float, m: int, seed: int) -> KnownProblem:
    """h is curved in one half of the space, g in the other; mu/2 in both."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((N, N)))[0]
    half = N // 2
    curved = np.full(N, mu / 2)
    curved[:half] = np.geomspace(mu / 2, L_h, half)
    H = (U * curved) @ U.T
    spectrum = np.geomspace(mu / 2, max(L_g - mu / 2, mu / 2), N - half)
    rows = np.linalg.qr(rng.standard_normal((m, N - half)))[0]
    A = np.sqrt(m) * (rows * np.sqrt(spectrum)) @ U[:, half:].T
    x_star = rng.standard_normal(N) / np.sqrt(N)
    h = gt.Quadratic((H + H.T) / 2, b=H @ x_star + mu / 2 * x_star)
    g = gt.LinearModel(A, A @ x_star, loss="squared", l2=mu / 2)
    return KnownProblem(h, g, x_star, h.value(x_star) + g.value(x_star))


def predicted(
    known: KnownProblem,
    mu: float,
    factors: Mapping[str, tuple[float, float]] | None = None,
    delta: float = 1.0 / math.e,
) -> dict[str, CallsAsked]:
    """The rows of `theory.compare` in gradients, every constant computed from the terms.

    By default without the factor ln(1/delta), which the library's methods do not need, and with
    all hidden constants 1.
    """
    h, g, n, m = known.h, known.g, N, known.g.m
    rows = gt.theory.compare(
        L_h=h.L,
        L_g=g.L,
        mu=mu,
        eps=EPS,
        R=float(np.linalg.norm(known.x_star)),
        delta=delta,
        n=n,
        m=m,
        L_g_bar=float(np.sqrt(g.L_coord).mean() ** 2),
        L_h_bar=float(np.sqrt(h.L_coord).mean() ** 2),
        L_g_mean=float(g.L_components.mean()),
    )
    per_g = {"ACD": n, "SAE coordinate": n, "Katyusha": m, "SAE finite-sum": m}
    out = {}
    for name in METHODS:
        row = SAME_ORDERS.get(name, name)
        c_h, c_g = (1.0, 1.0) if factors is None else factors[name]
        h, g = c_h * rows[row]["h"], c_g * rows[row]["g"] / per_g.get(row, 1)
        out[name] = CallsAsked(0.0, h, g) if name == "ACD" else CallsAsked(h, 0.0, g)
    return out


def measured(
    known: KnownProblem, mu: float, seed: int, names: Sequence[str] | None = None
) -> dict[str, CallsAsked]:
    """What every method, or those of `names`, asked for; one that was cut off is left out."""
    options = {"mu": mu, "max_iter": 10**8}
    task = Task("map", known.h, known.g, f_star=known.f_star, options=options)
    solvers = [_solver(name, seed) for name in (METHODS if names is None else names)]
    table = harness.run([task], solvers, (EPS,))
    reached = table[(table.target == EPS) & (table.end == "")]
    return {row["solver"]: _asked(row, known.g.m) for row in reached.to_dict("records")}


def _solver(name: str, seed: int) -> Solver:
    make = METHODS[name]
    return Solver(name, lambda task, _: make(), limit=hopeless, seeds=[seed])


def _asked(calls: Mapping[str, float], m: int) -> CallsAsked:
    return CallsAsked(calls["h.grad"], calls["h.coord"], in_gradients(calls, "g", N, m))


def hopeless(task: Task, rows: list[Row]) -> Hopeless | None:
    """The rule that ends a run whose bill is too large beside those of the runs before it."""
    m = task.g.m
    before = [_asked(row, m) for row in rows if row["target"] == EPS and not row["end"]]
    return Hopeless(before, m) if before else None


class Hopeless:
    """Ends a run whose bill is too large at every price."""

    def __init__(self, rivals: Sequence[CallsAsked], m: int) -> None:
        self.best = [min(one.bill(rho, 1.0) for one in rivals) for rho in PRICES]
        self.m = m

    def check(self, look: Look) -> Status | None:
        """The end, where even cheap partial derivatives of h do not help."""
        asked = _asked(look.calls, self.m)
        over = (
            asked.bill(rho, 1.0 / N) > HOPELESS * best
            for rho, best in zip(PRICES, self.best, strict=True)
        )
        return Status.STOPPED if all(over) else None


def bills(asked: Mapping[str, CallsAsked], rho: float, partial: float) -> dict[str, float]:
    return {name: one.bill(rho, partial) for name, one in asked.items()}


def median_bills(
    runs: Sequence[Mapping[str, CallsAsked]], rho: float, partial: float
) -> dict[str, float]:
    """Median over the runs; infinite where a method was cut off in half of them."""
    each = [bills(run, rho, partial) for run in runs]
    return {name: float(np.median([one.get(name, np.inf) for one in each])) for name in METHODS}


def cheapest(bills: dict[str, float], slack: float = 1e-9) -> list[str]:
    """The methods with the smallest bill: more than one where the theory cannot tell them apart."""
    least = min(bills.values())
    return [name for name, value in bills.items() if value <= (1.0 + slack) * least]


def sweep(
    cells: Sequence[tuple[float, float, float, int]], seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """One row per cell (L_h, L_g, mu, m): what is predicted for the first seed, and the runs."""
    rows = []
    for L_h, L_g, mu, m in cells:
        known = [problem(L_h, L_g, mu, m, seed) for seed in seeds]
        row: dict[str, Any] = {
            "cell": (L_h, L_g, mu, m),
            "predicted": predicted(known[0], mu),
            "predicted with constants": predicted(known[0], mu, MEASURED),
            "runs": [measured(one, mu, seed) for one, seed in zip(known, seeds, strict=True)],
        }
        rows.append(row)
        print(f"L_h {L_h:g}  L_g {L_g:g}  mu {mu:g}  m {m}: done", file=sys.stderr)
    return rows


COLOURS = dict(
    zip(
        METHODS,
        (
            "#E69F00",
            "#D55E00",
            "#0072B2",
            "#56B4E9",
            "#CC79A7",
            "#332288",
            "#9999DD",
            "#999999",
            "#117733",
            "#66CC99",
        ),
        strict=True,
    )
)


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Rows: predicted and measured; columns: price ratios, for both prices of a partial derivative.

    A number is the bill of FGM over the smallest one.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.patheffects import withStroke

    kappas = sorted({r["cell"][0] / r["cell"][2] for r in rows})
    ratios = sorted({r["cell"][1] / r["cell"][0] for r in rows})
    columns = [(what, rho) for what in PARTIAL for rho in SHOWN]
    fig, axes = plt.subplots(
        len(KINDS), len(columns), figsize=(13, 7), sharex=True, sharey=True, layout="constrained"
    )
    outline = [withStroke(linewidth=2, foreground="black")]
    used: set[str] = set()
    for kind, line in zip(KINDS, axes, strict=True):
        for (what, rho), ax in zip(columns, line, strict=True):
            for row in rows:
                L_h, L_g, mu, _ = row["cell"]
                if kind == "measured":
                    found = median_bills(row["runs"], rho, PARTIAL[what])
                else:
                    found = bills(row[kind], rho, PARTIAL[what])
                best = cheapest(found)
                used |= set(best)
                x, y = ratios.index(L_g / L_h), kappas.index(L_h / mu)
                wide = 1.0 / len(best)
                for k, name in enumerate(best):
                    corner = (x - 0.5 + k * wide, y - 0.5)
                    ax.add_patch(Rectangle(corner, wide, 1, fc=COLOURS[name], ec="white", lw=0.5))
                gain = found["FGM"] / min(found.values())
                text = f"{gain:.1f}" if gain < 10 else f"{gain:.0f}"
                where = {"ha": "center", "va": "center", "fontsize": 8, "color": "white"}
                ax.text(x, y, text, path_effects=outline, **where)
            ax.set(xlim=(-0.5, len(ratios) - 0.5), ylim=(-0.5, len(kappas) - 0.5))
            ax.set_xticks(range(len(ratios)), [f"{v:g}" for v in ratios], fontsize=8)
            ax.set_yticks(range(len(kappas)), [f"{v:g}" for v in kappas], fontsize=8)
            ax.spines[:].set_visible(False)
            ax.tick_params(length=0)
        line[0].set_ylabel(f"{kind}\n$L_h/\\mu$", fontsize=9)
    for (what, rho), top, bottom in zip(columns, axes[0], axes[-1], strict=True):
        top.set_title(f"{what}\n$\\rho$ = {rho:g}", fontsize=9)
        bottom.set_xlabel("$L_g/L_h$", fontsize=9)
    handles = [Patch(color=COLOURS[name], label=name) for name in METHODS if name in used]
    fig.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    fig.savefig(path, dpi=120)
    plt.close(fig)
    print(f"picture: {path}")


def _some(names: Sequence[str]) -> str:
    if len(names) <= 2:
        return " / ".join(names)
    return f"{names[0]} / {names[1]} / {len(names) - 2} more"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print theory and measurement side by side, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/map"))
    parser.add_argument("--quick", action="store_true", help="fewer cells, two seeds")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    kappas = (1e1, 1e3) if args.quick else (1e1, 1e2, 1e3, 1e4)
    ratios = (1.0, 1e2) if args.quick else (1.0, 1e1, 1e2, 1e3)
    cells = [(1.0, r, 1.0 / k, 200) for k in kappas for r in ratios]
    rows = sweep(cells, range(2 if args.quick else 5))
    for what, partial in PARTIAL.items():
        print(f"{what}: who is cheapest")
        head = "".join(f"{kind:36}" for kind in KINDS)
        print(f"{'L_h/mu':>8}{'L_g/L_h':>9}{'rho':>7}   {head.rstrip()}")
        agree = dict.fromkeys(KINDS[:2], 0)
        for row in rows:
            L_h, L_g, mu, _ = row["cell"]
            for rho in PRICES:
                found = cheapest(median_bills(row["runs"], rho, partial))
                guesses = [cheapest(bills(row[kind], rho, partial)) for kind in agree]
                for kind, guess in zip(agree, guesses, strict=True):
                    agree[kind] += bool(set(found) & set(guess))
                if rho in SHOWN:
                    names = "".join(f"{_some(who):36}" for who in (*guesses, found))
                    print(f"{L_h / mu:>8g}{L_g / L_h:>9g}{rho:>7g}   {names.rstrip()}")
        total = len(rows) * len(PRICES)
        for kind, count in agree.items():
            print(f"{kind}: the cheapest method in {count} of {total} cells")
        print()
    draw(rows, args.out / "map.png")


if __name__ == "__main__":
    main()
