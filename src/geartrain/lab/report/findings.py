"""What is seen, in sentences whose numbers and verdicts come from the tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from geartrain.lab.experiments import kernel_svm, log_density
from geartrain.lab.tables import (
    DENSITY_EPS,
    SAE_DENSITY,
    SAE_SVM,
    SVM_EPS,
    Ratio,
    facts,
    main_case,
    ratio,
    with_costs,
)


@dataclass(frozen=True)
class Claim:
    """A claim, what was measured, and whether it holds here."""

    claim: str
    measured: str
    holds: str  # "yes", "no" or "not seen"


def verdict(r: Ratio | None) -> str:
    """Whether the ratio is below 1, as far as the runs tell."""
    if r is None or r.sign == "?":
        return "not seen"
    if (r.sign == "<" and r.value >= 1.0) or (r.sign == ">" and r.value < 1.0):
        return "not seen"
    return "yes" if r.value < 1.0 else "no"


def claims(svm: Any | None, density: Any | None) -> list[Claim]:
    """The claims of Section 5, and ours, against the tables."""
    out = []
    if svm is not None:
        main = with_costs(main_case(svm))

        def compare(other: str, column: str, ours: str = SAE_SVM) -> Ratio | None:
            return ratio(main, ours, other, column, SVM_EPS)

        ags, fgm = kernel_svm.AGS.label, kernel_svm.FGM.label
        for text, r in (
            ("5.1: SAE asks for fewer component gradients than AGS", compare(ags, "components")),
            (
                "5.1, with L = L_h and sigma = 1/2 as in the theory: the same",
                compare(ags, "components", kernel_svm.SAE_PAPER.label),
            ),
            ("Theory: SAE asks h no more often than AGS", compare(ags, "h.grad")),
            ("5.1: SAE takes less time than AGS", compare(ags, "seconds")),
            ("Table 1: SAE is ahead of FGM, seconds", compare(fgm, "seconds")),
            (
                "Table 1: AGS is ahead of FGM, component gradients",
                compare(fgm, "components", ags),
            ),
            (
                "Not in the paper: SAE takes less time than L-BFGS",
                compare(kernel_svm.LBFGS.label, "seconds"),
            ),
            (
                "Not in the paper: SAE-QN asks h less often than L-BFGS",
                compare(kernel_svm.LBFGS.label, "h.grad", kernel_svm.SAE_QN.label),
            ),
        ):
            out.append(Claim(text, f"ratio {r} to f - f* = 1e-3", verdict(r)))
    if density is not None:

        def against(other: Any, ours: str, column: str = "seconds") -> Ratio | None:
            return ratio(density, ours, other.label, column, DENSITY_EPS)

        density = with_costs(density)
        paper = log_density.SAE_PAPER.label
        for text, r in (
            (
                "5.2: SAE with L = 25 L_h and restarts after 300 steps takes less time than FCD",
                against(log_density.FCD, paper),
            ),
            ("5.2: the same against FGM", against(log_density.FGM, paper)),
            ("SAE, ours, takes less time than FCD", against(log_density.FCD, SAE_DENSITY)),
            (
                "... than FCD with restarts",
                against(log_density.FCD_RESTARTED, SAE_DENSITY),
            ),
            ("... than FGM", against(log_density.FGM, SAE_DENSITY)),
            ("... than FGM with restarts", against(log_density.FGM_RESTARTED, SAE_DENSITY)),
            (
                "... asks for fewer partial derivatives of g than FCD with restarts",
                against(log_density.FCD_RESTARTED, SAE_DENSITY, "g calls"),
            ),
            ("... takes less time than L-BFGS", against(log_density.LBFGS, SAE_DENSITY)),
            (
                "... asks h less often than L-BFGS",
                against(log_density.LBFGS, SAE_DENSITY, "h.grad"),
            ),
        ):
            out.append(Claim(text, f"ratio {r} to f - f* = 1e-6", verdict(r)))
    return out


def sentences(svm: Any | None, density: Any | None) -> list[str]:
    """A short text on what the figures show."""
    out = []
    if svm is not None:
        main = with_costs(main_case(svm))
        r = ratio(main, SAE_SVM, kernel_svm.AGS.label, "components", SVM_EPS)
        by_time = ratio(main, SAE_SVM, kernel_svm.AGS.label, "seconds", SVM_EPS)
        lbfgs = ratio(main, SAE_SVM, kernel_svm.LBFGS.label, "seconds", SVM_EPS)
        out.append(
            f"Kernel SVM. To f - f* = 1e-3 SAE with Katyusha inside asks for {r} times the "
            f"component gradients of AGS and takes {by_time} times its seconds. K is dense, so a "
            "gradient of h costs about half as much as a pass over g and there is little to gain "
            f"from asking h rarely: against L-BFGS on the sum the ratio of seconds is {lbfgs}. "
            "f* comes from a solve in the metric of the RKHS, which needs a handful of products "
            "with K: for this problem a good metric is worth more than any separation."
        )
    if density is not None:
        fcd, fgm = (
            ratio(density, SAE_DENSITY, other.label, "seconds", DENSITY_EPS)
            for other in (log_density.FCD_RESTARTED, log_density.FGM_RESTARTED)
        )
        other = log_density.FCD_RESTARTED.label
        asked = ratio(with_costs(density), SAE_DENSITY, other, "g calls", DENSITY_EPS)
        paper = density[density.method == log_density.SAE_PAPER.label]
        used = facts(density[density.method == SAE_DENSITY])
        out.append(
            "Log-density. With the paper's L = 25 L_h and a restart after every 300 coordinate "
            "steps (fewer than n) the envelope is stiff and the outer loop slow: after "
            f"{paper.seconds.max():.3g} s f - f* is {paper.gap.iloc[-1]:.1e}, from "
            f"{paper.gap.iloc[0]:.1e} at the start. The bound L_h is "
            f"{used['L_h'] / used['L_h used']:,.0f} times the constant of our curve. It "
            "starts from the curvature measured at x0 (7 gradients of h, counted), raises it where "
            "h shows more, "
            "restarts the momentum when a step goes uphill, and runs the coordinate method in "
            f"chunks of its natural length; it takes {fcd} times the seconds of FCD and {fgm} "
            "times those of FGM, both restarted in the same way. FGM is given the same measured "
            "constant, which changes nothing there because L_g decides; FCD uses constants "
            f"of its own. In partial derivatives of g the ratio to FCD is {asked}: few calls of h "
            "are paid for with calls of g."
        )
    return out
