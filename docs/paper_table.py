"""The table of the paper: what it states, where that is in the code, which test holds it.

A comment ``# Paper: Theorem 1`` directly above a class or function of the library, of the examples
or of the tests puts it into the row of that item; at the head of a file, with nothing below it, it
puts the whole file there. What deviates is what the docstring says after ``Deviation:``. So the
table is made of the code and cannot fall behind it; a test finds items without a place, markers of
no item, and names that do not exist.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
MARKER = re.compile(r"^# Paper: (.+)$")

# Item -> what the paper states there.
ITEMS = {
    "equation (1)": "the problem, min h + g",
    "Assumption 1": "f is L_f-smooth and mu-strongly convex",
    "Assumption 2": "h is L_h-smooth; an oracle answers with its gradient",
    "Assumption 3": "g is L_g-smooth; kappa_g basic calls make its gradient",
    "equation (2)": "the inner problem phi",
    "Assumption 4": "the inner method M_inn: tau_g, C_0 and C",
    "Section 2": "calls of FGM, AGS, coordinate descent and variance reduction on the whole",
    "Algorithm 1": "SAE",
    "equation (4)": "the model of a step of GMCO",
    "equation (5)": "the envelope F_{L,x}",
    "equation (6)": "N_M, the number of basic calls of an inner run",
    "Algorithm 2": "R-SAE, restarts every sqrt(8 L/mu) iterations",
    "Theorem 1": "calls of h and of g, in general",
    "Corollary 1": "calls with gradients of g",
    "Corollary 2": "calls with partial derivatives of g",
    "Corollary 3": "calls with gradients of summands of g",
    "Figure 1": "kernel SVM: calls of summands of g, SAE and AGS",
    "Figure 2": "kernel SVM: calls of h, and seconds",
    "Table 1": "kernel SVM: arithmetic operations of FGM, AGS and SAE",
    "Figure 3": "log-density: f against seconds",
    "Figure 4": "log-density: f against calls of h and g",
    "Table 2": "log-density: arithmetic operations of FGM, ARCD and SAE",
    "Lemma 1": "basic calls until an inner solution satisfies (17)",
    "Theorem 2": "GMCO with inexact inner solutions",
    "Lemma 2": "steps of GMCO until the Monteiro-Svaiter test holds",
    "equation (22)": "the accuracy of inner solutions that Lemma 2 asks for",
    "equation (23)": "the Monteiro-Svaiter test",
    "equation (24)": "f(y^N) - f* <= R^2/(2 A_N)",
    "Lemma 3": "iterations of SAE and R-SAE",
    "Definition 1": "inexact solution of a convex problem",
    "Algorithm 3": "GMCO",
    "Lemma 4": "strong convexity at an inexact proximal point",
    "Theorem 3": "GMCO for a composite problem in general",
    "kernel SVM": "application of Section 5.1",
    "log-density": "application of Section 5.2",
    "decentralised optimisation": "application of Section 8: g the penalty of a network",
    "adversarial attack": "application of Section 8: g with values only",
    "saddle-point problems": "named in Section 8: composite ones, each part asked as if alone",
    "variational inequalities": "named in Section 8: smooth ones, with and without a set",
    "gradient sliding": "Lan 2016, where separation started",
    "conditional gradient sliding": "Lan and Zhou 2016, named in Section 1",
    "AGS": "Lan and Ouyang",
    "Monteiro-Svaiter": "the accelerated proximal method behind SAE, on the whole f",
    "Catalyst": "Lin, Mairal, Harchaoui",
    "FGM": "Nesterov's fast gradient method",
    "AGM": "accelerated gradient method for composite optimisation, as M_inn",
    "APPROX": "Fercoq and Richtarik, as M_inn",
    "NU_ACDM": "Allen-Zhu, Qu, Richtarik, Yuan, as M_inn",
    "Nesterov-Stich": "ARCD of Section 5.2, as M_inn",
    "coordinate descent": "Nesterov and Stich on the whole f (FCD of Section 5.2)",
    "Katyusha": "Allen-Zhu, as M_inn",
    "Katyusha on the whole": "Allen-Zhu on (1/m) sum (h + g_k)",
    "Varag": "Lan, Li, Zhou, as M_inn",
    "RPDG": "Lan and Zhou 2018, as M_inn",
    "SPDC": "Zhang and Xiao, as M_inn",
    "APCG": "Lin, Lu, Xiao, as M_inn",
    "derivative-free": "directional search with values of g, as M_inn",
    "lower bounds": "Nemirovski and Yudin, Agarwal and Bottou: Section 2 calls its orders optimal",
    "ARCD of 2012 and 2016": "Nesterov 2012, Gasnikov et al. 2016, named in Section 4.2 as M_inn",
    "adaptive proximal method": "Ivanova et al. 2019, the outer loop of the sketch in Section 3",
    "outlook": "gradient-free methods as M_inn, for the future in Section 8",
}
# Items that the library does not have, and why.
ABSENT = {
    "ARCD of 2012 and 2016": (
        "not here: the method of Nesterov and Stich takes their place, which has a bound of the "
        "same order with sum_i sqrt(beta_i), no larger than that of 2012"
    ),
    "adaptive proximal method": "not here: SAE is its form with a fixed L, as in Algorithm 1",
}


@dataclass(frozen=True)
class Place:
    """Where a marker is."""

    path: str  # of the file, from the root
    name: str  # class, function or test; empty for the file as a whole
    deviates: tuple[str, ...]

    @property
    def shown(self) -> str:
        """As the table shows it: a name that may be broken after every word."""
        name = self.path
        if self.path.startswith("tests/"):
            name = f"{self.path.removeprefix('tests/')}::{self.name}"
        elif self.path.startswith("src/"):
            name = self.path.removeprefix("src/geartrain/").removesuffix(".py").replace("/", ".")
            name = f"{name}.{self.name}" if self.name else name
        return "<code>" + re.sub(r"([._/:])(?=[^._/:])", r"\1<wbr>", name) + "</code>"


def places(path: Path) -> dict[str, list[Place]]:
    """Item -> places that a file marks."""
    text = path.read_text()
    if "# Paper: " not in text:
        return {}
    lines = text.splitlines()
    starts: dict[int, ast.AST] = {}
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            starts[first] = node
    found: dict[str, list[Place]] = {}
    for number, line in enumerate(lines, 1):
        match = MARKER.match(line)
        if match is None:
            continue
        below = number
        while below <= len(lines) and lines[below - 1].startswith("#"):
            below += 1
        node = starts.get(below)
        name = node.name if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else ""
        doc = ast.get_docstring(node if name else tree) or ""
        place = Place(path.relative_to(ROOT).as_posix(), name, deviations(doc))
        found.setdefault(match[1], []).append(place)
    return found


def deviations(doc: str) -> tuple[str, ...]:
    """The sentences of a docstring after ``Deviation:``, to the end of their paragraph."""
    out = []
    for paragraph in re.split(r"\n\s*\n", doc):
        _, marked, rest = paragraph.partition("Deviation:")
        if marked:
            words = " ".join(line.strip().lstrip("# ") for line in rest.splitlines())
            out.append(words.strip())
    return tuple(out)


def collect() -> dict[str, list[Place]]:
    """Item -> all places, in the library, the examples and the tests."""
    found: dict[str, list[Place]] = {}
    files = [p for folder in ("src", "examples", "tests") for p in (ROOT / folder).rglob("*.py")]
    for path in sorted(files):
        for item, marked in places(path).items():
            found.setdefault(item, []).extend(marked)
    return found


def table() -> str:
    """The table in Markdown: a test is told below the code that it holds."""
    found = collect()
    rows = ["| item | in the code, and its tests | deviates |", "| --- | --- | --- |"]
    for item, states in ITEMS.items():
        here = found.get(item, [])
        tests = [p for p in here if p.path.startswith("tests/")]
        code = [p for p in here if p not in tests]
        said = [text for p in code for text in p.deviates]
        said += [ABSENT[item]] if item in ABSENT else []
        names = [p.shown for p in code] + [f"test: {p.shown}" for p in tests]
        cells = [
            f"**{item}**<br>{states}",
            "<br>".join(dict.fromkeys(names)),
            "<br>".join(dict.fromkeys(said)),
        ]
        rows.append("| " + " | ".join(c.replace("|", r"\|") for c in cells) + " |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(), end="")
