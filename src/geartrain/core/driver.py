"""The outer loop: stepping, stopping, recording, and never losing what was computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from geartrain.core.array_format import Form
from geartrain.core.calling_back import Callback, Callbacks
from geartrain.core.checkpoint import Saver
from geartrain.core.clock import Clock
from geartrain.core.contracts import AnyMethod, State, check_state
from geartrain.core.history import History, Recorder
from geartrain.core.interrupts import Interrupts
from geartrain.core.loop import drive, goes_on
from geartrain.core.points import RunPoint
from geartrain.core.run_state import RunState, RunView
from geartrain.core.status import ROUNDING, SINGLE_CONVERGED, SINGLE_ROUNDING, Status
from geartrain.core.stopping import SINGLE, Rule, Tolerance
from geartrain.oracles.answer_cache import PaidValues
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector, answers
from geartrain.problem import Sum

if TYPE_CHECKING:  # imported when a run ends: SciPy's part of it takes a while
    from geartrain.core.result import Result


# A gradient that has fallen to this part of that at x0, and no further in single precision, is
# stopped by rounding.
_DESCENDED = 1e-2


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
        interrupts: Interrupts,
        record: tuple[str, ...] = (),
        form: Form | None = None,
    ) -> None:
        self.problem, self.method, self.rule = problem, method, rule
        self._exceeded = getattr(rule, "exceeded", None)  # of rules of time and calls
        self.max_iter, self.plan = max_iter, plan
        self.checkpoint = checkpoint
        self.callbacks = Callbacks(callbacks)
        self.interrupts = interrupts
        self.calls = problem.ledger.calls
        self.paid = PaidValues(problem.oracles, problem.geometry.norm, problem.psi)
        self.recorder = Recorder(problem, self.paid, record)
        self.history = History(tuple(self.calls))
        self.clock = Clock()
        calls, seconds = self.calls, problem.ledger.seconds
        self.record = RunState(method, x0, RunPoint(x0), problem.seed, form, calls, seconds)
        if resume is not None:
            self._take_over(resume)
            self.record = resume.copied(calls=calls, oracle_seconds=seconds, rows=(), notes=())
        self.view = RunView(problem, rule, self.clock, self.paid, self.record)
        self._recorded = math.nan, math.nan  # f and |grad f| for the history, see `Recorder`
        # After the last complete iteration: the record, and how many rows and notes belong to it.
        self._complete: tuple[RunState, int, int] | None = None
        self._ended: Status | None = None  # how an earlier run was ended by its rule
        if resume is not None:
            self._ended = None if resume.status is None else Status(resume.status)
            self._note_restart()
            self._set_complete(self._ended)

    def _take_over(self, old: RunState) -> None:
        self.clock.spent = old.seconds
        self.calls.update(old.calls)
        self.problem.ledger.seconds.update(old.oracle_seconds)
        self.paid.remember(old.best.x, old.best_values)
        if self.problem.psi is not None:
            self.problem.psi.memory = old.psi_memory
        self.history.rows.extend(old.rows)
        self.history.notes.extend(old.notes)

    def _note_restart(self) -> None:
        if self._ended is None and not goes_on(self.method):
            name = type(self.method).__name__
            note = f"{name} cannot be stepped: started again from the last point"
            self.history.notes.append((self.record.iteration, note))
            self.plan += f"; {note}"

    # The loop ---------------------------------------------------------------------------

    @np.errstate(all="ignore")  # what overflows is reported by its status, not by warnings
    def go(self) -> Result:
        """Run to the end; Ctrl-C and a non-finite answer give a result, too."""
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
        if self._ended is not None:
            return self._ended, ""
        self.problem.ledger.guard = self._guard
        if callable(room := getattr(self.rule, "room", None)):
            self.problem.ledger.room = partial(room, self.view)
        if self.record.state is None:
            self.view.listen()
        self.clock.start()
        try:
            if self.interrupts.pending:
                return Status.INTERRUPTED, ""
            if self.record.state is not None and self.record.iteration >= self.max_iter:
                return Status.MAX_ITER, ""
            drive(self.method, self.problem, self.record.x0, self._report, self.record.state)
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
            self.record.iteration += self.record.state is not None
            self.record.state = state
            self._ended = self._record()
            self.view.hear_no_more()
            if self._ended is None and self.record.iteration >= self.max_iter:
                self._ended = Status.MAX_ITER
            self.clock.start()
        return self._ended is not None

    def _record(self) -> Status | None:
        """Look at the new state: the stopping rule, the best point, a row of history."""
        state, view = self.record.now, self.view
        view.update()
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
        record = self.record
        if status is Status.CONVERGED and self.view.looked_at is not None:
            record.best = self.view.looked_at
            return
        points, state = self.view.points(), record.now
        first, last = points[0], points[-1]
        new = last if math.isnan(first.f) and not first.gap < last.gap else first
        unknown = math.isnan(new.f) or math.isnan(record.initial_value)  # which values compare
        if unknown and state.grad is not None and new.x is state.grad_point:
            slope = self.problem.geometry.dot(state.grad, record.x0 - new.x)
            new = replace(new, below=bool(slope >= 0.0))
            unsure = not new.below and record.best.x is record.x0 and math.isnan(new.f)
            unsure = unsure and self.problem.of_functions  # of operators, the residual decides
        else:
            unsure = False
        if new.is_finite and new.better_than(record.best) and not unsure:
            record.best = new

    def _add_row(self) -> None:
        state, k = self.record.now, self.record.iteration
        numbers = (float(state.L), float(state.A), float(state.ms_ratio))
        self.history.append((self.clock.spent, k, *self._recorded, *numbers, *self.calls.values()))
        if state.note:
            self.history.notes.append((k, state.note))
        for oracle in self.problem.oracles:  # a term may have something to tell, too
            for note in getattr(oracle.term, "pop_notes", tuple)():
                self.history.notes.append((k, note))

    def _guard(self, key: str) -> None:
        """Before every call of an oracle: budgets, callbacks and Ctrl-C end an iteration, too."""
        if self.interrupts.pending:
            raise RunOver(Status.INTERRUPTED)
        status = None if self._exceeded is None else self._exceeded(self.view, key)
        if status is not None:
            raise RunOver(status)
        started = self.record.state is not None
        if started and self.callbacks and self.callbacks.due(self.clock.seconds):
            self.clock.stop()
            stop = self._call_back(inside=True)
            self.clock.start()
            if stop:
                raise RunOver(Status.STOPPED)

    def _guard_budget(self, key: str) -> None:
        room = self.problem.ledger.room
        if room is not None and room(key) <= 0.0:
            raise RunOver(Status.BUDGET)

    def _call_back(self, inside: bool = False) -> bool:
        best = self.record.best
        unknown = math.isnan(best.f) and best.x is self.record.now.point
        return self.callbacks.call(
            inside,
            x=self._shown(best.x),
            fun=self._recorded[0] if unknown else best.f,
            nit=self.record.iteration,
            grad_norm=best.grad_norm,
            calls=dict(self.calls),
            seconds=self.clock.spent,
        )

    def _shown(self, x: Vector) -> Vector:
        plain, form = self.problem.geometry.leave(x), self.record.form
        return np.array(plain) if form is None else form.outside(plain)

    # Going on, and the result -----------------------------------------------------------

    def _set_complete(self, status: int | None) -> None:
        """Keep the state after an iteration; rows and notes follow when it is used."""
        best = self.record.best
        copy = self.record.copied(
            seconds=self.clock.spent,
            best_values=self.paid.known(best.x) if math.isnan(best.f) else {},
            psi_memory=None if self.problem.psi is None else self.problem.psi.memory,
            status=None if status is None else int(status),
        )
        self._complete = copy, len(self.history.rows), len(self.history.notes)

    def _save(self, now: bool = False) -> None:
        """Write a checkpoint of the last complete iteration, if it is time."""
        if self.checkpoint is not None and self._complete is not None:
            for note in self.checkpoint.save(self._going_on, now):
                self.history.notes.append((self.record.iteration, note))

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
                self.history.notes.append((self.record.iteration, note))
        p, best, state = self.problem, self.record.best, self.record.state
        refuted = not p.of_functions or (state is not None and state.refuted)
        return Result(
            x=self._shown(best.x),
            fun=best.f,
            grad_norm=best.grad_norm,
            jac=self._gradient(),
            **self._evaluations(),
            success=status == Status.CONVERGED,
            status=status,
            message=self._message(status) + detail,
            nit=self.record.iteration,
            calls=dict(self.calls),
            seconds=dict(p.ledger.seconds),
            history=self.history,
            certificate=None if refuted else best.certificate(p, self.record.x0, self.rule),
            constants=p.constants,
            plan=self._plan(),
            state=going_on,
            **self._of_constraints(),
        )

    def _gradient(self) -> Vector | None:
        state, best = self.record.state, self.record.best
        if state is None or state.grad is None or state.grad_point is not best.x:
            return None
        return self._shown(state.grad)

    def _evaluations(self) -> dict[str, int]:
        """SciPy's numbers of evaluations, of the term of h that was asked most."""
        names = [oracle.name for oracle in self.problem.oracles[:-1]]
        if not self.problem.of_functions:
            return {"nfev": self.calls[f"{names[0]}.operator"], "njev": 0}
        grads = max(self.calls[f"{name}.grad"] for name in names)
        values = max(self.calls[f"{name}.value"] for name in names)
        fused = any("value_and_grad" in answers(o.term) for o in self.problem.oracles[:-1])
        return {"nfev": values + grads * fused, "njev": grads}

    def _message(self, status: Status) -> str:
        record, single = self.record, self.view.single_precision()
        names = f"{single} answer{'' if ' ' in single else 's'}"
        if single and status in (Status.STALLED, Status.NOISE):
            scale = max(record.gradient_scale, record.initial_grad_norm)
            slopes = [row[3] for row in self.history.rows if not math.isnan(row[3])]
            if min(slopes, default=math.inf) <= _DESCENDED * scale:
                return SINGLE_ROUNDING.format(names=names)
        rel = self.rule.rel if isinstance(self.rule, Tolerance) else 0.0
        if single and status is Status.CONVERGED and 0.0 < rel < SINGLE:
            return status.message + SINGLE_CONVERGED.format(names=names, rel=SINGLE)
        rounding = status is Status.STALLED and record.now.rounding
        if rounding:
            return ROUNDING
        return status.message if self.problem.of_functions else status.message_of_operators

    def _of_constraints(self) -> dict[str, Any]:
        """What the non-smooth term tells about constraints at the best point."""
        psi, best = self.problem.psi, self.record.best
        if psi is None:
            return {"multipliers": None, "violation": None}
        w = best.grad_psi
        multipliers = None if w is None else psi.multipliers(best.x, w)
        return {"multipliers": multipliers, "violation": psi.violation(best.x)}

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
        calls, best = tuple(self.calls.values()), self.record.best
        if rows[-1][-len(calls) :] != before:  # of an iteration that was not completed
            numbers = (best.f, best.grad_norm, math.nan, math.nan, math.nan)
            rows.append((self.clock.spent, self.record.iteration, *numbers, *calls))
        elif before != calls:
            f = best.f if best.x is self.record.now.point else rows[-1][2]
            rows[-1] = (*rows[-1][:2], f, *rows[-1][3 : -len(calls)], *calls)
        return detail

    def _evaluate_best(self, status: Status) -> None:
        """f at the best point; x0 is the best one after a run in vain."""
        record = self.record
        if math.isnan(record.best.f):
            try:
                f = self.paid.f(record.best.x)
            except NonFiniteAnswer:  # a run that diverged
                f = math.inf
            record.best = replace(record.best, f=f)
        if status is Status.CONVERGED or record.best.below or record.best.x is record.x0:
            return
        oracles = self.problem.oracles  # psi has a value: there is a monitor
        known, x0 = record.initial_values, record.x0
        missing = [oracle for oracle in oracles if oracle.name not in known]
        askable = all("value" in answers(oracle.term) for oracle in missing)
        if math.isnan(record.initial_value) and askable:
            asked = {oracle.name: oracle.value(x0) for oracle in missing}
            record.initial_value = self.paid.total({**known, **asked}, x0)
        if record.initial_value < record.best.f:
            record.best = RunPoint(x0, record.initial_value, record.initial_grad_norm)

    def _plan(self) -> str:
        describe = getattr(self.method, "describe", None)
        return self.plan if describe is None else describe(self.problem, self.record.state)
