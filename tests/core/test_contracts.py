"""What a method has to bring, and the sentence for one that does not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.checkpoint import dumps, loads
from geartrain.core.loop import goes_on
from geartrain.methods.planning.bill import Prices
from geartrain.methods.planning.plan import Change, Plan, Reason
from geartrain.methods.planning.planner import plan
from problems import quadratics
from runs import same

pytestmark = pytest.mark.same_everywhere  # messages


class Descent:
    """x - grad f(x)/L."""

    needs = ("grad",)

    @dataclass(frozen=True)
    class State(gt.methods.State):
        x: np.ndarray
        grad_f: np.ndarray

        @property
        def point(self):
            return self.x

        @property
        def grad(self):
            return self.grad_f

    def init(self, problem, x0):
        return self.State(x0, problem.grad(x0))

    def step(self, problem, state):
        x = state.x - state.grad_f / (problem.L_h.value + problem.L_g.value)
        return self.State(x, problem.grad(x))


class WithoutInit(Descent):
    init = None


class WithoutStep(Descent):
    step = None


class WithoutNeeds(Descent):
    needs = None


class NeedsAWord(Descent):
    needs = "grad"


class NeedsNonsense(Descent):
    needs = ("gradient",)


class InitOfOne(Descent):
    def init(self, problem):
        return None


class WithoutState(Descent):
    def init(self, problem, x0):
        return x0


class WithoutPoint(Descent):
    def init(self, problem, x0):
        return gt.methods.State()


class Whole:
    """Descent that cannot be stepped."""

    needs = ("grad",)

    def solve(self, problem, x0, report):
        descent = Descent()
        state = descent.init(problem, x0)
        while not report(state):
            state = descent.step(problem, state)


class WholeOfTwo(Whole):
    def solve(self, problem, x0):
        return None


@dataclass(frozen=True)
class WithoutLimit:
    needs = ("grad",)

    def init(self, phi, v0, grad_g0, warm=None):
        return None

    def step(self, phi, state):
        return state


class ColdOnly(WithoutLimit):
    def init(self, phi, v0, grad_g0):
        return None

    def limit(self, phi):
        return 1


def run(pair, method, **options):
    return gt.minimize(*pair, np.ones(12), method=method, tol=1e-3, **options)


@pytest.mark.parametrize("method", [Descent(), Whole()])
def test_methods_of_the_users_own(pair, method):
    res = run(pair, method)
    assert res.success and res.calls["h.grad"] == res.nit + 1
    plain = gt.Quadratic(pair[0].Q + pair[1].Q, pair[0].b)
    assert np.linalg.norm(plain.grad(res.x)) <= 1e-3 * np.linalg.norm(plain.grad(np.ones(12)))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (gt.SAE, r"method must be an object, but SAE is a class; write SAE\(\)"),
        (3, "method must be a name or an object with `init` and `step`, or with `solve`"),
        (WithoutInit(), r"WithoutInit has no `init\(problem, x0\)`"),
        (WithoutStep(), r"WithoutStep has no `step\(problem, state\)`"),
        (WithoutNeeds(), r"WithoutNeeds has no `needs`; .* such as needs = \('grad',\)"),
        (NeedsAWord(), r"NeedsAWord has needs = 'grad'; it must be a tuple"),
        (NeedsNonsense(), r"needs = \('gradient',\); .* out of .*grad"),
        (InitOfOne(), r"`init` of the method InitOfOne must take \(problem, x0\), but its"),
        (WithoutState(), "WithoutState gave a ndarray as its state; a state inherits from gt.meth"),
        (WithoutPoint(), "the state State of WithoutPoint does not define `point`"),
        (WholeOfTwo(), r"`solve` of the method WholeOfTwo must take \(problem, x0, report\)"),
        (
            gt.SAE(inner=gt.inner.AGM),
            "inner method must be an object, but AGM is a class; write AGM",
        ),
        (
            gt.SAE(inner=gt.methods.FGM()),
            r"`init` of the inner method FGM must take \(phi, v0, grad_g0, ",
        ),
        (gt.SAE(inner=3), "inner must be a name or an inner method .* got 3"),
        (gt.SAE(inner=WithoutLimit()), r"the inner method WithoutLimit has no `limit\(phi\)`"),
        (gt.SAE(inner=ColdOnly()), r"`init` of the inner method ColdOnly must take .*, warm\)"),
        (
            gt.methods.Restarted(WithoutStep(), gt.methods.GradientTest()),
            "WithoutStep has no `step",
        ),
    ],
)
def test_what_is_missing_is_named(pair, method, message):
    with pytest.raises(TypeError, match=message):
        run(pair, method)


# "auto" as a method ------------------------------------------------------------------------

PRICES = Prices({"h.grad": 40.0, "g.grad": 1.0})


def planned():
    """`Planned` as an object."""
    return gt.methods.Planned(plan(quadratics(n=12).sum(), "auto", PRICES), PRICES)


def test_auto_is_a_method_like_others(pair):
    method = planned()
    by_name = gt.minimize(*pair, prices=PRICES.given, tol=1e-6)
    as_object = gt.minimize(*pair, method=method, tol=1e-6)
    same(by_name, as_object)
    assert as_object.plan == by_name.plan
    assert goes_on(method) and not goes_on(gt.ScipyLBFGS())
    assert loads(dumps(method)) == method


def test_a_plan_follows_its_changes():
    first, second = Descent(), Whole()
    chosen = Plan((("h",), ("g",)), first, "pqn", Reason.MEASURED, "", second)
    assert chosen.current is first and not chosen.settled
    left = replace(chosen, changes=(Change(Reason.CHEAP, ""),))
    assert left.current is second and not left.settled
    back = replace(left, changes=(*left.changes, Change(Reason.STALLED, "")))
    assert back.current is first and back.settled
    assert replace(chosen, runner_up=None).settled
