"""The outer loop: stepping, stopping, recording, and never losing what was computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from geartrain.core.calling_back import Callback, Callbacks
from geartrain.core.checkpoint import Saver
from geartrain.core.contracts import AnyMethod, State, check_state
from geartrain.core.form import Form
from geartrain.core.history import History
from geartrain.core.interrupts import Interrupts
from geartrain.core.loop import drive, goes_on
from geartrain.core.points import NOTHING_SEEN, RunPoint, Seen
from geartrain.core.recording import Recorder
from geartrain.core.run_state import RunState
from geartrain.core.start import StartGradients
from geartrain.core.status import ROUNDING, Status
from geartrain.core.stopping import Rule
from geartrain.core.values import PaidValues
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector, answers
from geartrain.problem import Sum

if TYPE_CHECKING:  # imported when a run ends: SciPy's part of it takes a while
    from geartrain.core.result import Result


class RunOver(BaseException):
    """Ends a run inside an iteration. No oracle and no method can take it for an error."""

    def __init__(self, status: Status) -> None:
        self.status = status


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
        interrupts: Interrupts | None = None,
        record: tuple[str, ...] = (),
        form: Form | None = None,
    ) -> None:
        self.problem, self.method, self.rule = problem, method, rule
        self._exceeded = getattr(rule, "exceeded", None)  # of rules of time and calls
        self.max_iter, self.plan = max_iter, plan
        self.form = form
        self.checkpoint = checkpoint
        self.callbacks = Callbacks(callbacks)
        self.interrupts = Interrupts() if interrupts is None else interrupts
        self.calls = problem.ledger.calls
        self.paid = PaidValues(problem)
        self.recorder = Recorder(problem, self.paid, record)
        self.history = History(tuple(self.calls))
        self.k = 0
        self.state: State | None = None
        self.x0: Vector | None = None
        self.best: RunPoint | None = None
        self._grad0 = self._f0 = math.nan  # |grad f| and f at x0
        self._scale = 0.0  # see `gradient_scale`
        self._heard: StartGradients | None = None
        self._spent = 0.0  # seconds of earlier runs and before the last pause
        self._since = math.nan  # when the clock was started, nan while it stands
        self._asked_bound = math.inf  # the bound at which the gradient was last asked for
        # Of the current state: f and |grad f| as far as known, and where the rule last looked.
        self._f = self._grad_norm = math.nan
        self._seen = NOTHING_SEEN
        self._recorded = math.nan, math.nan  # the same for the history, see `Recorder`
        self._looked_at: RunPoint | None = None
        # After the last complete iteration: the state, and how many rows and notes belong to it.
        self._complete: tuple[RunState, int, int] | None = None
        self._ended: Status | None = None  # how an earlier run was ended by its rule
        if resume is not None:
            self._continue(resume)

    def _continue(self, old: RunState) -> None:
        self.state, self.k, self._spent = old.state, old.iteration, old.seconds
        self.calls.update(old.calls)
        self.problem.ledger.seconds.update(old.oracle_seconds)
        self.x0, self.best = old.x0, old.best
        self._grad0, self._f0 = old.initial_grad_norm, old.initial_value
        self._scale = old.gradient_scale
        self.paid.remember(old.best.x, old.best_values)
        self._asked_bound = old.asked_bound
        self.history.rows.extend(old.rows)
        self.history.notes.extend(old.notes)
        self._ended = None if old.status is None else Status(old.status)
        if self._ended is None and not goes_on(self.method):
            name = type(self.method).__name__
            note = f"{name} cannot be stepped: started again from the last point"
            self.history.notes.append((self.k, note))
            self.plan += f"; {note}"
        self._set_complete(self._ended)

    # What a rule sees -------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Seconds of the method; the clock stands while a row is recorded."""
        running = not math.isnan(self._since)
        return self._spent + (perf_counter() - self._since if running else 0.0)

    def f(self) -> float:
        """f at the current point, uncounted."""
        if math.isnan(self._f):
            if self.problem.monitor is None:
                raise TypeError("stop.Value needs terms that give values")
            self._f = self.problem.monitor(self._now.point)
            if math.isnan(self._f):
                raise NonFiniteAnswer("f is NaN")
        self._looked_at = self._points()[0]
        return self._f

    def grad_norm(self, threshold: float) -> float:
        """|grad f|; a method that does not know it is asked when it is likely small."""
        if math.isnan(self._grad_norm) and self._worth_asking(threshold):
            self._ask_gradient()
        self._looked_at = self._points()[-1]
        return self._grad_norm

    def initial_grad_norm(self) -> float:
        """|grad f(x0)|; asked for where the method does not know it."""
        if math.isnan(self._grad0):
            if self.k == 0 and self._is_at_start():
                self._ask_gradient()
                self._grad0 = self._grad_norm
            else:  # the method started elsewhere
                assert self.x0 is not None
                self._start_clock()
                known = self._heard
                grad = self.problem.grad(self.x0) if known is None else known.total()
                self._grad0 = self.problem.geometry.norm(grad)
                self._stop_clock()
        return self._grad0

    def gradient_scale(self) -> float:
        """The larger one of |grad f(x0)| and the second largest gradient of a term at x0."""
        heard = 0.0 if self._heard is None else self._heard.second
        self._scale = max(self._scale, self.initial_grad_norm(), heard)
        return self._scale

    def gap(self) -> float:
        """The smallest bound on f - f* that is proven with what the rule states; inf if none."""
        assert self.x0 is not None
        bounds = [(p.certificate(self.problem, self.x0, self.rule), p) for p in self._points()]
        known = [(c.bound, p) for c, p in bounds if c is not None]
        if not known:
            return math.inf
        bound, self._looked_at = min(known, key=lambda pair: pair[0])
        return bound

    @property
    def _now(self) -> State:
        assert self.state is not None
        return self.state

    def _points(self) -> tuple[RunPoint, ...]:
        return RunPoint.of(self._now, self._f, self._grad_norm, self._seen)

    def _worth_asking(self, threshold: float) -> bool:
        bound = float(self._now.grad_bound)
        if not math.isnan(bound):
            if bound > threshold or bound > 0.5 * self._asked_bound:
                return False
            self._asked_bound = bound
            return True
        # Nothing to go by: ask at iterations that grow by a tenth.
        return self.k > 0 and math.floor(_tenths(self.k)) > math.floor(_tenths(self.k - 1))

    def _ask_gradient(self) -> None:
        self._start_clock()
        x, p = self._now.point, self.problem
        self._see_gradient(x, p.subgradient(x, p.grad(x), self._now.grad_psi))
        self._stop_clock()

    def _see_gradient(self, x: Vector, grad: Vector) -> None:
        self._grad_norm = self.problem.geometry.norm(grad)
        if self.problem.psi is not None:
            psi = self.problem.psi
            self._seen = Seen(psi.gap(x, grad), float(grad @ x), psi.polar(grad))

    # The loop ---------------------------------------------------------------------------

    @np.errstate(all="ignore")  # what overflows is reported by its status, not by warnings
    def go(self, x0: Vector) -> Result:
        """Run to the end; Ctrl-C and a non-finite answer give a result, too."""
        if self.x0 is None:
            self.x0 = x0
        if self.best is None:
            self.best = RunPoint(x0)
        with self.interrupts, np.errstate(all="ignore"):
            error: BaseException | None = None
            try:
                with self.interrupts.raising():
                    status, detail = self._run(x0)
            except KeyboardInterrupt:
                status, detail = Status.INTERRUPTED, ""
            except BaseException as raised:
                status, detail, error = Status.FAILED, f" ({raised!r})", raised
            self.interrupts.over = True
            self._stop_clock()
            self.problem.ledger.guard = self.problem.ledger.room = None
            self._save(now=True)
            self.callbacks.close()
            result = self._result(status, detail)
        if error is not None:
            error.partial_result = result  # type: ignore[attr-defined]
            raise error
        return result

    def _run(self, x0: Vector) -> tuple[Status, str]:
        """How the iterations ended, and what there is to say about it."""
        if self._ended is not None:
            return self._ended, ""
        self.problem.ledger.guard = self._guard
        if callable(room := getattr(self.rule, "room", None)):
            self.problem.ledger.room = partial(room, self)
        if self.state is None:
            self._heard = StartGradients(self.problem, x0)
        self._start_clock()
        try:
            if self.interrupts.pending:
                return Status.INTERRUPTED, ""
            if self.state is not None and self.k >= self.max_iter:
                return Status.MAX_ITER, ""
            drive(self.method, self.problem, x0, self._report, self.state)
        except RunOver as over:
            return over.status, ""
        except NonFiniteAnswer as error:
            return Status.NON_FINITE, f" ({error})"
        if self._ended is None:  # a whole method gave up
            self._ended = Status.STALLED
            self._set_complete(self._ended)
        return self._ended, ""

    def _report(self, state: State) -> bool:
        """Take a new state from the method; True if it should end."""
        check_state(state, self.method)
        with self.interrupts.raising(False):  # what follows belongs together
            self._stop_clock()
            self.k += self.state is not None
            self.state = state
            self._ended = self._record()
            if self._heard is not None:
                self._heard.close()
                self._heard = None
            if self._ended is None and self.k >= self.max_iter:
                self._ended = Status.MAX_ITER
            self._start_clock()
        return self._ended is not None

    def _record(self) -> Status | None:
        """Look at the new state: the stopping rule, the best point, a row of history."""
        state = self._now
        self._f = float(state.value)
        self._grad_norm, self._seen = math.nan, NOTHING_SEEN
        if (grad := state.grad) is not None:
            self._see_gradient(state.grad_point, grad)
        self._recorded = self._f, self._grad_norm
        self._looked_at = None
        if self.k == 0:
            self._set_start()
        status = None
        try:
            with self.interrupts.raising():
                status = self.rule.check(self)
                self._recorded = self.recorder.numbers(state, self._f, self._grad_norm)
        finally:  # a rule may ask an oracle that fails; the state is good all the same
            self._keep_best(status)
            self._add_row()
        at_x0 = self.k == 0 and self.x0 is not None and np.array_equal(state.point, self.x0)
        if at_x0 and math.isnan(self._f0):
            self._f0 = self._f  # the rule may have looked at it
        if status is None and state.stalled:
            status = Status.NOISE if state.noisy else Status.STALLED
        self._set_complete(status)
        self._save()
        with self.interrupts.raising():
            stop = bool(self.callbacks) and self._call_back()
        return Status.STOPPED if stop and status is None else status

    def _set_start(self) -> None:
        """What is known at x0; a method may start elsewhere."""
        assert self.x0 is not None
        known = self.paid.known(self.x0)
        self._f0 = self.paid.total(known, self.x0)
        if self._is_at_start():
            self._grad0 = self._grad_norm
        if math.isnan(self._f0):
            self._f0 = self._f if self._now.point is self.x0 else math.nan

    def _is_at_start(self) -> bool:
        """Whether the first gradient that the method knows is that at x0."""
        assert self.x0 is not None
        return self.problem.psi is not None or np.array_equal(self._now.grad_point, self.x0)

    def _keep_best(self, status: Status | None) -> None:
        """The point where the rule was met; until then the best one that is finite."""
        if status is Status.CONVERGED and self._looked_at is not None:
            self.best = self._looked_at
            return
        assert self.best is not None and self.x0 is not None
        points, state = self._points(), self._now
        new = points[-1] if math.isnan(points[0].f) else points[0]
        if state.grad is not None and new.x is state.grad_point:
            slope = self.problem.geometry.dot(state.grad, self.x0 - new.x)
            new = replace(new, below=bool(slope >= 0.0))
            unsure = not new.below and self.best.x is self.x0 and math.isnan(new.f)
        else:
            unsure = False
        if new.is_finite and new.better_than(self.best) and not unsure:
            self.best = new

    def _add_row(self) -> None:
        state = self._now
        numbers = (float(state.L), float(state.A), float(state.ms_ratio))
        self.history.append((self._spent, self.k, *self._recorded, *numbers, *self.calls.values()))
        if state.note:
            self.history.notes.append((self.k, state.note))
        for oracle in self.problem.oracles:  # a term may have something to tell, too
            for note in getattr(oracle.term, "pop_notes", tuple)():
                self.history.notes.append((self.k, note))

    def _guard(self, key: str) -> None:
        """Before every call of an oracle: budgets, callbacks and Ctrl-C end an iteration, too."""
        if self.interrupts.pending:
            raise RunOver(Status.INTERRUPTED)
        status = None if self._exceeded is None else self._exceeded(self, key)
        if status is not None:
            raise RunOver(status)
        if self.callbacks and self.state is not None and self.callbacks.due(self.seconds):
            self._stop_clock()
            stop = self._call_back(inside=True)
            self._start_clock()
            if stop:
                raise RunOver(Status.STOPPED)

    def _call_back(self, inside: bool = False) -> bool:
        """Whether a callback wants to stop."""
        assert self.best is not None
        unknown = math.isnan(self.best.f) and self.best.x is self._now.point
        return self.callbacks.call(
            inside,
            x=self._shown(self.best.x),
            fun=self._recorded[0] if unknown else self.best.f,
            nit=self.k,
            grad_norm=self.best.grad_norm,
            calls=dict(self.calls),
            seconds=self._spent,
        )

    def _shown(self, x: Vector) -> Vector:
        """A point as the user sees it."""
        plain = self.problem.geometry.leave(x)
        return np.array(plain) if self.form is None else self.form.outside(plain)

    def _start_clock(self) -> None:
        self._since = perf_counter()

    def _stop_clock(self) -> None:
        if not math.isnan(self._since):
            self._spent += perf_counter() - self._since
        self._since = math.nan

    # Going on, and the result -----------------------------------------------------------

    def _set_complete(self, status: int | None) -> None:
        """Keep the state after an iteration; rows and notes follow when it is used."""
        assert self.best is not None and self.x0 is not None
        unknown = math.isnan(self.best.f)
        state = RunState(
            method=self.method,
            state=self._now,
            iteration=self.k,
            seconds=self._spent,
            calls=dict(self.calls),
            oracle_seconds=dict(self.problem.ledger.seconds),
            x0=self.x0,
            initial_grad_norm=self._grad0,
            gradient_scale=self._scale,
            initial_value=self._f0,
            asked_bound=self._asked_bound,
            best=self.best,
            best_values=self.paid.known(self.best.x) if unknown else {},
            rows=(),
            notes=(),
            seed=self.problem.seed,
            form=self.form,
            status=None if status is None else int(status),
        )
        self._complete = state, len(self.history.rows), len(self.history.notes)

    def _save(self, now: bool = False) -> None:
        """Write a checkpoint of the last complete iteration, if it is time."""
        if self.checkpoint is not None and self._complete is not None:
            for note in self.checkpoint.save(self._going_on, now):
                self.history.notes.append((self.k, note))

    def _going_on(self) -> RunState:
        assert self._complete is not None
        state, n_rows, n_notes = self._complete
        rows, notes = self.history.rows[:n_rows], self.history.notes[:n_notes]
        return replace(state, rows=tuple(rows), notes=tuple(notes))

    def _result(self, status: Status, detail: str) -> Result:
        from geartrain.core.result import Result

        assert self.best is not None and self.x0 is not None
        going_on = None
        if self._complete is not None:
            going_on = replace(self._going_on(), status=None)
            detail += self._close(status)
            if note := self.recorder.note:
                self.history.notes.append((self.k, note))
        rounding = status is Status.STALLED and self._now.rounding
        p, best = self.problem, self.best
        return Result(
            x=self._shown(best.x),
            fun=best.f,
            grad_norm=best.grad_norm,
            success=status == Status.CONVERGED,
            status=status,
            message=(ROUNDING if rounding else status.message) + detail,
            nit=self.k,
            calls=dict(self.calls),
            seconds=dict(p.ledger.seconds),
            history=self.history,
            certificate=best.certificate(p, self.x0, self.rule),
            constants=p.constants,
            plan=self._plan(),
            state=going_on,
        )

    def _close(self, status: Status) -> str:
        """f at the best point and the calls after the last row; what went wrong, in words."""
        rows, before, detail = self.history.rows, tuple(self.calls.values()), ""
        if self.problem.monitor is not None:
            try:
                with self.interrupts.raising():
                    self._evaluate_best(status)
            except (Exception, KeyboardInterrupt) as error:  # nothing that was computed is lost
                detail = f" f could not be evaluated: {error!r}."
        assert self.best is not None
        calls, best = tuple(self.calls.values()), self.best
        if rows[-1][-len(calls) :] != before:  # of an iteration that was not completed
            unknown = (math.nan,) * 3
            rows.append((self._spent, self.k, best.f, best.grad_norm, *unknown, *calls))
        elif before != calls:
            f = best.f if best.x is self._now.point else rows[-1][2]
            rows[-1] = (*rows[-1][:2], f, *rows[-1][3 : -len(calls)], *calls)
        return detail

    def _evaluate_best(self, status: Status) -> None:
        """f at the best point; x0 is the best one after a run in vain."""
        assert self.best is not None and self.x0 is not None
        if math.isnan(self.best.f):
            try:
                f = self.paid.f(self.best.x)
            except NonFiniteAnswer:  # a run that diverged
                f = math.inf
            self.best = replace(self.best, f=f)
        if status is Status.CONVERGED or self.best.below or self.best.x is self.x0:
            return
        oracles = self.problem.oracles  # psi has a value: there is a monitor
        if math.isnan(self._f0) and all("value" in answers(oracle.term) for oracle in oracles):
            self._f0 = self.paid.f(self.x0)
        if self._f0 < self.best.f:
            self.best = RunPoint(self.x0, self._f0, self._grad0)

    def _plan(self) -> str:
        describe = getattr(self.method, "describe", None)
        return self.plan if describe is None else describe(self.problem, self.state)


def _tenths(k: int) -> float:
    return math.log(k) / math.log(1.1) if k > 0 else -1.0
