"""What a run gives back."""

from __future__ import annotations

from scipy.optimize import OptimizeResult

from geartrain.core import html
from geartrain.core.status import Status


class Intermediate(OptimizeResult):
    """What a callback sees: x, fun, nit, grad_norm, calls, seconds."""


class Result(OptimizeResult):
    """A `scipy.optimize.OptimizeResult` with the bill.

    Attributes
    ----------
    x, fun
        The best point and f there (nan if a term gives no values, and for operators).
    grad_norm
        The norm of the gradient of f at x, or of the residual; nan where it is not known.
    success, status, message, nit
        As in SciPy; `status` is a `geartrain.core.status.Status`.
    nfev, njev, jac
        As in SciPy, for h: evaluations of its value and of its gradient, where one that gives both
        counts twice; and the gradient of f at x (the shortest subgradient, with a non-smooth term),
        or None where the run does not know it. `calls` has the numbers of every term.
    calls, seconds
        Calls of every oracle, and the time spent inside it.
    history
        One row per outer iteration.
    certificate
        A bound on f(x) - f* with its assumption, or None.
    constants
        L_h, L_g, mu as used, each with its source.
    plan
        The method that was chosen, the reason, and the bill.
    multipliers
        Where g has constraints (`geartrain.Linear`, `geartrain.Box`), ``{"rows": y, "bounds": z}``
        with grad (h + g)(x) = A'y + z + r, r the shortest subgradient: how much the minimum rises
        when a side rises by 1. y and z are at least 0 at a lower side, at most 0 at an upper one,
        and 0 elsewhere, as the marginals of `scipy.optimize.linprog` are. None without constraints,
        and where the run has no gradient at x.
    violation
        With `geartrain.Linear`, the largest violation of a row over its scale; else None.
    state
        The state of the method; ``minimize(h, g, state=res.state)`` continues the run.
    """

    def __repr__(self) -> str:
        shown = {k: v for k, v in self.calls.items() if v}
        end = f"f = {self.fun:.12g}"
        if self.fun != self.fun and "grad_norm" in self:  # there may be no f
            end = f"residual {self.grad_norm:.3g}"
        return (
            f"{Status(self.status).name}: {self.message}\n"
            f"  {end} after {self.nit} iterations\n"
            f"  calls: {', '.join(f'{k} {v}' for k, v in shown.items())}\n"
            f"  {self.plan}"
        )

    def _repr_html_(self) -> str:
        """A table for notebooks: how the run ended, and what each oracle was asked."""
        status = Status(self.status).name
        grad_norm = self.get("grad_norm", float("nan"))
        facts = [("message", self.message)]
        if self.fun == self.fun:
            facts.append(("f", f"{self.fun:.12g}"))
        if grad_norm == grad_norm:
            facts.append(("|grad f|" if self.fun == self.fun else "residual", f"{grad_norm:.3g}"))
        facts.append(("outer iterations", str(self.nit)))
        if self.certificate is not None:
            bound = f"f - f* <= {self.certificate.bound:.3g}, if {self.certificate.assumption}"
            facts.append(("certificate", bound))
        facts.append(("plan", self.plan))
        calls = [(k, v) for k, v in self.calls.items() if v]
        bill = [[key, str(count), f"{self.seconds[key]:.3g}"] for key, count in calls]
        return html.facts(facts, f"Result: {status}") + html.table(
            ["oracle", "calls", "seconds"], bill, "Calls and the time spent in them"
        )
