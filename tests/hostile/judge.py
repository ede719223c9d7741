"""One run of a method on a hostile problem, and everything that was false about it."""

from __future__ import annotations

import linecache
import math
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import geartrain as gt
from geartrain.core.status import Status
from geartrain.methods.registry import METHODS
from geartrain.oracles.algebra import Combination
from hostile.generator import KINDS, Asked, AskedPsi, RanAway, case
from hostile.planted import Nothing
from hostile.reference import LD, ld, size

NAMES = ("auto", *METHODS)
# Those that take a non-smooth term; the first ones in turn with every other one.
OFTEN = ("auto", "pqn")
WITH_PSI = ("lbfgs", "sparsa", "fgm", "afb", "sae", "r-sae", "sc-sae", "gmco", "ags", "working-set")
RULES = ("gradient", "gradient", "distance", "value", "strong convexity")
TOL = 1e-6
LIBRARY = Path(gt.__file__).parent
HANG = 30.0  # seconds of the processor, where a run of the tests takes hundredths
# These promise that no point they report is above f(x0), not only the last one.
DESCENT = ("auto", "pqn", "lbfgs")


class Hang(BaseException):
    """The processor was busy for far too long."""


@dataclass(frozen=True)
class Complaint:
    """Something false."""

    what: str  # the kind, by which they are counted
    method: str
    case: str
    told: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.method} on {self.case}: {self.told}"


class Place(NamedTuple):
    """The truth about a point: f, the least |subgradient|, and what rounding does to both."""

    x: Any
    value: Any
    grad: Any
    noise_f: Any
    noise: Any


@dataclass(frozen=True)
class Budget:
    """What a run may ask; the tests of every day are content with little."""

    h: int = 25
    g: int = 200
    iterations: int = 60
    prox: int = 2000

    def limits(self, names: Sequence[str] = ("h",), psi: bool = False) -> dict[str, int]:
        of_h = {f"{name}.grad": self.h for name in names}
        return {**of_h, "g.grad": self.g, **({"g.prox": self.prox} if psi else {})}

    def rule(self, names: Sequence[str] = ("h",), psi: bool = False) -> Any:
        return gt.stop.Calls(self.limits(names, psi))


@contextmanager
def watchdog() -> Iterator[None]:
    """Ends what spins without asking; the time is the processor's, not the clock's."""

    def bark(*_: Any) -> None:
        raise Hang

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGVTALRM, bark)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


