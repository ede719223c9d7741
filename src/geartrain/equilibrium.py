"""The front door for operators: ``equilibrium(P, Q)``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geartrain.core.array_format import Form
from geartrain.core.calling_back import Callback
from geartrain.core.checkpoint import GivenConstants
from geartrain.core.contracts import AnyMethod
from geartrain.core.interrupts import Interrupts
from geartrain.core.run_state import RunState
from geartrain.core.stopping import Rule
from geartrain.geometry import EUCLIDEAN
from geartrain.launch import (
    Launch,
    called,
    formed,
    into_domain,
    launch,
    starting_point,
    with_constraints,
)
from geartrain.oracles.protocols import AnyTerm
from geartrain.oracles.validation import as_whole
from geartrain.terms import Operators, check_same_terms, plain

if TYPE_CHECKING:
    from geartrain.core.result import Result


# Paper: saddle-point problems
# Paper: variational inequalities
def equilibrium(
    P: AnyTerm,
    Q: AnyTerm = None,
    x0: Any = None,
    *,
    method: str | AnyMethod = "auto",
    stop: Rule | None = None,
    tol: float = 1e-6,
    max_iter: int | None = None,
    L_P: float | None = None,
    L_Q: float | None = None,
    mu: float | None = None,
    seed: int = 0,
    callback: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    verbose: int = 0,
    state: RunState | None = None,
    checkpoint: Any = None,
    constraints: Any = None,
    bounds: Any = None,
) -> Result:
    """Find z with 0 in P(z) + Q(z), asking P only as often as if Q were absent.

    P and Q are operators whose sum is monotone: gradients, the two gradients of a saddle point, the
    forces of a game. With a set C in Q it is the variational inequality <P(z) + Q(z), u - z> >= 0
    for all u in C.

    Parameters
    ----------
    P, Q : operators
        `geartrain.Operator`, `geartrain.Saddle`, terms with gradients such as
        `geartrain.Quadratic`, and sums of these. P is the one to be asked rarely. Q may be None,
        and may have a set or another non-smooth term, added to it or alone:
        ``Q + gt.Linear(...)``, ``gt.Box(0, 1)``.
    x0 : array, optional
        Starting point, of any shape; zero if not given. Where it is outside of the set, its
        projection.
    method : str or method
        "auto", which needs no constants (see `geartrain.methods.AndersonResolvent`), "hpe", whose
        numbers of calls are proven, or one of the baselines "extragradient", "optimistic" and
        "anderson", which ask P as often as Q; or an object such as ``gt.methods.HPE(sigma=0.5)``.
    stop, tol
        As in `minimize`, for the residual R(z) = P(z) + Q(z): by default the run ends at
        ``|R(z)| <= tol |R(x0)|``. With a set it is the element of least norm of R(z) plus the
        normal cone, and ``res.grad_norm`` is its norm.
    max_iter : int, optional
        Limit of iterations; 100,000 if not given.
    L_P, L_Q, mu : float, optional
        Lipschitz constants, and the strong monotonicity of P + Q, where the operators do not know.
    seed, callback, progress, verbose, state, checkpoint, constraints, bounds
        As in `minimize`; `geartrain.resume` goes on from a checkpoint.

    Returns
    -------
    Result
        As of `minimize`, with calls as ``{"P.operator": ..., "Q.operator": ...}``. There is no f:
        ``res.fun`` is nan and there is no certificate.

    Examples
    --------
    Two firms in a market with the price 10 - x - y, capacities, and cheap own costs.

    >>> import numpy as np, geartrain as gt
    >>> market = gt.Operator(lambda z: 2 * z + z[::-1] - 10, n=2)
    >>> costs = gt.Quadratic(np.diag([1.0, 4.0]))
    >>> res = gt.equilibrium(market, costs + gt.Box(0, 2), tol=1e-9)
    >>> res.success, res.x.round(6)
    (True, array([2.      , 1.333333]))
    """
    with Interrupts() as interrupts:  # Ctrl-C gives a result, whenever it is pressed
        start = getattr(state, "x0", x0)
        operators = with_constraints(Operators.of, P, Q, constraints, bounds, start)
        x_start = starting_point(x0, operators, state, EUCLIDEAN)
        form = Form.of(x0, *operators.named.values()) if state is None else state.form
        n = x_start.size
        problem = formed(operators, form).problem(EUCLIDEAN, n, L_P, L_Q, mu)
        problem = replace(problem, seed=as_whole(seed, "seed") if state is None else state.seed)
        x_start, moved = into_domain(x_start, problem) if state is None else (x_start, "")
        if state is None:
            from geartrain.methods.registry import make_operator_method

            chosen, plan = make_operator_method(method, problem)
        else:
            check_same_terms(state.calls, problem)
            chosen, plan = state.method, "continued"
        given = GivenConstants(plain(L_P), plain(L_Q), plain(mu))
        return launch(
            Launch(problem, operators, chosen, plan, x_start, state, form, given, moved),
            interrupts,
            words=f"solve 0 in P + Q in {n} variables by the method {called(method)}",
            stop=stop,
            tol=tol,
            max_iter=max_iter,
            callback=callback,
            progress=progress,
            verbose=verbose,
            record=None,
            checkpoint=checkpoint,
        )
