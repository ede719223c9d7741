"""What the tables of runs say: calls and seconds to an accuracy, ratios, Tables 1 and 2."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from geartrain import theory
from geartrain.oracles.ledger import in_gradients
from geartrain_lab import spread
from geartrain_lab.experiments import kernel_svm, log_density
from geartrain_lab.spread import Spread
from geartrain_lab.store import pandas

SVM_EPS, DENSITY_EPS = 1e-3, 1e-6
Interval = tuple[float, float]


def facts(table: Any) -> dict[str, Any]:
    """Settings of the first run; the runs of a case share all but those of the method."""
    return json.loads(table.settings.iloc[0])


def with_costs(table: Any) -> Any:
    """The table with the columns that figures have on their axes.

    ``h calls`` and ``g calls`` are in gradients: n partial derivatives or m gradients of summands
    are one gradient. ``components`` are gradients of summands of g, a full gradient being m.
    """
    sizes = facts(table)
    m, n = sizes.get("m", 1), sizes["n"]
    return table.assign(
        **{
            "components": table["g.component"] + m * table["g.grad"],
            "h calls": in_gradients(table, "h", n),
            "g calls": in_gradients(table, "g", n, m),
        }
    )


def to_reach(table: Any, method: str, column: str, eps: float) -> list[Interval]:
    """Amounts of `column` that the runs of `method` took to f - f* <= eps, one per seed.

    A run that did not get there has the interval from its last amount to infinity.
    """
    out = []
    runs = table[table.method == method]
    for _, run in runs.groupby("seed", sort=True):
        there = run[run.gap <= eps]
        if there.empty:
            out.append((float(run[column].iloc[-1]), math.inf))
        else:
            amount = float(there[column].iloc[0])
            out.append((amount, amount))
    return out


def amount(table: Any, method: str, column: str, eps: float) -> Spread | None:
    """Median and quartiles of `to_reach`; None if the method was not run."""
    reached = to_reach(table, method, column, eps)
    return Spread.of(reached) if reached else None


def ratio(table: Any, ours: str, theirs: str, column: str, eps: float) -> Spread | None:
    """`column` of `ours` over that of `theirs`, to f - f* <= eps; None if one was not run."""
    a, b = (to_reach(table, name, column, eps) for name in (ours, theirs))
    return spread.ratio(a, b) if a and b else None


SAE_SVM, SAE_DENSITY = kernel_svm.SAE_TUNED.label, log_density.R_SAE.label
SVM_COUNTS = {"components": "component gradients of g", "h.grad": "gradients of h"}
COUNTS = {"h calls": "gradients of h", "g calls": "gradients of g"}


def main_case(svm: Any) -> Any:
    """The runs of the main figure: those with the first gamma."""
    return svm[svm.case == kernel_svm.MAIN_CASE]


def summary(table: Any, eps: float, columns: Mapping[str, str]) -> Any:
    """Amounts of every method to reach eps, and how far its runs got."""
    rows = []
    for method in dict.fromkeys(table.method):
        run = table[table.method == method]
        row: dict[str, Any] = {"method": method, "runs": run.seed.nunique()}
        for column, title in columns.items():
            row[title] = str(amount(table, method, column, eps))
        row["smallest f - f*"] = f"{run.gap.min():.1e}"
        rows.append(row)
    return pandas().DataFrame(rows)


# Paper: Table 1
def table_1(svm: Any) -> Any:
    """Table 1 of the paper for the instance: predicted and measured, to 1e-3.

    Predictions are the bounds with constant 1. Operations are counted as in the table, with s
    nonzeros in a row of the (dense) kernel: n^2 per gradient of h, s per component gradient.
    """
    main = with_costs(main_case(svm))
    c = facts(main)
    eps, R, m, n, s = SVM_EPS, c["R"], c["m"], c["n"], c["s"]
    # Corollary 3 has L_g-hat, the largest constant of a summand; the other rows have L_g.
    full = theory.compare(L_h=c["L_h"], L_g=c["L_g"], eps=eps, R=R)
    sums = theory.calls("finite-sum", L_h=c["L_h"], L_g=c["L_g_hat"], eps=eps, R=R, m=m)
    top = c["L_h"]  # h = 1/2 x'Cx with C = lambda K
    printed = theory.table_1(m=m, n=n, s=s, lambda_max=top, eps=eps, R=R)
    rows = []
    for name, label, h, components in (
        ("FGM", kernel_svm.FGM.label, full["FGM"]["h"], m * full["FGM"]["g"]),
        ("AGS", kernel_svm.AGS.label, full["AGS"]["h"], m * full["AGS"]["g"]),
        ("SAE", SAE_SVM, sums["h"], sums["g"]),
    ):
        asked = [to_reach(main, label, column, eps) for column in ("h.grad", "components")]
        calls = (h, components)
        order = TABLE_1_ORDERS[name], printed[name]
        rows.append(_row(name, label, calls, asked, order, (n**2, s), TABLE_1_WORDS))
    return pandas().DataFrame(rows)


# Paper: Table 2
def table_2(density: Any) -> Any:
    """Table 2 of the paper for the instance: predicted and measured, to 1e-6.

    Operations are counted as in the table: p s per gradient of h and n^2 per gradient of g, p + n
    per step of FCD, n per partial derivative of g alone.
    """
    c = facts(density)
    eps, R, n, p, s = DENSITY_EPS, c["R"], c["n"], c["p"], c["s"]
    bounds = theory.compare(L_h=c["L_h"], L_g=c["L_g"], eps=eps, R=R)["FGM"]
    coordinate = theory.compare(L_h=1.0, L_g=c["L_g_bar"], eps=eps, R=R, n=n)["ACD"]
    sae = theory.calls("coordinate", L_h=c["L_h"], L_g=c["L_g_bar"], eps=eps, R=R, n=n)
    printed = theory.table_2(n=n, p=p, s=s, eps=eps, R=R)
    table = density.assign(
        partials_h=density["h.coord"] + n * density["h.grad"],
        partials_g=density["g.coord"] + n * density["g.grad"],
    )
    rows = []
    for name, label, h, g, column, prices in (
        ("FGM", log_density.FGM.label, bounds["h"], n * bounds["g"], "h.grad", (p * s, n)),
        ("FCD", log_density.FCD.label, coordinate["h"], coordinate["g"], "partials_h", (p, n)),
        ("SAE", SAE_DENSITY, sae["h"], sae["g"], "h.grad", (p * s, n)),
    ):
        asked = [to_reach(table, label, key, eps) for key in (column, "partials_g")]
        order = TABLE_2_ORDERS[name], printed[name]
        rows.append(_row(name, label, (h, g), asked, order, prices, TABLE_2_WORDS))
    return pandas().DataFrame(rows)


# What the two kinds of calls are called in the tables, and the operations as the paper has them.
TABLE_1_WORDS = ("∇h", "∇g_k")
TABLE_1_ORDERS = {
    "FGM": "O((R/ε) √s (ms + n²))",
    "AGS": "O((R/ε) √s · ms) + O(√(λ_max(C) R²/ε) · n²)",
    "SAE": "Õ((R/ε) √(sm) · s) + Õ(√(λ_max(C) R²/ε) · n²)",
}
TABLE_2_WORDS = ("calls of h", "partial derivatives of g")
TABLE_2_ORDERS = {
    "FGM": "O(√(nR²/ε) (ps + n²))",
    "FCD": "O(n √(R²/ε) (p + n))",
    "SAE": "Õ(√(nR²/ε) · ps) + Õ(n √(R²/ε) · n)",
}


def _row(
    name: str,
    label: str,
    predicted: tuple[float, float],
    asked: list[list[Interval]],
    order: tuple[str, float],
    prices: tuple[float, float],
    words: tuple[str, str],
) -> dict[str, str]:
    spent = [
        tuple(prices[0] * h + prices[1] * g for h, g in zip(*both, strict=True))
        for both in zip(*asked, strict=True)
    ]
    h, g = (str(Spread.of(amounts)) if amounts else "-" for amounts in asked)
    return {
        "row": name,
        "measured with": label,
        f"{words[0]} predicted": f"{predicted[0]:,.0f}",
        f"{words[0]} measured": h,
        f"{words[1]} predicted": f"{predicted[1]:,.0f}",
        f"{words[1]} measured": g,
        "operations, in the paper": order[0],
        "with constant 1": f"{order[1]:.1e}",
        "operations, measured": _scientific(Spread.of(spent)) if spent else "-",
    }


def _scientific(s: Spread) -> str:
    return f"{'' if s.low[1] == s.high[1] else '> '}{s.low[1]:.1e}"
