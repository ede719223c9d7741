"""The outer loop: stepping, stopping, recording, and never losing what was computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from geartrain.core.calling_back import Callback, Callbacks
from geartrain.core.checkpoint import Saver
from geartrain.core.clock import Clock
from geartrain.core.contracts import AnyMethod, State, check_state
from geartrain.core.form import Form
from geartrain.core.history import History
from geartrain.core.interrupts import Interrupts
from geartrain.core.loop import drive, goes_on
from geartrain.core.points import RunPoint
from geartrain.core.recording import Recorder
from geartrain.core.run_state import RunState
from geartrain.core.status import ROUNDING, Status
from geartrain.core.stopping import Rule
from geartrain.core.view import RunView
from geartrain.oracles.answer_cache import PaidValues
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
    """One run of a method from x0, or from where an earlier run ended."""

    def __init__(
        self,
        problem: Sum,
        method: AnyMethod,
        rule: Rule,
        x0: Vector,
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
        self.paid = PaidValues(problem.oracles, problem.geometry.norm, problem.psi)
        self.recorder = Recorder(problem, self.paid, record)
        self.history = History(tuple(self.calls))
        self.k = 0
        self.state: State | None = None
        self.clock = Clock()
        self.x0 = x0 if resume is None else resume.x0
        self.view = RunView(problem, rule, self.clock, self.paid, self.x0)
        self.best = RunPoint(x0)
        self._recorded = math.nan, math.nan  # f and |grad f| for the history, see `Recorder`
        # After the last complete iteration: the state, and how many rows and notes belong to it.
        self._complete: tuple[RunState, int, int] | None = None
        self._ended: Status | None = None  # how an earlier run was ended by its rule
        if resume is not None:
            self._continue(resume)

    def _continue(self, old: RunState) -> None:
        self.state, self.k, self.best = old.state, old.iteration, old.best
        self.clock.spent = old.seconds
        self.calls.update(old.calls)
        self.problem.ledger.seconds.update(old.oracle_seconds)
        self.paid.remember(old.best.x, old.best_values)
        view = self.view
        view.known_initial_grad_norm, view.initial_f = old.initial_grad_norm, old.initial_value
        view.scale, view.asked_bound = old.gradient_scale, old.asked_bound
        view.initial_values = old.initial_values
        self.history.rows.extend(old.rows)
        self.history.notes.extend(old.notes)
        self._ended = None if old.status is None else Status(old.status)
        if self._ended is None and not goes_on(self.method):
            name = type(self.method).__name__
            note = f"{name} cannot be stepped: started again from the last point"
            self.history.notes.append((self.k, note))
            self.plan += f"; {note}"
        self._set_complete(self._ended)

    @property
    def _now(self) -> State:
        assert self.state is not None
        return self.state

    # The loop ---------------------------------------------------------------------------

    @np.errstate(all="ignore")  # what overflows is reported by its status, not by warnings
    def go(self) -> Result:
        """Run to the end; Ctrl-C and a non-finite answer give a result, too."""
        with self.interrupts, np.errstate(all="ignore"):
            error: BaseException | None = None
            try:
                with self.interrupts.raising():
                    status, detail = self._run()
            except KeyboardInterrupt:
                status, detail = Status.INTERRUPTED, ""
            except BaseException as raised:
                status, detail, error = Status.FAILED, f" ({raised!r})", raised
            self.interrupts.over = True
            self.clock.stop()
            self.problem.ledger.guard = self._guard_budget
            self._save(now=True)
            self.callbacks.close()
            result = self._result(status, detail)
            self.problem.ledger.guard = self.problem.ledger.room = None
        if error is not None:
            error.partial_result = result  # type: ignore[attr-defined]
            raise error
        return result

    def _run(self) -> tuple[Status, str]:
        """How the iterations ended, and what there is to say about it."""
        if self._ended is not None:
            return self._ended, ""
        self.problem.ledger.guard = self._guard
        if callable(room := getattr(self.rule, "room", None)):
            self.problem.ledger.room = partial(room, self.view)
        if self.state is None:
            self.view.listen()
        self.clock.start()
        try:
            if self.interrupts.pending:
                return Status.INTERRUPTED, ""
            if self.state is not None and self.k >= self.max_iter:
                return Status.MAX_ITER, ""
            drive(self.method, self.problem, self.x0, self._report, self.state)
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
            self.clock.stop()
            self.k += self.state is not None
            self.state = state
            self._ended = self._record()
            self.view.hear_no_more()
            if self._ended is None and self.k >= self.max_iter:
                self._ended = Status.MAX_ITER
            self.clock.start()
        return self._ended is not None

    def _record(self) -> Status | None:
        """Look at the new state: the stopping rule, the best point, a row of history."""
        state, view = self._now, self.view
        view.update(state, self.k)
        self._recorded = view.known_f, view.known_grad_norm
        status = None
        try:
            with self.interrupts.raising():
                status = self.rule.check(view)
                numbers = view.known_f, view.known_grad_norm
                self._recorded = self.recorder.numbers(state, *numbers)
        finally:  # a rule may ask an oracle that fails; the state is good all the same
            self._keep_best(status)
            self._add_row()
        view.settle_start()
        if status is None and state.stalled:
            shown = {Status.NOISE: state.noisy, Status.UNBOUNDED: state.unbounded}
            status = next((ending for ending, is_so in shown.items() if is_so), Status.STALLED)
        self._set_complete(status)
        self._save()
        with self.interrupts.raising():
            stop = bool(self.callbacks) and self._call_back()
        return Status.STOPPED if stop and status is None else status

    def _keep_best(self, status: Status | None) -> None:
        """The point where the rule was met; until then the best one that is finite."""
        if status is Status.CONVERGED and self.view.looked_at is not None:
            self.best = self.view.looked_at
            return
        points, state = self.view.points(), self._now
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
        self.history.append(
            (self.clock.spent, self.k, *self._recorded, *numbers, *self.calls.values())
        )
        if state.note:
            self.history.notes.append((self.k, state.note))
        for oracle in self.problem.oracles:  # a term may have something to tell, too
            for note in getattr(oracle.term, "pop_notes", tuple)():
                self.history.notes.append((self.k, note))

    def _guard(self, key: str) -> None:
        """Before every call of an oracle: budgets, callbacks and Ctrl-C end an iteration, too."""
        if self.interrupts.pending:
            raise RunOver(Status.INTERRUPTED)
        status = None if self._exceeded is None else self._exceeded(self.view, key)
        if status is not None:
            raise RunOver(status)
        if self.callbacks and self.state is not None and self.callbacks.due(self.clock.seconds):
            self.clock.stop()
            stop = self._call_back(inside=True)
            self.clock.start()
            if stop:
                raise RunOver(Status.STOPPED)

    def _guard_budget(self, key: str) -> None:
        """Before the calls that follow the last iteration."""
        room = self.problem.ledger.room
        if room is not None and room(key) <= 0.0:
            raise RunOver(Status.BUDGET)

    def _call_back(self, inside: bool = False) -> bool:
        """Whether a callback wants to stop."""
        unknown = math.isnan(self.best.f) and self.best.x is self._now.point
        return self.callbacks.call(
            inside,
            x=self._shown(self.best.x),
            fun=self._recorded[0] if unknown else self.best.f,
            nit=self.k,
            grad_norm=self.best.grad_norm,
            calls=dict(self.calls),
            seconds=self.clock.spent,
        )

    def _shown(self, x: Vector) -> Vector:
        """A point as the user sees it."""
        plain = self.problem.geometry.leave(x)
        return np.array(plain) if self.form is None else self.form.outside(plain)

    # Going on, and the result -----------------------------------------------------------

    def _set_complete(self, status: int | None) -> None:
        """Keep the state after an iteration; rows and notes follow when it is used."""
        unknown = math.isnan(self.best.f)
        state = RunState(
            method=self.method,
            state=self._now,
            iteration=self.k,
            seconds=self.clock.spent,
            calls=dict(self.calls),
            oracle_seconds=dict(self.problem.ledger.seconds),
            x0=self.x0,
            initial_grad_norm=self.view.known_initial_grad_norm,
            gradient_scale=self.view.scale,
            initial_value=self.view.initial_f,
            initial_values=self.view.initial_values,
            asked_bound=self.view.asked_bound,
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
            except RunOver:
                detail = " f is not known at x: the budget leaves no call for it."
            except (Exception, KeyboardInterrupt) as error:  # nothing that was computed is lost
                detail = f" f could not be evaluated: {error!r}."
        calls, best = tuple(self.calls.values()), self.best
        if rows[-1][-len(calls) :] != before:  # of an iteration that was not completed
            unknown = (math.nan,) * 3
            rows.append((self.clock.spent, self.k, best.f, best.grad_norm, *unknown, *calls))
        elif before != calls:
            f = best.f if best.x is self._now.point else rows[-1][2]
            rows[-1] = (*rows[-1][:2], f, *rows[-1][3 : -len(calls)], *calls)
        return detail

    def _evaluate_best(self, status: Status) -> None:
        """f at the best point; x0 is the best one after a run in vain."""
        if math.isnan(self.best.f):
            try:
                f = self.paid.f(self.best.x)
            except NonFiniteAnswer:  # a run that diverged
                f = math.inf
            self.best = replace(self.best, f=f)
        if status is Status.CONVERGED or self.best.below or self.best.x is self.x0:
            return
        oracles = self.problem.oracles  # psi has a value: there is a monitor
        view = self.view
        missing = [o for o in oracles if o.name not in view.initial_values]
        if math.isnan(view.initial_f) and all("value" in answers(o.term) for o in missing):
            asked = {o.name: o.value(self.x0) for o in missing}
            view.initial_f = self.paid.total({**view.initial_values, **asked}, self.x0)
        if view.initial_f < self.best.f:
            self.best = RunPoint(self.x0, view.initial_f, view.known_initial_grad_norm)

    def _plan(self) -> str:
        describe = getattr(self.method, "describe", None)
        return self.plan if describe is None else describe(self.problem, self.state)
