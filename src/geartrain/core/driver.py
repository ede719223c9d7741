"""The outer loop: stepping, stopping, recording, and never losing what was computed."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from geartrain.core.checkpoint import Saver
from geartrain.core.contracts import AnyMethod, State, check_state
from geartrain.core.history import History
from geartrain.core.loop import drive, goes_on
from geartrain.core.run_state import Certificate, RunState
from geartrain.core.status import Status
from geartrain.core.stopping import Rule
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum

if TYPE_CHECKING:  # imported when a run ends: SciPy's part of it takes a while
    from geartrain.core.result import Result

Callback = Callable[..., Any]


class Run:
    """One run of a method; a `geartrain.core.stopping.Look` for its stopping rule."""

    def __init__(
        self,
        problem: Sum,
        method: AnyMethod,
        rule: Rule,
        *,
        max_iter: int,
        callbacks: Sequence[Callback] = (),
        plan: str = "",
        resume: RunState | None = None,
        checkpoint: Saver | None = None,
    ) -> None:
        self.problem, self.method, self.rule = problem, method, rule
        self.max_iter, self.plan = max_iter, plan
        self.checkpoint = checkpoint
        # After the last complete iteration: the state, and how many rows and notes belong to it.
        self._complete: tuple[RunState, int, int] | None = None
        self._ended: Status | None = None  # how an earlier run was ended by its rule
        self._closing = [e for c in callbacks if callable(e := getattr(c, "close", None))]
        self.callbacks = [_accepting(c) for c in callbacks]
        self.calls = problem.ledger.calls
        self.history = History(tuple(self.calls))
        self.state: State | None = None
        self.k = 0
        self.best_x: Vector | None = None
        self.best_f = self.best_grad_norm = math.nan
        self._grad0 = math.nan
        self._spent = 0.0  # seconds of earlier runs and before the last pause
        self._since = perf_counter()
        self._asked_bound = math.inf  # the bound at which the gradient was last asked for
        self._f = self._grad_norm = math.nan
        if resume is not None:
            self._continue(resume)

    def _continue(self, old: RunState) -> None:
        self.state, self.k, self._spent = old.state, old.iteration, old.seconds
        self.calls.update(old.calls)
        self.problem.ledger.seconds.update(old.oracle_seconds)
        self.best_x, self.best_f = old.best_x, old.best_f
        self.best_grad_norm, self._grad0 = old.best_grad_norm, old.initial_grad_norm
        self._asked_bound = old.asked_bound
        self.history.rows.extend(old.rows)
        self.history.notes.extend(old.notes)
        self._ended = None if old.status is None else Status(old.status)
        if self._ended is None and not goes_on(self.method):
            name = type(self.method).__name__
            note = f"{name} cannot be stepped: started again from the last point"
            self.history.notes.append((self.k, note))
            self.plan += f"; {note}"
        self._set_complete(old.status)

    @property
    def _now(self) -> State:
        assert self.state is not None
        return self.state

    # What a rule sees -------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Seconds of the method; the clock stands while a row is recorded."""
        return self._spent

    @property
    def A(self) -> float:
        """The A_k of the outer loop."""
        return float(self._now.A)

    def f(self) -> float:
        """F at the current point, uncounted."""
        if math.isnan(self._f):
            if self.problem.monitor is None:
                raise TypeError("stop.Value needs terms that give values")
            self._f = self.problem.monitor(self._now.point)
            if math.isnan(self._f):
                raise NonFiniteAnswer("f is NaN")
        return self._f

    def initial_grad_norm(self) -> float:
        """|grad f(x0)|."""
        return self._grad0

    def grad_norm(self, threshold: float) -> float:
        """|grad f|; a method that does not know it is asked when it is likely small."""
        if math.isnan(self._grad_norm) and self._worth_asking(threshold):
            self._resume_clock()
            self._grad_norm = self.problem.geometry.norm(self.problem.grad(self._now.point))
            self._pause_clock()
        return self._grad_norm

    def _worth_asking(self, threshold: float) -> bool:
        bound = float(self._now.grad_bound)
        if not math.isnan(bound):
            if bound > threshold or bound > 0.5 * self._asked_bound:
                return False
            self._asked_bound = bound
            return True
        # Nothing to go by: ask at iterations that grow by a tenth.
        return self.k > 0 and math.floor(_tenths(self.k)) > math.floor(_tenths(self.k - 1))

    # The loop ---------------------------------------------------------------------------

    @np.errstate(all="ignore")  # what overflows is reported by its status, not by warnings
    def go(self, x0: Vector) -> Result:
        """Run to the end; Ctrl-C and a non-finite answer give a result, too."""
        status, detail = Status.MAX_ITER, ""
        try:
            self._resume_clock()
            if self.best_x is None:
                self.best_x = x0
            if self._ended is not None:
                status = self._ended
            else:
                status = self._drive(x0)
        except NonFiniteAnswer as error:
            status, detail = Status.NON_FINITE, f" ({error})"
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except Exception as error:
            self._pause_clock()  # its value goes into the result
            failed = self._result(Status.FAILED, f" ({error!r})")
            error.partial_result = failed  # type: ignore[attr-defined]
            raise
        finally:
            self._pause_clock()
            self._save(now=True)
            for close in self._closing:
                close()
        return self._result(status, detail)

    def _save(self, now: bool = False) -> None:
        """Write a checkpoint of the last complete iteration, if it is time."""
        if self.checkpoint is None or self._complete is None:
            return
        done, n_rows, n_notes = self._complete
        rows, notes = self.history.rows, self.history.notes
        self.checkpoint.save(
            lambda: replace(done, rows=tuple(rows[:n_rows]), notes=tuple(notes[:n_notes])), now
        )

    def _set_complete(self, status: int | None) -> None:
        if self.checkpoint is not None:
            n_rows, n_notes = len(self.history.rows), len(self.history.notes)
            self._complete = self._run_state(status), n_rows, n_notes

    def _drive(self, x0: Vector) -> Status:
        """Run the method; it reports its states and is told when to stop."""
        ended: Status | None = None

        def report(state: State) -> bool:
            nonlocal ended
            self.k += self.state is not None
            self.state = state
            ended = self.record()
            if ended is None and self.k >= self.max_iter:
                ended = Status.MAX_ITER
            return ended is not None

        if self.state is not None and self.k >= self.max_iter:
            return Status.MAX_ITER
        drive(self.method, self.problem, x0, report, self.state)
        if ended is None:
            self._set_complete(Status.STALLED)
        return Status.STALLED if ended is None else ended

    def record(self) -> Status | None:
        """Look at the new state: a row of history, the best point, the stopping rule."""
        self._pause_clock()
        state = self._now
        check_state(state, self.method)
        self._f = float(state.value)
        grad = state.grad
        self._grad_norm = math.nan if grad is None else self.problem.geometry.norm(grad)
        if self.k == 0:
            self._grad0 = self._grad_norm
        try:
            status = self.rule.check(self)
        finally:  # a rule may ask an oracle that fails; the state is good all the same
            self._keep_best()
            self._add_row()
        if status is None and state.stalled:
            status = Status.STALLED
        self._set_complete(status)
        self._save()
        if self.callbacks:
            status = self._call_back() or status
        self._resume_clock()
        return status

    def _add_row(self) -> None:
        state = self._now
        self.history.append(
            (
                self._spent,
                self.k,
                self._f,
                self._grad_norm,
                float(state.L),
                float(state.A),
                float(state.ms_ratio),
                *self.calls.values(),
            )
        )
        if state.note:
            self.history.notes.append((self.k, state.note))
        for oracle in (self.problem.h, self.problem.g):  # a term may have something to tell, too
            for note in getattr(oracle.term, "pop_notes", tuple)():
                self.history.notes.append((self.k, note))

    def _keep_best(self) -> None:
        """Smaller f where it is known, else smaller gradient, else the newest."""
        if not (math.isnan(self._f) or math.isnan(self.best_f)):
            better = self._f <= self.best_f
        elif not (math.isnan(self._grad_norm) or math.isnan(self.best_grad_norm)):
            better = self._grad_norm <= self.best_grad_norm
        else:
            better = True
        if better:
            known = math.isnan(self._f) and not math.isnan(self._grad_norm)
            known = known and self._now.grad is not None
            self.best_x = self._now.grad_point if known else self._now.point
            self.best_f, self.best_grad_norm = self._f, self._grad_norm

    def _call_back(self) -> Status | None:
        from geartrain.core.result import Intermediate

        assert self.best_x is not None
        seen = Intermediate(
            x=np.array(self.problem.geometry.leave(self.best_x)),
            fun=self.best_f,
            nit=self.k,
            grad_norm=self.best_grad_norm,
            calls=dict(self.calls),
            seconds=self._spent,
        )
        for callback in self.callbacks:
            try:
                answer = callback(seen)
                if isinstance(answer, (bool, np.bool_)) and answer:
                    return Status.STOPPED
            except StopIteration:
                return Status.STOPPED
        return None

    def _pause_clock(self) -> None:
        if not math.isnan(self._since):
            self._spent += perf_counter() - self._since
        self._since = math.nan

    def _resume_clock(self) -> None:
        self._since = perf_counter()

    # The result -------------------------------------------------------------------------

    def _result(self, status: Status, detail: str) -> Result:
        from geartrain.core.result import Result

        assert self.best_x is not None
        fun = self.best_f
        if math.isnan(fun) and self.problem.monitor is not None and self.state is not None:
            try:
                fun = self.problem.monitor(self.best_x)
            except (Exception, KeyboardInterrupt) as error:  # nothing that was computed is lost
                detail += f" f could not be evaluated: {error!r}."
        p = self.problem
        return Result(
            x=np.array(self.problem.geometry.leave(self.best_x)),
            fun=fun,
            grad_norm=self.best_grad_norm,
            success=status == Status.CONVERGED,
            status=status,
            message=status.message + detail,
            nit=self.k,
            calls=dict(self.calls),
            seconds=dict(p.ledger.seconds),
            history=self.history,
            certificate=self._certificate(),
            constants={"L_h": p.L_h, "L_g": p.L_g, "mu": p.mu},
            plan=self._plan(),
            state=self._result_state(),
        )

    def _plan(self) -> str:
        describe = getattr(self.method, "describe", None)
        return self.plan if describe is None else describe(self.problem, self.state)

    def _certificate(self) -> Certificate | None:
        """f(x) - f* <= |grad f(x)|^2 / (2 mu), or R^2/(2 A_N) where the rule states R."""
        mu = self.problem.mu
        if mu.value and not math.isnan(self.best_grad_norm):
            bound = self.best_grad_norm**2 / (2.0 * mu.value)
            return Certificate(bound, f"f is {mu.value:.6g}-strongly convex (mu is {mu.source})")
        R = getattr(self.rule, "R", None)
        if R is not None and self.state is not None and self.state.A > 0:
            return Certificate(R**2 / (2.0 * self._now.A), f"|x0 - x*| <= {R:g}, f convex")
        return None

    def _result_state(self) -> RunState | None:
        if self.state is None:
            return None
        rows, notes = tuple(self.history.rows), tuple(self.history.notes)
        return replace(self._run_state(None), rows=rows, notes=notes)

    def _run_state(self, status: int | None) -> RunState:
        """As it is now, without the history: copying that at every iteration would be slow."""
        assert self.best_x is not None
        return RunState(
            method=self.method,
            state=self._now,
            iteration=self.k,
            seconds=self._spent,
            calls=dict(self.calls),
            oracle_seconds=dict(self.problem.ledger.seconds),
            initial_grad_norm=self._grad0,
            asked_bound=self._asked_bound,
            best_x=self.best_x,
            best_f=self.best_f,
            best_grad_norm=self.best_grad_norm,
            rows=(),
            notes=(),
            seed=self.problem.seed,
            status=None if status is None else int(status),
        )


def _tenths(k: int) -> float:
    return math.log(k) / math.log(1.1) if k > 0 else -1.0


def _accepting(callback: Callback) -> Callable[[Any], Any]:
    """SciPy's two forms: ``callback(intermediate_result)`` by that name, or ``callback(x)``."""
    if not callable(callback):
        raise TypeError(f"callback must be callable or a list of callables, got {callback!r}")
    try:
        names = list(inspect.signature(callback).parameters)
    except (TypeError, ValueError):
        names = []
    if names == ["intermediate_result"]:
        return lambda seen: callback(intermediate_result=seen)
    return lambda seen: callback(seen.x)
