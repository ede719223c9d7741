"""What the tables of runs say: calls and seconds to an accuracy, ratios, Tables 1 and 2."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from geartrain import theory
from geartrain.lab.experiments import kernel_svm, log_density
from geartrain.lab.store import pandas
from geartrain.oracles.ledger import in_gradients

SVM_EPS, DENSITY_EPS = 1e-3, 1e-6


def facts(table: Any) -> dict[str, Any]:
    """Settings of the first run, which all runs of a case share but for the method."""
    return json.loads(table.settings.iloc[0])


def with_costs(table: Any) -> Any:
    """Add what the figures have on their axes.

    ``components``: gradients of summands of g, a full gradient being m of them. ``h calls`` and
    ``g calls``: gradients, n partial derivatives being one and m summands being one.
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


@dataclass(frozen=True)
class Amount:
    """How much of something a run took; a lower bound where it did not get there."""

    value: float
    reached: bool = True

    def __str__(self) -> str:
        sign = "" if self.reached else "> "
        return f"{sign}{self.value:,.0f}" if self.value >= 100 else f"{sign}{self.value:.3g}"


def to_reach(table: Any, method: str, column: str, eps: float) -> Amount | None:
    """Amount of `column` that `method` took to f - f* <= eps; None if it was not run."""
    run = table[table.method == method]
    if run.empty:
        return None
    there = run[run.gap <= eps]
    if there.empty:
        return Amount(float(run[column].iloc[-1]), reached=False)
    return Amount(float(there[column].iloc[0]))


@dataclass(frozen=True)
class Ratio:
    """One method's amount divided by another's, with the sign that the bounds leave."""

    ours: str
    theirs: str
    of: str
    eps: float
    value: float
    sign: str  # "", "<" or ">"; "?" where neither got there

    def __str__(self) -> str:
        if self.sign == "?":
            return "not known (neither got there in its time)"
        return f"{self.sign + ' ' if self.sign else ''}{self.value:.3g}"


def ratio(table: Any, ours: str, theirs: str, column: str, eps: float) -> Ratio | None:
    """`column` of `ours` over that of `theirs`, to f - f* <= eps."""
    a, b = (to_reach(table, name, column, eps) for name in (ours, theirs))
    if a is None or b is None:
        return None
    sign = {(True, True): "", (True, False): "<", (False, True): ">", (False, False): "?"}
    value = a.value / b.value if b.value > 0.0 else math.inf
    return Ratio(ours, theirs, column, eps, value, sign[a.reached, b.reached])


SAE_SVM, SAE_DENSITY = kernel_svm.SAE_OURS.label, log_density.SAE_OURS.label

SVM_RATIOS = {"components": "component gradients", "h.grad": "h-gradients", "seconds": "seconds"}


def lines(svm: Any | None, density: Any | None) -> list[str]:
    """The one-line ratios."""
    out = []
    if svm is not None:
        main = with_costs(main_case(svm))
        for column, words in SVM_RATIOS.items():
            r = ratio(main, SAE_SVM, kernel_svm.AGS.label, column, SVM_EPS)
            out.append(f"kernel SVM: SAE / AGS, {words} to 1e-3: {r}")
    if density is not None:
        for other in (
            log_density.FCD,
            log_density.FCD_RESTARTED,
            log_density.FGM,
            log_density.FGM_RESTARTED,
        ):
            r = ratio(density, SAE_DENSITY, other.label, "seconds", DENSITY_EPS)
            out.append(f"log-density: SAE / {other.label}, seconds to 1e-6: {r}")
    return out


def main_case(svm: Any) -> Any:
    """The runs of the main figure: the first gamma."""
    return svm[svm.case == f"gamma {kernel_svm.GAMMAS[0]:g}"]


def summary(table: Any, eps: float, columns: dict[str, str]) -> Any:
    """Amounts of every method to reach eps."""
    rows = []
    for method in dict.fromkeys(table.method):
        row: dict[str, Any] = {"method": method}
        for column, title in columns.items():
            row[title] = str(to_reach(table, method, column, eps))
        row["smallest f - f*"] = f"{table[table.method == method].gap.min():.1e}"
        rows.append(row)
    return pandas().DataFrame(rows)


# Paper: Table 1
def table_1(svm: Any) -> Any:
    """Table 1 for the instance: predicted and measured, to 1e-3.

    Predictions are the bounds with constant 1; operations as in the table, with s nonzeros in a
    row of the (dense) kernel: n^2 a gradient of h, s a component gradient.
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
        rows.append(_row(name, label, (h, components), asked, printed[name], (n**2, s)))
    return pandas().DataFrame(rows)


# Paper: Table 2
def table_2(density: Any) -> Any:
    """Table 2 for the instance: predicted and measured, to 1e-6.

    Operations as in the table: p s for a gradient of h and n^2 for one of g; a step of FCD p + n,
    a partial derivative of g alone n.
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
        rows.append(_row(name, label, (h, g), asked, printed[name], prices))
    frame = pandas().DataFrame(rows)
    frame.columns = [
        t.replace("grad g_k", "partial derivatives of g").replace("grad h", "calls of h")
        for t in frame.columns
    ]
    return frame


def _row(
    name: str,
    label: str,
    predicted: tuple[float, float],
    asked: list[Amount | None],
    operations: float,
    prices: tuple[float, float],
) -> dict[str, str]:
    spent = "-"
    if all(a is not None for a in asked):
        total = sum(price * a.value for price, a in zip(prices, asked, strict=True) if a)
        sign = "" if all(a.reached for a in asked if a) else "> "
        spent = f"{sign}{total:.1e}"
    return {
        "row": name,
        "measured with": label,
        "grad h predicted": f"{predicted[0]:,.0f}",
        "grad h measured": str(asked[0]),
        "grad g_k predicted": f"{predicted[1]:.1e}",
        "grad g_k measured": str(asked[1]),
        "operations, table": f"{operations:.1e}",
        "operations, measured": spent,
    }
