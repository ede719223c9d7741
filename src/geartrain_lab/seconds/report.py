"""The table of ``geartrain bench seconds``, and what it comes to."""

from __future__ import annotations

import math
from typing import Any

Row = dict[str, Any]


def best_rival(row: Row, added: str) -> tuple[str, float, int | None]:
    """Name, seconds and calls of h of the quickest rival with so many ms added."""
    found = [("none", math.inf, None)]
    for name, rival in row["rivals"].items():
        if added == "0":
            found.append((name, rival["seconds"], rival["calls"]))
        elif rival["calls"] is not None:
            seconds = rival["seconds"] + 1e-3 * float(added) * rival["calls"]
            found.append((name, seconds, rival["calls"]))
    return min(found, key=lambda rival: rival[1])


def ratio(row: Row, added: str) -> float:
    """Seconds of ours over those of the best rival; nan where neither reaches the target."""
    ours, rival = row["ours"][added]["seconds"], best_rival(row, added)[1]
    return math.nan if math.isinf(ours) and math.isinf(rival) else ours / rival


def _mean(rows: list[Row], added: str) -> float:
    """Geometric mean of the ratios.

    A run of ours that does not reach the target counts as ten times the rival, or as what it had
    spent if that is more; a target that no rival reaches counts as 0.1.
    """
    logs = []
    for row in rows:
        found, run = ratio(row, added), row["ours"][added]
        if found == math.inf:
            spent = run["process"] + 1e-3 * float(added) * run["calls"]
            found = max(10.0, spent / best_rival(row, added)[1])
        if not math.isnan(found):
            logs.append(math.log(found or 0.1))
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def summary(rows: list[Row]) -> dict[str, Any]:
    """The figures of problems to look at and of those of the report, apart."""
    out: dict[str, Any] = {}
    for split, chosen in (
        ("look", [r for r in rows if not r["report"]]),
        ("report", [r for r in rows if r["report"]]),
    ):
        if not chosen:
            continue
        found: dict[str, Any] = {"problems": len(chosen)}
        for added in chosen[0]["ours"]:
            found[f"mean {added} ms"] = _mean(chosen, added)
            for kind, name in ((False, "smooth"), (True, "psi")):
                part = [row for row in chosen if row["psi"] == kind]
                found[f"mean {added} ms, {name}"] = _mean(part, added)
        if "0" in chosen[0]["ours"]:
            pairs = [(r["ours"]["0"]["seconds"], best_rival(r, "0")[1]) for r in chosen]
            within = [o <= 1.3 * b + 0.05 for o, b in pairs]
            found["share within 1.3 x + 50 ms"] = sum(within) / len(within)
            found["above 2 x + 100 ms"] = sum(not o <= 2.0 * b + 0.1 for o, b in pairs)
        found["unsolved"] = [
            f"{r['family']} {r['seed']}, {added} ms"
            for r in chosen
            for added, run in r["ours"].items()
            if math.isinf(run["seconds"])
        ]
        out[split] = found
    return out


def show(rows: list[Row]) -> None:
    """Print the table, the problems to look at before those of the report, and the summary."""
    for report in (False, True):
        chosen = [r for r in rows if r["report"] == report]
        if chosen:
            print(f"\n{'report' if report else 'to look at'}: seconds (calls of h) to 1e-6")
            _table(chosen)
    for split, found in summary(rows).items():
        print(f"\n{split}: {found['problems']} problems")
        for name, figure in found.items():
            if isinstance(figure, list):
                print(f"  {name}: {'; '.join(figure) or 'none'}")
            elif name != "problems":
                print(f"  {name:30}{figure:8.3g}")
    doubtful = [f"{r['family']} {r['seed']}" for r in rows if r["apart"] > 1e-7]
    if doubtful:
        print(f"f* known by one solver alone: {'; '.join(doubtful)}")


def _table(rows: list[Row]) -> None:
    added = list(rows[0]["ours"])
    print(
        f"{'family':28}{'seed':>4}{'n':>6}{'ours':>8}{'calls':>7}{'prox':>9}{'rival':>8}"
        f"{'calls':>7}  {'its name':23}" + "".join(f"{f'x {a} ms':>9}" for a in added)
    )
    for row in rows:
        name, seconds, calls = best_rival(row, added[0])
        own = row["ours"][added[0]]
        late = "!" if not own["seconds"] <= 2.0 * seconds + 0.1 else " "
        late = "+" if late == " " and own["seconds"] > 1.3 * seconds + 0.05 else late
        print(
            f"{row['family']:28}{row['seed']:4}{row['n']:6}{own['seconds']:8.3f}{own['calls']:7}"
            f"{own['prox']:9}{seconds:8.3f}{calls if calls is not None else '-':>7}{late} {name:23}"
            + "".join(f"{ratio(row, a):9.2f}" for a in added)
        )
    print("! above 2 x + 100 ms; + above 1.3 x + 50 ms; x: ours over the best rival with ms added")
