"""How a run can end."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """Why a run ended; 0 is success, as in SciPy. `message` tells it in a sentence."""

    CONVERGED = 0
    MAX_ITER = 1
    BUDGET = 2
    STOPPED = 3
    NON_FINITE = 4
    STALLED = 5
    INTERRUPTED = 6
    FAILED = 7
    NOISE = 8
    UNBOUNDED = 9

    @property
    def message(self) -> str:
        """A full sentence that says what happened and what to do."""
        return _SENTENCES[self]

    @property
    def message_of_operators(self) -> str:
        """The same for a run of `geartrain.equilibrium`."""
        return _OF_OPERATORS.get(self, self.message)


_SENTENCES = {
    Status.CONVERGED: "The stopping rule is met.",
    Status.MAX_ITER: (
        "The iteration limit was reached before the stopping rule was met; raise max_iter or "
        "continue with minimize(h, g, state=res.state)."
    ),
    Status.BUDGET: "The budget of oracle calls or seconds is used up.",
    Status.STOPPED: "A callback ended the run.",
    Status.NON_FINITE: (
        "An oracle answered with NaN or infinity; x is the best point before that. Check the term "
        "with geartrain.check_term."
    ),
    Status.STALLED: (
        "The method finds no further progress: a constant may be wrong, a gradient may not match "
        "its values (see geartrain.check_term), f may not be convex, or its values may not show "
        "smaller differences; another method may go on from x."
    ),
    Status.NOISE: (
        "Noise in the answers prevents further progress: they contradict each other, and the "
        "gradient has not become smaller for many evaluations. Where no noise is expected, a "
        "gradient may not match its values. x is the best point; geartrain.check_term tells the "
        "level of the noise, or what is wrong."
    ),
    Status.UNBOUNDED: (
        "No minimiser of f is within 1e10 times the size of x0 and of every step that the "
        "curvature of f suggested, as the answers and convexity prove: f is probably unbounded "
        "below; check the signs of its terms, or add a penalty or bounds."
    ),
    Status.FAILED: "An oracle or a callback raised an error; x is the best point so far.",
    Status.INTERRUPTED: "Interrupted by the user; x is the best point so far.",
}

_OF_OPERATORS = {
    Status.MAX_ITER: (
        "The iteration limit was reached before the stopping rule was met; raise max_iter or "
        "continue with equilibrium(P, Q, state=res.state)."
    ),
    Status.STALLED: (
        "The method finds no further progress: there may be no solution, P + Q may not be "
        "monotone, a constant may be wrong, or the answers may be inexact; another method may go "
        "on from x."
    ),
}

# Where a term answers in single precision: the message of STALLED and NOISE after a descent, and
# what is added to that of CONVERGED where the tolerance was smaller.
SINGLE_ROUNDING = (
    "The method finds no further progress: {names} in single precision (float32), whose rounding "
    "errors are the likely reason. Compute in float64 to go further."
)
SINGLE_CONVERGED = " {names} in single precision (float32), so tol counts as {rel:g}."
# The message of STALLED where rounding is shown.
ROUNDING = (
    "Rounding errors prevent further progress: the gradient cannot be made smaller in double "
    "precision."
)
