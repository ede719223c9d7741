"""Going on from a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from geartrain.core.calling_back import Callback
from geartrain.core.checkpoint import Checkpoint, CheckpointError, Saved, read
from geartrain.core.resume_check import changed, differences, fingerprint
from geartrain.core.stopping import Rule
from geartrain.equilibrium import equilibrium
from geartrain.geometry import EUCLIDEAN, Geometry, as_geometry
from geartrain.launch import formed, with_constraints
from geartrain.minimize import minimize
from geartrain.oracles.protocols import AnyTerm
from geartrain.terms import Operators, Terms

if TYPE_CHECKING:
    from geartrain.core.result import Result


def resume(
    path: Any,
    h: AnyTerm,
    g: AnyTerm,
    *,
    geometry: Geometry | None = None,
    check: bool = True,
    stop: Rule | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    callback: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    constraints: Any = None,
    bounds: Any = None,
) -> Result:
    """Go on with a run of `minimize` or `equilibrium` that was saved by ``checkpoint=path``.

    The run continues as if it had never been stopped: the same iterates to the last bit, the
    same calls, the same seed and constants; it is saved to `path` again. A run that was complete
    gives its result at once. A method that cannot be stepped (SciPy's L-BFGS) starts again from
    the last point, and ``res.plan`` says so.

    Parameters
    ----------
    path : str or path
        The checkpoint.
    h, g : terms
        The same as before, or the operators P and Q. Their class, dimension and data are compared.
    geometry : geometry, optional
        The same as before.
    check : bool
        Whether a term that is made of functions or operators, whose data cannot be seen, is asked
        one question of the earlier run again and the answers are compared. That call is not
        counted. Say False where it is too expensive, or where answers are random.
    stop, tol : optional
        A new rule or tolerance; by default those of the run.
    max_iter : int, optional
        Iterations from here on; by default up to the limit of the run.
    callback, progress
        As in `minimize`; callbacks are not saved.
    constraints, bounds : optional
        The same as before.

    Returns
    -------
    Result
        Of the whole run.

    Raises
    ------
    CheckpointError
        The file is damaged, foreign, or from a newer version, or the problem is another one. The
        file is not touched.

    Examples
    --------
    >>> import tempfile, numpy as np, geartrain as gt
    >>> h, g = gt.Quadratic(np.eye(3), np.ones(3)), gt.Quadratic(np.diag([1.0, 10.0, 100.0]))
    >>> path = tempfile.mkdtemp() + "/run.gtck"
    >>> part = gt.minimize(h, g, method="fgm", max_iter=3, checkpoint=path)
    >>> whole = gt.resume(path, h, g, max_iter=1000)
    >>> part.success, whole.success, whole.nit > 3
    (False, True, True)
    """
    import_module("geartrain.methods.planning.planned")  # the classes that a checkpoint may hold
    saved = read(path)
    space: Geometry = EUCLIDEAN if geometry is None else as_geometry(geometry)
    of_functions = "operator" not in saved.run.method.needs
    of: Any = Terms.of if of_functions else Operators.of
    terms: Terms = with_constraints(of, h, g, constraints, bounds, saved.run.x0)
    _check_same_problem(path, saved, terms, space, check)
    if saved.rule is None and stop is None and tol is None:
        raise CheckpointError(f"{path}: the stopping rule was your own; give it again as stop=")
    state = saved.run
    if stop is not None or tol is not None:
        state = replace(state, status=None)
    place = Checkpoint(path, saved.every)
    place.heard = saved.heard
    again: dict[str, Any] = {
        "state": state,
        "stop": saved.rule if tol is None and stop is None else stop,
        "tol": 1e-6 if tol is None else tol,
        "max_iter": max(saved.max_iter - state.iteration, 0) if max_iter is None else max_iter,
        "callback": callback,
        "progress": progress,
        "checkpoint": place,
        "mu": saved.given.mu,
        "constraints": constraints,
        "bounds": bounds,
    }
    L_h: Any = saved.given.L_h
    L_g = saved.given.L_g
    if of_functions:
        return minimize(h, g, geometry=geometry, L_h=L_h, L_g=L_g, **again)
    return equilibrium(h, g, L_P=L_h, L_Q=L_g, **again)


def _check_same_problem(
    path: Any, saved: Saved, terms: Terms, space: Geometry, check: bool
) -> None:
    """Raise a `CheckpointError` unless the terms are those of the saved run."""
    if differ := differences(saved.fingerprint, fingerprint(terms.named, space)):
        raise CheckpointError(f"{path} is a run on another problem: {differ}")
    now = formed(terms, saved.run.form)
    for name, term in now.named.items() if check else ():
        smooth = space.term(now.smooth(name), name)
        if name in saved.heard and (how := changed(smooth, saved.heard[name])):
            raise CheckpointError(
                f"{path} is a run on another problem: {name} = {term!r} does not answer as before, "
                f"{how}; check=False goes on all the same"
            )
