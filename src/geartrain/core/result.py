"""What a run gives back."""

from __future__ import annotations

from scipy.optimize import OptimizeResult

from geartrain.core.status import Status


class Intermediate(OptimizeResult):
    """What a callback sees: x, fun, nit, grad_norm, calls, seconds."""


class Result(OptimizeResult):
    """A `scipy.optimize.OptimizeResult` with the bill.

    Attributes
    ----------
    x, fun
        The best point and f there (nan if a term gives no values).
    success, status, message, nit
        As in SciPy; `status` is a `geartrain.core.status.Status`.
    calls, seconds
        Calls of every oracle, and the time spent inside it.
    history
        One row an outer iteration.
    certificate
        A bound on f(x) - f* with its assumption, or None.
    constants
        L_h, L_g, mu as used, each with its source.
    plan
        What was chosen, and why.
    state
        For going on from here.
    """

    def __repr__(self) -> str:
        shown = {k: v for k, v in self.calls.items() if v}
        return (
            f"{Status(self.status).name}: {self.message}\n"
            f"  f = {self.fun:.12g} after {self.nit} iterations\n"
            f"  calls: {', '.join(f'{k} {v}' for k, v in shown.items())}\n"
            f"  {self.plan}"
        )