class Trial:
    """A run of one method on one case, judged."""

    def __init__(self, kind: str, k: int, method: str, budget: Budget) -> None:
        self.case, self.method, self.budget = case(kind, k), method, budget
        self.complaints: list[Complaint] = []
        self.seen: list[np.ndarray] = []
        rng = np.random.default_rng((714, list(KINDS).index(kind), k))
        # One case in four shows the library its own terms, the others a counter around them.
        self.bare = bool(rng.random() < 0.25)
        self.rule_name, self.rule = self._rule(RULES[int(rng.integers(len(RULES)))])
        planted = self.case.planted
        self.names, self.with_psi = ["h"], not isinstance(self.case.psi, Nothing)
        if planted is not None:
            if planted.more:
                self.names = [f"h{k + 1}" for k in range(1 + len(planted.more))]
            self.rule_name, self.rule = self._planted_rule(rng)
            if rng.random() < 0.2:
                h, g, prox = (int(number) for number in rng.integers(1, 12, 3))
                self.budget = Budget(h, g, prox=10 * prox)
        # Measured in one case of three, by a clock that shows the same in every run of the tests.
        price = float(rng.choice([1, 10, 100]))
        given = {**{f"{name}.grad": price for name in self.names}, "g.grad": 1.0}
        self.prices = None if k % 3 == 2 else given

    def complain(self, what: str, told: str = "") -> None:
        self.complaints.append(Complaint(what, self.method, self.case.name, told))

    def _rule(self, name: str) -> tuple[str, Any]:
        """The gradient mostly; a bound on the gap or a value where the reference can judge it."""
        c = self.case
        gradient = "gradient", gt.stop.Gradient(rel=TOL)
        if name == "gradient" or c.minimiser is None or c.refused or c.raised is not None:
            return gradient
        f0, low = c.value(ld(c.start)), c.value(c.minimiser)
        gap, R = float(f0 - low), float(size(ld(c.start) - c.minimiser))
        if not (math.isfinite(gap) and math.isfinite(R) and gap > 0.0 and R > 0.0):
            return gradient
        if name == "distance":
            return name, gt.stop.Gap(0.3 * gap, R=1.001 * R)
        if name == "value":
            target = float(low + LD(0.1) * (f0 - low))
            return (name, gt.stop.Value(target)) if math.isfinite(target) else gradient
        mu = c.ref_h.mu + c.ref_g.mu
        return (name, gt.stop.Gap(1e-3 * gap, mu=mu)) if mu > 0.0 else gradient

    def _planted_rule(self, rng: Any) -> tuple[str, Any]:
        """Every rule, with the accuracy from crude to as fine as rounding lets it be."""
        c = self.case
        with np.errstate(all="ignore"):
            gap = float(c.value(c.first) - c.value(c.minimiser))
            steep, R = float(c.slope(c.first)), float(size(c.first - c.minimiser))
        names = ["gradient", "absolute", "gap", "gap"]
        if math.isfinite(gap) and gap > 0.0 and R > 0.0:
            names += ["distance", "strong convexity"]
        name, part = names[int(rng.integers(len(names)))], 10.0 ** float(rng.uniform(-9, -1))
        mu = c.ref_h.mu + c.ref_g.mu
        if name == "gap":
            return name, gt.stop.Gap(part * (gap if gap > 0.0 else 1.0))
        if name == "distance":
            return name, gt.stop.Gap(part * gap, R=1.001 * R)
        if name == "strong convexity" and mu > 0.0:
            return name, gt.stop.Gap(part * gap, mu=mu)
        if name == "absolute" and steep > 0.0:
            return name, gt.stop.Gradient(abs=part * steep)
        return "gradient", gt.stop.Gradient(rel=TOL)

    # The run ----------------------------------------------------------------------------

    def judge(self) -> list[Complaint]:
        """Run, and say what was false."""
        x0 = self.case.x0
        before = np.array(x0, copy=True) if isinstance(x0, np.ndarray) else None
        with warnings.catch_warnings(record=True) as leaked, watchdog():
            warnings.simplefilter("always")
            try:
                res = self._run()
            except RanAway:
                return self._add("budget ignored", "asked more than 20,000 times")
            except Hang:
                return self._add("hang", f"more than {HANG:g} s of the processor")
            except KeyboardInterrupt:
                return self._add("interrupt escaped", "KeyboardInterrupt came through")
            except Exception as error:
                res = self._judge_error(error)
        for warning in leaked:
            self.complain("warning leaked", f"{warning.category.__name__}: {warning.message}")
        if before is not None and not _same(before, x0):
            self.complain("x0 changed")
        if res is not None:
            with np.errstate(all="ignore"):
                self._judge_result(res)
        return self.complaints

    def _add(self, what: str, told: str) -> list[Complaint]:
        self.complain(what, told)
        return self.complaints

    def _terms(self) -> tuple[Any, Any]:
        h, g = self.case.h(), self.case.g()
        if self.case.planted is not None:
            return self._planted_terms(h, g, self.case.planted)
        return (h, g) if self.bare else (Asked(h), Asked(g))

    def _planted_terms(self, h: Any, g: Any, planted: Any) -> tuple[Any, Any]:
        """A list of h where there are several, and psi added to g."""
        psi = planted.term()
        hs = [h, *(piece.make() for piece in planted.more)]
        if not self.bare:
            hs, g = [Asked(term) for term in hs], None if g is None else Asked(g)
            psi = None if psi is None else AskedPsi(psi)
        self.smooth_g, self.psi = g, psi
        if psi is not None:
            g = psi if g is None else Combination([(1.0, g), (1.0, psi)])
        return (hs if planted.more else hs[0]), g

    def _run(self, terms: tuple[Any, Any] | None = None) -> Any:
        self.h, self.g = self._terms() if terms is None else terms
        more: dict[str, Any] = {"callback": self.seen.append} if self.method in DESCENT else {}
        if self.method == "auto":
            more["prices"] = self.prices
        return gt.minimize(
            self._first(),
            self.g,
            self.case.x0,
            method=self.method,
            stop=gt.stop.any_of(self.rule, self.budget.rule(self.names, self.with_psi)),
            max_iter=self.budget.iterations,
            **more,
            **self._constants(),
        )

    def _first(self) -> Any:
        """The first argument of minimize."""
        return self.h

    def _constants(self) -> dict[str, Any]:
        return self.case.options

    def _judge_error(self, error: Exception) -> Any:
        """Complain about an error unless it is a sentence of the library's or the user's own."""
        c = self.case
        if c.raised is not None and isinstance(error, c.raised):
            if getattr(error, "partial_result", None) is None:
                self.complain("nothing kept", "the error carries no partial_result")
            return None
        tb = error.__traceback__
        while tb is not None and tb.tb_next is not None:
            tb = tb.tb_next
        assert tb is not None
        file, line = tb.tb_frame.f_code.co_filename, tb.tb_lineno
        if "read-only" in str(error) and "writes into x" in c.name:
            return None
        ours = Path(file).is_relative_to(LIBRARY)
        stated = ours and is_raise(file, line)
        if not (stated and isinstance(error, (TypeError, ValueError)) and " " in str(error)):
            where = f"{Path(file).name}:{line}"
            self.complain("raw exception", f"{type(error).__name__}: {error} ({where})")
        return None

    # The judgement ----------------------------------------------------------------------

    def _judge_result(self, res: Any) -> None:
        c = self.case
        if c.refused:
            return self.complain("accepted", "the input is to be refused")
        if c.raised is KeyboardInterrupt and res.status != Status.INTERRUPTED:
            left = "unless it ended before"
            if not (res.success or res.status in (Status.BUDGET, Status.MAX_ITER, Status.STALLED)):
                self.complain("interrupt lost", f"{res.status.name} {left}")
        if not self._judge_form(res):
            return
        x, x0 = ld(res.x), c.first
        if not c.psi.inside(x):
            return self.complain("infeasible", f"x = {res.x} is outside of the domain of psi")
        # Functions that are asked in single precision answer in it.
        self.coarse = LD(2.0**29) if res.x.dtype == np.float32 else LD(1.0)
        here, first = self._at(x), self._at(x0)
        self._judge_numbers(res, here)
        if res.success:
            self._judge_success(here, first)
        if c.convex:
            self._judge_climb(res, first)
        self._judge_certificate(res, here)
        self._judge_stall(res, here)
        if c.planted is not None:
            self._judge_planted(res, here)
        self._judge_counts(res)
        if c.twin is not None:
            self._judge_twin(res)

    def _judge_form(self, res: Any) -> bool:
        """Whether the result can be judged at all."""
        x = res.x
        if not isinstance(x, np.ndarray) or x.shape != self.case.start.shape:
            self.complain("form", f"x is {x!r:.60}")
            return False
        if not np.isfinite(x).all():
            self.complain("not finite", f"x = {x}")
            return False
        if res.success != (res.status == Status.CONVERGED):
            self.complain("form", f"success {res.success} with {res.status!r}")
        if not (isinstance(res.message, str) and len(res.message) > 10):
            self.complain("form", f"message {res.message!r}")
        return True

    def _at(self, x: Any) -> Place:
        c = self.case
        noise_f, noise = c.noise(x)
        return Place(x, c.value(x), c.slope(x), self.coarse * noise_f, self.coarse * noise)

    def _judge_numbers(self, res: Any, here: Place) -> None:
        """`fun` and `grad_norm` belong to `x`."""
        _, value, grad, noise_f, noise = here
        known = not math.isnan(res.fun) and np.isfinite(value) and abs(value) < 1e300
        if known and abs(ld(res.fun) - value) > 4 * noise_f:
            self.complain("fun is not f(x)", f"{res.fun!r} against {value}")
        told = res.grad_norm
        if math.isnan(told) or not 1e-300 < grad < 1e300:
            return
        off = abs(ld(told) - grad)
        if self.case.planted is not None:
            # A psi by its proximal operator alone shows a subgradient up to a ten thousandth; it
            # may know a longer one than the shortest.
            off = LD(1 - 1e-3) * grad - ld(told)
        if off > 4 * noise:
            self.complain("grad_norm is not |grad f(x)|", f"{told!r} against {grad}")

    def _judge_success(self, here: Place, first: Place) -> None:
        _, value, grad, noise_f, noise = here
        if self.rule_name in ("gradient", "absolute"):
            rule, near = self.rule, LD(1 + (1e-9 if self.case.planted is None else 1e-3))
            allowed = (
                max(LD(rule.rel) * (first.grad + first.noise), LD(rule.abs)) * near + 4 * noise
            )
            if grad > allowed:
                self.complain("false success", f"|grad f| = {grad:.3g}, allowed {allowed:.3g}")
            return
        if self.rule_name == "value":
            if value > LD(self.rule.target) + noise_f:
                self.complain("false success", f"f = {value}, target {self.rule.target}")
            return
        if self.case.wrong_mu:
            return
        gap = value - self.case.value(self.case.minimiser)
        slack = noise_f + self._slack(here)
        if gap > LD(self.rule.eps) * LD(1 + 1e-9) + slack:
            self.complain("false success", f"gap {gap:.3g}, eps {self.rule.eps:.3g}")

    def _slack(self, here: Place) -> Any:
        """What rounding of the gradient may do to a bound made from it."""
        c, grad, noise = self.case, here.grad, here.noise
        reach = size(here.x - ld(c.start))
        if c.minimiser is not None:
            reach += size(ld(c.start) - c.minimiser)
        mu = LD(c.ref_h.mu + c.ref_g.mu)
        strong = (2 * grad * noise + noise**2) / (2 * mu) if mu > 0 else LD(0)
        return 2 * noise * reach + strong

    def _judge_climb(self, res: Any, first: Place) -> None:
        c = self.case
        # Where the budget leaves no call for f(x), it is said that nothing is known about x.
        unknown = math.isnan(res.fun) and "f is not known at x" in res.message
        points = [*self.seen, *([] if unknown else [res.x])]
        if not points:
            return
        worst = self._at(ld(max(points, key=lambda x: c.value(ld(x)))))
        rise = worst.value - first.value
        if not rise <= 4 * (worst.noise_f + first.noise_f):
            self.complain("climb", f"f - f(x0) = {rise:.3g} where f(x0) = {first.value:.6g}")

    def _judge_certificate(self, res: Any, here: Place) -> None:
        c = self.case
        if res.certificate is None:
            return
        bound = res.certificate.bound
        if math.isnan(bound) or bound < 0.0:
            return self.complain("false certificate", f"the bound is {bound}")
        if c.unbounded and math.isfinite(bound):
            self.complain("false certificate", f"{bound:.3g}, but f is unbounded below")
        told_L = c.wrong_L and "L_" in res.certificate.assumption  # it says that it rests on L
        if c.minimiser is None or c.wrong_mu or told_L:
            return
        gap = here.value - c.value(c.minimiser)
        if gap > ld(bound) * LD(1 + 1e-9) + here.noise_f + self._slack(here):
            told = f"bound {bound:.3g}, gap {gap:.3g}: {res.certificate.assumption}"
            self.complain("false certificate", told)

    def _judge_stall(self, res: Any, here: Place) -> None:
        """Rounding may be blamed only near its level, for a function that is smooth and honest."""
        c, (_, value, grad, noise_f, noise) = self.case, here
        if "Rounding errors" not in res.message:
            return
        if c.minimiser is None or c.name.startswith("jumping"):
            return
        gap = value - c.value(c.minimiser)
        if grad > 1e4 * noise and gap > 1e4 * noise_f:
            told = f"|grad f| is {grad / noise:.2g} and the gap {gap / noise_f:.2g} of rounding"
            self.complain("false rounding", f"{res.status.name}: {told}")

    def _judge_planted(self, res: Any, here: Place) -> None:
        """What a subgradient proves, and statuses that no such problem deserves."""
        c, (x, value, grad, noise_f, noise) = self.case, here
        gap, away = value - c.value(c.minimiser), size(x - c.minimiser)
        proven = LD(1 + 1e-3) * ld(res.grad_norm) * away + 4 * (noise_f + noise * away)
        if gap > proven:  # not where it is nan
            told = f"|g| = {res.grad_norm:.3g}, but f - f* is {gap / away:.3g} per distance"
            self.complain("grad_norm is not |grad f(x)|", told)
        unproven = {Status.UNBOUNDED, Status.NOISE, Status.NON_FINITE}
        if res.status in unproven and grad > 1e4 * noise and gap > 1e4 * noise_f:
            self.complain("false status", f"{res.status.name}: {res.message[:60]}")

    def _judge_counts(self, res: Any) -> None:
        for key, most in self.budget.limits(self.names, self.with_psi).items():
            if res.calls[key] > most:
                self.complain("budget ignored", f"{res.calls[key]} of {key}, allowed {most}")
        if res.nit > self.budget.iterations:
            self.complain("budget ignored", f"{res.nit} iterations")
        last = {key: res.history[key][-1] for key in res.calls} if res.history.rows else {}
        differ = {k: (int(v), res.calls[k]) for k, v in last.items() if v != res.calls[k]}
        if differ and res.status != Status.INTERRUPTED:
            self.complain("last row differs", str(differ))
        if self.bare or self.rule_name == "value" or self.case.raised is not None:
            return
        for key, asked in self._asked().items():
            if asked != res.calls.get(key, 0):
                told = f"{key}: {asked} asked, {res.calls.get(key, 0)} counted"
                self.complain("wrong count", told)

    def _asked(self) -> dict[str, int]:
        """What the terms were really asked, by the keys of the ledger."""
        terms = dict(zip(self.names, self.h if isinstance(self.h, list) else [self.h], strict=True))
        terms["g"] = self.g if self.case.planted is None else self.smooth_g
        out = {
            f"{name}.{kind}": asked
            for name, term in terms.items()
            if term is not None
            for kind, asked in term.calls.items()
        }
        if self.case.planted is not None and self.psi is not None:
            out["g.prox"] = out.get("g.prox", 0) + self.psi.asked
        return out

    def _judge_twin(self, res: Any) -> None:
        assert self.case.twin is not None
        h, g = self.case.twin()
        other = self._run((h, g) if self.bare else (Asked(h), Asked(g)))
        if not np.array_equal(res.x, other.x) or res.calls != other.calls:
            self.complain("another run", "an odd answer changes the run")


def is_raise(file: str, line: int) -> bool:
    """Whether a statement that raises ends at that line, or begins a few lines above it."""
    lines = [linecache.getline(file, number) for number in range(max(1, line - 3), line + 1)]
    return any(text.lstrip().startswith("raise ") for text in lines)


def _same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=a.dtype.kind in "fc"))


def methods_for(kind: str) -> tuple[str, ...]:
    """Methods that take the problems of a kind."""
    if not kind.startswith("planted") or kind == "planted smooth":
        return NAMES
    return tuple(name for other in WITH_PSI for name in (*OFTEN, other))


def trials(kind: str, numbers: range, methods_each: int, budget: Budget) -> list[Complaint]:
    """Complaints about the cases of a kind, each with some of the methods in turn."""
    out: list[Complaint] = []
    names = methods_for(kind)
    for i, k in enumerate(numbers):
        for j in range(methods_each):
            method = names[(i * methods_each + j) % len(names)]
            out += Trial(kind, k, method, budget).judge()
    return out
