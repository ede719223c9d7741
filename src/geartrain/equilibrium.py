"""The front door for operators: ``equilibrium(P, Q)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from geartrain.core.calling_back import Callback
from geartrain.core.contracts import AnyMethod
from geartrain.core.run_state import RunState
from geartrain.core.stopping import Rule
from geartrain.launch import called, solve
from geartrain.oracles.protocols import AnyTerm
from geartrain.problem import Sum
from geartrain.terms import Operators, check_same_terms

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

    def choose(problem: Sum) -> tuple[AnyMethod, str]:
        from geartrain.methods.registry import make_operator_method

        if state is None:
            return make_operator_method(method, problem)
        check_same_terms(state.calls, problem)
        return state.method, "continued"

    return solve(
        Operators.of,
        P,
        Q,
        x0,
        choose=choose,
        words=f"solve 0 in P + Q in {{n}} variables by the method {called(method)}",
        L_h=L_P,
        L_g=L_Q,
        mu=mu,
        geometry=None,
        seed=seed,
        state=state,
        constraints=constraints,
        bounds=bounds,
        stop=stop,
        tol=tol,
        max_iter=max_iter,
        callback=callback,
        progress=progress,
        verbose=verbose,
        record=None,
        checkpoint=checkpoint,
    )
