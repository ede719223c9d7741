"""The sentences of the report; their numbers and verdicts come from the tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from geartrain_lab.experiments import kernel_svm, log_density
from geartrain_lab.runner import Entry
from geartrain_lab.spread import Spread
from geartrain_lab.tables import (
    DENSITY_EPS,
    SAE_DENSITY,
    SAE_SVM,
    SVM_EPS,
    amount,
    facts,
    main_case,
    ratio,
    to_reach,
    with_costs,
)

_CLOSE = 1.2  # ratios within this factor of 1 are called "about as many"
_SINGULAR = 1e-10  # of the largest eigenvalue
_UNITS = {
    "components": "gradients of summands",
    "h.grad": "gradients of h",
    "h calls": "gradients of h",
    "g calls": "gradients of g",
    "seconds": "seconds",
}

# Claims: a sentence, the method that should need less, the one that should need more, and of what.
# Words of the paper are in quotation marks.
_AGS, _FGM = kernel_svm.AGS, kernel_svm.FGM
_SVM_CLAIMS = (
    ("5.1: SAE asks for gradients of summands “less often” than AGS", SAE_SVM, _AGS, "components"),
    (
        "5.1: the same with the constants of the theory",
        kernel_svm.SAE_PAPER.label,
        _AGS,
        "components",
    ),
    ("5.1: this “allows SAE to work faster than AGS”", SAE_SVM, _AGS, "seconds"),
    ("Table 1: the complexity is “better than for FGM”", SAE_SVM, _FGM, "seconds"),
)
_DENSITY_CLAIMS = tuple(
    (f"5.2, {settings}: SAE “performs better” than {other.label}", ours, other, "seconds")
    for settings, ours, other in (
        ("the paper's settings", log_density.SAE_PAPER.label, log_density.FCD),
        ("the paper's settings", log_density.SAE_PAPER.label, log_density.FGM),
        ("a constant measured at x0", SAE_DENSITY, log_density.FCD),
    )
)
# What the paper does not claim, in the same form.
_SVM_MORE = (
    ("SAE asks for no more gradients of h than AGS", SAE_SVM, _AGS, "h.grad"),
    ("AGS asks for fewer summands than FGM", _AGS.label, _FGM, "components"),
    ("SAE takes less time than L-BFGS", SAE_SVM, kernel_svm.LBFGS, "seconds"),
    ("pqn asks h less often than L-BFGS", kernel_svm.PQN.label, kernel_svm.LBFGS, "h.grad"),
)
_DENSITY_MORE = (
    *(
        (f"{SAE_DENSITY} takes less time than {other.label}", SAE_DENSITY, other, "seconds")
        for other in (log_density.FCD_RESTARTED, log_density.FGM_RESTARTED, log_density.LBFGS)
    ),
    *(
        (f"{SAE_DENSITY} asks {term} less often than FCD, restarted", SAE_DENSITY, other, column)
        for other in (log_density.FCD_RESTARTED,)
        for term, column in (("h", "h calls"), ("g", "g calls"))
    ),
)


@dataclass(frozen=True)
class Claim:
    """A claim, what was measured for it, and whether it holds here."""

    claim: str
    measured: str
    holds: str  # "yes", "no" or "open"


@dataclass(frozen=True)
class Finding:
    """A finding: a title and a few paragraphs."""

    title: str
    paragraphs: list[str]


def verdict(r: Spread | None) -> str:
    """Whether the ratio is below 1: "open" where its quartiles lie on both sides."""
    if r is None:
        return "open"
    low, high = r.quartiles
    return "yes" if high < 1.0 else "no" if low > 1.0 else "open"


def _than(
    r: Spread | None, other: str, fewer: str = "fewer", more: str = "more", same: str = "as many"
) -> str:
    """The comparison with `other` that the ratio allows: "fewer ... than other" and so on.

    The words may hold a noun: "fewer gradients", "as many gradients".
    """
    holds = verdict(r)
    close = r is not None and 1.0 / _CLOSE <= r.median <= _CLOSE  # False where it is not known
    if close or holds == "open":
        return f"about {same} as {other}" if close else f"perhaps {fewer} than {other}"
    return f"{fewer if holds == 'yes' else more} than {other}"


class _Runs:
    """The runs of a problem and the accuracy that counts."""

    def __init__(self, table: Any, eps: float) -> None:
        self.table, self.eps = with_costs(table), eps

    def ratio(self, ours: str, other: Entry, column: str) -> Spread | None:
        return ratio(self.table, ours, other.label, column, self.eps)

    def faster(self, ours: str, other: Entry, name: str) -> str:
        return _than(self.ratio(ours, other, "seconds"), name, "faster", "slower", "as fast")

    def took(self, method: str, column: str) -> str:
        found = amount(self.table, method, column, self.eps)
        return "?" if found is None else str(found).split(" [")[0].replace("> ", "more than ")

    def instead(self, ours: str, other: Entry, column: str) -> str:
        """As in: 48 gradients of h instead of 694."""
        mine, theirs = (self.took(name, column) for name in (ours, other.label))
        return f"{mine} {_UNITS[column]} instead of {theirs}"

    def claims(self, stated: Iterable[tuple[str, str, Entry, str]]) -> list[Claim]:
        return [
            Claim(text, self.instead(ours, other, of), verdict(self.ratio(ours, other, of)))
            for text, ours, other, of in stated
        ]


def _svm_runs(svm: Any) -> _Runs:
    return _Runs(main_case(svm), SVM_EPS)


def _density_runs(density: Any) -> _Runs:
    return _Runs(density, DENSITY_EPS)


def claims(svm: Any | None, density: Any | None) -> list[Claim]:
    """The claims of Section 5 against the tables."""
    out = [] if svm is None else _svm_runs(svm).claims(_SVM_CLAIMS)
    return out + ([] if density is None else _density_runs(density).claims(_DENSITY_CLAIMS))


def more(svm: Any | None, density: Any | None) -> list[Claim]:
    out = [] if svm is None else _svm_runs(svm).claims(_SVM_MORE)
    return out + ([] if density is None else _density_runs(density).claims(_DENSITY_MORE))


def headline(svm: Any | None, density: Any | None) -> str:
    words = {"yes": "holds", "no": "does not hold", "open": "stays open"}
    told = []
    if svm is not None:
        told.append(f"Section 5.1 of the paper {words[_all(claims(svm, None)[:3])]}")
    if density is not None:
        *papers, ours = claims(None, density)
        both = [_all(papers), ours.holds]
        told.append(f"Section 5.2 {words[both[0]]} with the paper's settings")
        if both[0] != both[1]:
            told[-1] += f", but {words[both[1]]} with a local constant"
    return "; ".join(told)


def _all(some: list[Claim]) -> str:
    found = {claim.holds for claim in some}
    return next(word for word in ("no", "open", "yes") if word in found)


def lead(svm: Any | None, density: Any | None) -> str:
    """What was minimised, and what separation saved."""
    told = []
    if svm is not None:
        told.append(
            "Kernel SVM: h is the quadratic regulariser and g the mean of "
            f"{facts(svm)['m']:,} smoothed hinge losses. To 1e-3, SAE needs "
            f"**{_svm_runs(svm).instead(SAE_SVM, _AGS, 'components')}** by AGS."
        )
    if density is not None:
        c, fcd = facts(density), log_density.FCD_RESTARTED
        told.append(
            f"Log-density: h is the logarithm of {c['p']:,} exponentials and g a dense quadratic "
            f"in {c['n']:,} variables. To 1e-6, with a local constant, R-SAE needs "
            f"**{_density_runs(density).instead(SAE_DENSITY, fcd, 'h calls')}** by coordinate "
            "descent with restarts."
        )
    return " ".join(told)


def twins(svm: Any | None) -> str:
    """Why two methods have the same numbers, where they have."""
    ours, restarted = SAE_SVM, kernel_svm.R_SAE.label
    if svm is None or len({str(_counted(svm, name)) for name in (ours, restarted)}) > 1:
        return ""
    return (
        f"{ours} and {restarted} have the same numbers: the test that restarts the second one did "
        "not ask for a restart before 1e-3, so both took the same steps with the same seeds."
    )


def _counted(svm: Any, method: str) -> list[Any]:
    runs = _svm_runs(svm)
    return [to_reach(runs.table, method, key, runs.eps) for key in ("h calls", "components")]


def svm_counts(svm: Any) -> Finding:
    runs, kind = _svm_runs(svm), "summands of g"
    r = runs.ratio(SAE_SVM, _AGS, "components")
    return Finding(
        "SAE asks for " + _than(r, "AGS", f"fewer {kind}", f"more {kind}", f"as many {kind}"),
        [
            "AGS asks for a full gradient of g in every inner step. SAE hands the inner problem to "
            "Katyusha, which asks for the gradient of one summand at a time. To 1e-3, SAE needs "
            f"**{runs.instead(SAE_SVM, _AGS, 'components')}** by AGS; with the constants of the "
            f"theory instead of ours, {runs.took(kernel_svm.SAE_PAPER.label, 'components')}.",
            f"SAE needs {runs.instead(SAE_SVM, _AGS, 'h.grad')} by AGS and "
            f"{runs.took(_FGM.label, 'h.grad')} by FGM, which does not separate the terms.",
        ],
    )


def svm_seconds(svm: Any) -> Finding:
    """Seconds, and where separation does not pay."""
    runs, lbfgs, qn = _svm_runs(svm), kernel_svm.LBFGS, kernel_svm.PQN.label
    return Finding(
        f"In seconds, SAE is {runs.faster(SAE_SVM, _AGS, 'AGS')} and "
        f"{runs.faster(SAE_SVM, lbfgs, 'L-BFGS')}",
        [
            f"SAE takes **{runs.instead(SAE_SVM, _AGS, 'seconds')}** by AGS. The kernel matrix is "
            "dense, so a gradient of h costs about half as much as a pass over g, and there is "
            "little to gain from asking h rarely: L-BFGS on the sum takes "
            f"**{runs.took(lbfgs.label, 'seconds')}** seconds.",
            f"L-BFGS needs {runs.took(lbfgs.label, 'h calls')} gradients of each term. pqn, which "
            "separates the terms with a quasi-Newton model of h, needs "
            f"{runs.took(qn, 'h calls')} of h and {runs.took(qn, 'g calls')} of g; it is the "
            "method to choose where h is the expensive term.",
        ],
    )


def svm_spectrum(spectra: Any) -> Finding:
    """How well conditioned the kernel matrices are."""
    largest = float(spectra.eigenvalue.max())
    smallest = float(spectra.eigenvalue.abs().min())
    singular = smallest < _SINGULAR * largest
    told = (
        f"The eigenvalues of K/m go from {largest:.2g} down to {smallest:.0e}; the paper reports "
        "1e-16 for its kernel matrix."
    )
    if singular:
        told += " f is therefore not strongly convex in any useful sense."
    return Finding(
        "The kernel matrix is close to singular" if singular else "The spectrum of the kernel",
        [f"{told} All methods run with mu = 0."],
    )


def svm_gamma(svm: Any) -> Finding:
    """How the counts change with the kernel."""
    cases = svm.case.unique()
    ends = [_Runs(svm[svm.case == case], SVM_EPS) for case in (cases[0], cases[-1])]
    told = []
    for entry in (kernel_svm.SAE_TUNED, _AGS):
        first, last = (end.took(entry.label, "components") for end in ends)
        told.append(f"{entry.label} from {first} to {last}")
    gammas = [f"gamma = {facts(end.table)['gamma']:g}" for end in ends]
    return Finding(
        "The same for three kernels",
        [
            f"The gradients of summands that are needed to reach 1e-3 change from {gammas[0]} to "
            f"{gammas[1]}: for {' and for '.join(told)}. Methods that did not reach 1e-3 for every "
            "gamma are left out.",
        ],
    )


def density_counts(density: Any) -> Finding:
    runs, fcd, kind = _density_runs(density), log_density.FCD_RESTARTED, "gradients of h"
    r = runs.ratio(SAE_DENSITY, fcd, "h calls")
    paper = density[density.method == log_density.SAE_PAPER.label]
    used, qn = facts(density[density.method == SAE_DENSITY]), log_density.PQN.label
    return Finding(
        "R-SAE asks for "
        + _than(r, "coordinate descent", f"fewer {kind}", f"more {kind}", f"as many {kind}"),
        [
            f"R-SAE needs **{runs.instead(SAE_DENSITY, fcd, 'h calls')}** by accelerated "
            f"coordinate descent (FCD) and {runs.took(log_density.FGM_RESTARTED.label, 'h calls')} "
            "by FGM, both with restarts. The price: "
            f"{runs.instead(SAE_DENSITY, fcd, 'g calls')} by FCD, where n partial derivatives "
            "count as one gradient.",
            "The constant matters as much as the method: the bound L_h of h is "
            f"{used['L_h'] / used['L_h used']:,.0f} times the curvature of h at the starting "
            "point. R-SAE, AFB and FGM with restarts begin with that curvature, and the methods "
            "that separate the terms raise it where h is more curved. The paper's settings are "
            "L = 25 L_h and a restart after every 300 coordinate steps; with them, f - f* has come "
            f"from {paper.gap.max():.2g} to {paper.gap.min():.2g} after "
            f"{paper.seconds.max():.2g} s.",
            f"pqn needs no constants. It asks for {runs.took(qn, 'h calls')} gradients of h and "
            f"{runs.took(qn, 'g calls')} of g.",
        ],
    )


def density_seconds(density: Any) -> Finding:
    runs, fcd, lbfgs = _density_runs(density), log_density.FCD_RESTARTED, log_density.LBFGS
    return Finding(
        f"In seconds, R-SAE is {runs.faster(SAE_DENSITY, fcd, 'coordinate descent')} and "
        f"{runs.faster(SAE_DENSITY, lbfgs, 'L-BFGS')}",
        [
            f"R-SAE takes **{runs.instead(SAE_DENSITY, fcd, 'seconds')}** by FCD and "
            f"{runs.took(log_density.FGM_RESTARTED.label, 'seconds')} by FGM, both with the same "
            f"restarts, and {runs.took(lbfgs.label, 'seconds')} by L-BFGS on the sum.",
        ],
    )
