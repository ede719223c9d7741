"""The sentences of the report; their numbers and verdicts come from the tables."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    with_costs,
)

Compare = Callable[..., Spread | None]
_CLOSE = 1.2  # ratios within this factor of 1 are called "about as many"
_SINGULAR = 1e-10  # of the largest eigenvalue

# Claims: a sentence, the method that should need less, the one that should need more, and of what.
_SVM_CLAIMS = (
    (
        "Section 5.1: SAE asks for fewer component gradients than AGS",
        SAE_SVM,
        kernel_svm.AGS,
        "components",
    ),
    (
        "The same with the constants of the theory",
        kernel_svm.SAE_PAPER.label,
        kernel_svm.AGS,
        "components",
    ),
    ("SAE asks for no more gradients of h than AGS", SAE_SVM, kernel_svm.AGS, "h.grad"),
    ("Section 5.1: SAE takes less time than AGS", SAE_SVM, kernel_svm.AGS, "seconds"),
    ("Table 1: SAE takes less time than FGM", SAE_SVM, kernel_svm.FGM, "seconds"),
    (
        "Table 1: AGS asks for fewer component gradients than FGM",
        kernel_svm.AGS.label,
        kernel_svm.FGM,
        "components",
    ),
    (
        "Not in the paper: SAE takes less time than L-BFGS",
        SAE_SVM,
        kernel_svm.LBFGS,
        "seconds",
    ),
    (
        "Not in the paper: pqn asks for fewer gradients of h than L-BFGS",
        kernel_svm.SAE_QN.label,
        kernel_svm.LBFGS,
        "h.grad",
    ),
)
_DENSITY_CLAIMS = (
    *(
        (
            f"Section 5.2: SAE with the paper's settings takes less time than {name}",
            log_density.SAE_PAPER.label,
            other,
            "seconds",
        )
        for name, other in (("FCD", log_density.FCD), ("FGM", log_density.FGM))
    ),
    *(
        (f"{SAE_DENSITY} takes less time than {other.label}", SAE_DENSITY, other, "seconds")
        for other in (
            log_density.FCD,
            log_density.FCD_RESTARTED,
            log_density.FGM,
            log_density.FGM_RESTARTED,
            log_density.LBFGS,
        )
    ),
    (
        f"{SAE_DENSITY} asks for fewer gradients of h than L-BFGS",
        SAE_DENSITY,
        log_density.LBFGS,
        "h calls",
    ),
    (
        f"{SAE_DENSITY} asks for fewer gradients of g than FCD, restarted",
        SAE_DENSITY,
        log_density.FCD_RESTARTED,
        "g calls",
    ),
)


@dataclass(frozen=True)
class Claim:
    """A claim, the ratio that was measured for it, and whether it holds here."""

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


def _faster(r: Spread | None, other: str) -> str:
    return _than(r, other, "faster", "slower", "as fast")


def _comparison(table: Any, eps: float) -> Compare:
    def compare(ours: str, other: Entry, column: str) -> Spread | None:
        return ratio(table, ours, other.label, column, eps)

    return compare


def _times(r: Spread | None) -> str:
    """The ratio as a factor in a sentence."""
    known = r is not None and (r.low[1] > 0.0 or r.high[1] < math.inf)
    return f"{r} times" if known else "an unknown number of times"


def _asked(table: Any, entry: Entry, eps: float) -> tuple[Spread | None, Spread | None]:
    h, g = (amount(table, entry.label, column, eps) for column in ("h calls", "g calls"))
    return h, g


def claims(svm: Any | None, density: Any | None) -> list[Claim]:
    """The claims of Section 5 and some of our own against the tables."""
    out = []
    if svm is not None:
        compare = _comparison(with_costs(main_case(svm)), SVM_EPS)
        out += [(f"{text}, to 1e-3", compare(*pair)) for text, *pair in _SVM_CLAIMS]
    if density is not None:
        compare = _comparison(with_costs(density), DENSITY_EPS)
        out += [(f"{text}, to 1e-6", compare(*pair)) for text, *pair in _DENSITY_CLAIMS]
    return [Claim(text, str(r), verdict(r)) for text, r in out]


def story(svm: Any | None, density: Any | None) -> dict[str, str]:
    """What was minimised, what each term was asked, and the ratios that matter; one text each."""
    minimised, asked, matters = [], [], []
    if svm is not None:
        main = with_costs(main_case(svm))
        compare = _comparison(main, SVM_EPS)
        minimised.append(
            "a kernel support vector machine (h is the quadratic regulariser, g the mean of "
            f"{facts(main)['m']:,} smoothed hinge losses)"
        )
        asked.append(
            "On the support vector machine, the fast gradient method (FGM) asks "
            f"{_gradients(main, kernel_svm.FGM, SVM_EPS)}, and SAE asks "
            f"{_gradients(main, kernel_svm.SAE_TUNED, SVM_EPS, loud=True)}."
        )
        components = compare(SAE_SVM, kernel_svm.AGS, "components")
        matters.append(
            f"SAE needs **{_times(components)}** as many gradients of summands of g as AGS, the "
            "earlier method that separates the terms, and "
            f"{_times(compare(SAE_SVM, kernel_svm.AGS, 'h.grad'))} as many gradients of h."
        )
    if density is not None:
        costs = with_costs(density)
        c, compare = facts(density), _comparison(costs, DENSITY_EPS)
        minimised.append(
            f"a log-density (h is the logarithm of {c['p']:,} exponentials, g a dense quadratic in "
            f"{c['n']:,} variables)"
        )
        asked.append(
            "On the log-density, FGM with restarts asks "
            f"{_gradients(costs, log_density.FGM_RESTARTED, DENSITY_EPS)}, and R-SAE asks "
            f"{_gradients(costs, log_density.R_SAE, DENSITY_EPS, loud=True)}."
        )
        r = compare(SAE_DENSITY, log_density.FCD_RESTARTED, "h calls")
        price = compare(SAE_DENSITY, log_density.FCD_RESTARTED, "g calls")
        matters.append(
            f"R-SAE needs **{_times(r)}** as many gradients of h as coordinate descent on the sum, "
            f"at the price of {_times(price)} as many gradients of g."
        )
    problems = "Two problems" if len(minimised) == 2 else "A problem"
    return {
        "What was minimised": f"{problems} f = h + g: {', and '.join(minimised)}.",
        "What each term was asked": " ".join(asked),
        "The ratios that matter": " ".join(
            [*matters, "Brackets hold the quartiles over five seeds."]
        ),
    }


def _gradients(table: Any, entry: Entry, eps: float, loud: bool = False) -> str:
    """How many gradients of each term a method asked for, as the object of a sentence."""
    h, g = (_plain(s) for s in _asked(table, entry, eps))
    if h == g:
        return f"for {h} gradients of each term"
    return f"for {'**' * loud}{h} gradients of h{'**' * loud} and {g} of g"


def _plain(s: Spread | None) -> str:
    """The median alone, or its bound."""
    return "?" if s is None else str(s).split(" [")[0]


def svm_counts(svm: Any) -> Finding:
    """Component gradients and gradients of h."""
    main = with_costs(main_case(svm))
    compare = _comparison(main, SVM_EPS)
    r = compare(SAE_SVM, kernel_svm.AGS, "components")
    theory = compare(kernel_svm.SAE_PAPER.label, kernel_svm.AGS, "components")
    h = compare(SAE_SVM, kernel_svm.AGS, "h.grad")
    fgm = compare(SAE_SVM, kernel_svm.FGM, "h.grad")
    return Finding(
        "SAE asks for "
        + _than(r, "AGS", "fewer summands of g", "more summands of g", "as many summands of g"),
        [
            "AGS asks for a full gradient of g in every inner step. SAE hands the inner problem to "
            "Katyusha, which asks for the gradient of one summand at a time. To 1e-3, SAE needs "
            f"**{_times(r)}** as many gradients of summands as AGS; with the constants of the "
            f"theory instead of ours, {_times(theory)} as many.",
            f"SAE needs {_times(h)} as many gradients of h as AGS, and {_times(fgm)} as many as "
            "FGM, which does not separate the terms.",
        ],
    )


def svm_seconds(svm: Any) -> Finding:
    """Seconds, and where separation does not pay."""
    main = with_costs(main_case(svm))
    compare = _comparison(main, SVM_EPS)
    ags = compare(SAE_SVM, kernel_svm.AGS, "seconds")
    lbfgs = compare(SAE_SVM, kernel_svm.LBFGS, "seconds")
    asked, _ = _asked(main, kernel_svm.LBFGS, SVM_EPS)
    h, g = _asked(main, kernel_svm.SAE_QN, SVM_EPS)
    return Finding(
        f"In seconds, SAE is {_faster(ags, 'AGS')} and {_faster(lbfgs, 'L-BFGS')}",
        [
            f"SAE takes **{_times(ags)}** as long as AGS. The kernel matrix is dense, so a "
            "gradient of h costs about half as much as a pass over g, and there is little to gain "
            f"from asking h rarely: SAE takes **{_times(lbfgs)}** as long as L-BFGS on the sum.",
            f"L-BFGS needs {_plain(asked)} gradients of each term. pqn, which separates the "
            f"terms with a quasi-Newton model of h, needs {_plain(h)} of h and {_plain(g)} of g; "
            "it is the method to choose where h is the expensive term.",
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
    ends = [with_costs(svm[svm.case == case]) for case in (cases[0], cases[-1])]
    told = []
    for entry in (kernel_svm.SAE_TUNED, kernel_svm.AGS):
        first, last = (_plain(amount(end, entry.label, "components", SVM_EPS)) for end in ends)
        told.append(f"{entry.label} from {first} to {last}")
    gammas = [f"gamma = {facts(end)['gamma']:g}" for end in ends]
    return Finding(
        "The same for three kernels",
        [
            f"The gradients of summands that are needed to reach 1e-3 change from {gammas[0]} to "
            f"{gammas[1]}: for {' and for '.join(told)}. Methods that did not reach 1e-3 for every "
            "gamma are left out.",
        ],
    )


def density_counts(density: Any) -> Finding:
    """Gradients of h against gradients of g."""
    costs = with_costs(density)
    compare = _comparison(costs, DENSITY_EPS)
    fgm = compare(SAE_DENSITY, log_density.FGM_RESTARTED, "h calls")
    fcd = compare(SAE_DENSITY, log_density.FCD_RESTARTED, "h calls")
    price = compare(SAE_DENSITY, log_density.FCD_RESTARTED, "g calls")
    paper = density[density.method == log_density.SAE_PAPER.label]
    used, qn = facts(density[density.method == SAE_DENSITY]), log_density.SAE_QN
    h, g = _asked(costs, qn, DENSITY_EPS)
    return Finding(
        "R-SAE asks for "
        + _than(
            fcd,
            "coordinate descent",
            "fewer gradients of h",
            "more gradients of h",
            "as many gradients of h",
        ),
        [
            f"R-SAE needs **{_times(fgm)}** as many gradients of h as FGM with restarts and "
            f"**{_times(fcd)}** as many as accelerated coordinate descent (FCD) with restarts. The "
            f"price is {_times(price)} as many gradients of g as FCD, where n partial derivatives "
            "count as one gradient.",
            "The constant matters as much as the method: the bound L_h of h is "
            f"{used['L_h'] / used['L_h used']:,.0f} times the curvature of h at the starting "
            "point. R-SAE, AFB and FGM with restarts begin with that curvature, and the methods "
            "that separate the terms raise it where h is more curved. The paper's settings are "
            "L = 25 L_h and a restart after every 300 coordinate steps; with them, f - f* has come "
            f"from {paper.gap.max():.2g} to {paper.gap.min():.2g} after "
            f"{paper.seconds.max():.2g} s.",
            f"pqn needs no constants. It asks for {_plain(h)} gradients of h and {_plain(g)} of g.",
        ],
    )


def density_seconds(density: Any) -> Finding:
    """Seconds of the log-density."""
    compare = _comparison(with_costs(density), DENSITY_EPS)
    fcd = compare(SAE_DENSITY, log_density.FCD_RESTARTED, "seconds")
    fgm = compare(SAE_DENSITY, log_density.FGM_RESTARTED, "seconds")
    lbfgs = compare(SAE_DENSITY, log_density.LBFGS, "seconds")
    return Finding(
        f"In seconds, R-SAE is {_faster(fcd, 'coordinate descent')} and {_faster(lbfgs, 'L-BFGS')}",
        [
            f"R-SAE takes **{_times(fcd)}** as long as FCD and {_times(fgm)} as long as FGM, both "
            f"with the same restarts, and {_times(lbfgs)} as long as L-BFGS on the sum.",
        ],
    )
