"""What "auto" chooses, and that it says so."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods.planning import planned
from geartrain.methods.planning.bill import Alternative
from geartrain.methods.planning.plan import Reason
from geartrain.methods.planning.planned import Turns
from geartrain.methods.pqn.prices import Usage
from geartrain.methods.projected_lbfgs import ProjectedLBFGS
from geartrain.methods.sparsa import SpaRSA
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.problem import norm
from problems import logistic, quadratics
from runs import NEVER, same

X0 = np.ones(10)


def solve(prices, known=None, **options):
    known = logistic() if known is None else known
    x0 = np.ones(known.x_star.size)
    res = gt.minimize(known.h, known.g, x0, prices=prices, tol=1e-7, **options)
    assert res.success, res.message
    assert norm(known.grad(res.x)) <= 1e-7 * norm(known.grad(x0)) * (1 + 1e-6)
    return res


def solve_bare(known, prices, **options):
    return gt.minimize(known.h, known.g, X0, prices=prices, tol=1e-7, **options)


def plan(res):
    """What was chosen, and what happened in the run."""
    return res.state.state.plan


def is_exchanged(res):
    """Whether g takes the place of h."""
    return plan(res).levels == (("g",), ("h",))


def reasons(res):
    """Of the changes of method."""
    return [change.reason for change in plan(res).changes]


def bare(known):
    """The same problem with terms that answer values and gradients alone."""
    n = known.x_star.size
    h, g = (gt.Term(term.value_and_grad, n=n, convex=True) for term in (known.h, known.g))
    return replace(known, h=h, g=g)


def test_prices_alike_are_not_separated():
    known = bare(logistic())
    res = solve_bare(known, {"h.grad": 1.0, "g.grad": 1.0})
    assert plan(res).reason is Reason.ALIKE and reasons(res) == []
    assert res.calls["h.grad"] == res.calls["g.grad"]


@pytest.mark.parametrize("prices", [(1.5, 1.0), (1.0, 1.5)])
def test_a_quadratic_is_separated_at_any_price(prices):
    """It is factorised, and takes the place of g where it is h."""
    known, told = logistic(), dict(zip(("h.grad", "g.grad"), prices, strict=True))
    res = solve(told, known)
    assert plan(res).reason is Reason.EXACT and is_exchanged(res)
    assert res.calls["h.prox"] > 0
    other = gt.minimize(known.g, known.h, X0, prices={"h.grad": 1.0, "g.grad": 1.0}, tol=1e-7)
    assert plan(other).reason is Reason.EXACT and not is_exchanged(other)


@pytest.mark.parametrize("prices", [(1.0, 1.0), (2.5, 1.0), (1.0, 2.5)])
def test_of_two_quadratics_the_cheaper_one_is_the_last_level(prices):
    res = solve(dict(zip(("h.grad", "g.grad"), prices, strict=True)), quadratics(L_g=1e4, mu=1e-2))
    assert plan(res).reason is Reason.EXACT and is_exchanged(res) == (prices[0] < prices[1])


def test_an_expensive_h_is_asked_rarely():
    known = quadratics(L_g=1e4, mu=1e-2)
    res = solve({"h.grad": 1000.0, "g.grad": 1.0}, known)
    assert plan(res).reason is Reason.EXPENSIVE and not is_exchanged(res)
    assert isinstance(plan(res).method, gt.methods.ProximalQuasiNewton)
    assert plan(res).runner_up is None  # given prices are not seconds


def test_a_quadratic_with_a_dear_proximal_step_is_not_factorised():
    known, prices = logistic(), {"h.grad": 1.0, "g.grad": 1.0, "g.prox": 5.0}
    res = gt.minimize(known.g, known.h, X0, prices=prices, tol=1e-7)
    assert plan(res).reason is Reason.ALIKE and res.calls["g.prox"] == 0


def test_an_expensive_g_changes_the_roles():
    known = quadratics(L_g=1.0, L_h=1e4, mu=1e-2)
    res = solve({"h.grad": 1.0, "g.grad": 500.0}, known)
    assert plan(res).reason is Reason.EXPENSIVE and is_exchanged(res)
    assert res.constants["L_h"].value == known.h.L and res.constants["L_g"].value == known.g.L


def test_the_bill_is_what_was_asked():
    res = solve({"h.grad": 50.0, "g.grad": 2.0})
    bill = 50.0 * res.calls["h.grad"] + 2.0 * res.calls["g.grad"]
    assert f"= {bill:.4g}" in res.plan
    told = f"L-BFGS on the sum at 52 per evaluation, cheaper below {bill / 52.0:.3g} evaluations"
    assert told in res.plan
    # The one test of the prose; all others look at the reasons.
    assert res.plan.startswith("pqn: a gradient of h costs 25 times one of the other term")


def in_shards():
    """A mean of logistic losses less one of four shards of it, and that shard."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 10))
    y = np.sign(A @ rng.standard_normal(10) + rng.standard_normal(200))
    f, first = (gt.LinearModel(A[:m], y[:m], loss="logistic") for m in (200, 50))
    return f - first, gt.LinearModel(A[:50], y[:50], loss="logistic", l2=1e-3)


@pytest.mark.parametrize(("product", "name"), [(1.0, "similar-newton"), (1000.0, "pqn")])
def test_hessian_products_compete_at_their_price(product, name):
    h, g = in_shards()
    prices = {"h.grad": 1000.0, "g.grad": 1.0, "h.product": product, "g.product": 1.0}
    res = gt.minimize(h, g, np.zeros(10), prices=prices, tol=1e-6)
    assert res.success and plan(res).name == name
    assert (res.calls["h.product"] > 0) == (name == "similar-newton")
    assert "L-BFGS on the sum at 1001 per evaluation" in res.plan
    if name == "pqn":  # a gradient and ten products of each term, since n = 10
        assert f"similar-newton at {1000.0 + 10.0 * product + 11.0:.4g} per" in res.plan


def timed(term, clock, seconds, n=10, first=0.0, seen=None):
    """The term, with answers that take `seconds`, and more at the first call."""
    calls = itertools.count()

    def both(x):
        clock.pass_(seconds + (0.0 if next(calls) else first))
        if seen is not None:
            seen.append(x.tobytes())
        return term.value_and_grad(x)

    return gt.Term(both, n=n)


def test_measured_prices_that_show_a_dear_g_exchange_the_roles(clock):
    """As given prices do, and without asking anything twice, nor g for its curvature."""
    known = logistic()
    terms = timed(known.h, clock, 0.01), timed(known.g, clock, 1.0)
    res = gt.minimize(*terms, X0, tol=1e-6)
    assert res.success and is_exchanged(res) and reasons(res) == []
    assert "a gradient of g costs 100 times one of the other term" in res.plan
    assert any("changed roles" in note for _, note in res.history.notes)
    first = gt.minimize(*terms, X0, max_iter=1)
    assert first.calls["g.grad"] == 1 + first.state.state.current.trials
    resumed = gt.minimize(*terms, state=gt.minimize(*terms, X0, max_iter=2).state, tol=1e-6)
    assert resumed.success and is_exchanged(resumed)


@pytest.mark.parametrize("psi", [None, gt.L1(1e-3)])
def test_a_slow_first_call_of_two_terms_is_found_out(clock, psi):
    """As where a function is compiled at its first call; with psi or without."""
    known, seen = logistic(), ([], [])
    h = timed(known.g, clock, 1e-5, first=100.0, seen=seen[0])  # the larger constant
    g = timed(known.h, clock, 0.1, seen=seen[1])
    res = gt.minimize(h, g if psi is None else g + psi, X0, tol=1e-6)
    assert res.success and is_exchanged(res)
    assert "levels changed from h > g to g > h" in str(res.history.notes)
    assert np.isnan(res.state.state.gap_weight)
    for points in seen:
        assert len(set(points)) == len(points)


@pytest.mark.parametrize(
    ("done", "seconds"), [(1, (1.0, 0.01)), (0, (0.01, 1.0)), (1, (1e-3, 1.0)), (2, (1e-3, 1.0))]
)
def test_a_resumed_run_of_two_terms_is_the_uninterrupted_one(clock, tmp_path, done, seconds):
    """Also where the levels change at x0, or after the first iteration."""
    known, path = logistic(), tmp_path / "run.gtck"

    def terms():
        first = 50.0 if seconds[0] == 1e-3 else 0.0
        return timed(known.g, clock, seconds[0], first=first), timed(known.h, clock, seconds[1])

    whole = gt.minimize(*terms(), X0, stop=NEVER, max_iter=5)
    assert is_exchanged(whole) == (seconds[0] < seconds[1])
    pair = terms()
    gt.minimize(*pair, X0, stop=NEVER, max_iter=done, checkpoint=path)
    same(whole, gt.resume(path, *pair, max_iter=5 - done, check=False))


def test_terms_that_take_microseconds_begin_with_lbfgs(clock):
    """An evaluation takes 0.1 ms: L-BFGS is done before there is anything to compare."""
    known = logistic()
    res = gt.minimize(timed(known.h, clock, 5e-5), timed(known.g, clock, 5e-5), X0, tol=1e-6)
    assert res.success and reasons(res) == [Reason.CHEAP]
    assert isinstance(plan(res).current, ProjectedLBFGS)
    assert "an evaluation of both terms takes 0.0001 s" in res.plan
    bounded = gt.minimize(
        timed(known.h, clock, 5e-5), timed(known.g, clock, 5e-5) + gt.Box(-9.0, 9.0), X0, tol=1e-6
    )
    assert bounded.success and reasons(bounded) == [Reason.CHEAP]
    alone = gt.minimize(timed(known.h, clock, 5e-5), gt.Box(-9.0, 9.0), X0, tol=1e-6)
    assert alone.success and reasons(alone) == [Reason.CHEAP]
    given = {"h.grad": 1.0, "g.grad": 1.0}
    assert reasons(solve_bare(bare(known), given)) == []  # seconds are not the price


PSI = {
    "l1": gt.L1(0.01),
    "simplex": gt.Simplex(1.0),
    "groups": gt.GroupL1(np.repeat([0, 1], 5), 0.02),
}


@pytest.mark.parametrize("with_g", [True, False])
@pytest.mark.parametrize("name", PSI)
def test_with_psi_they_begin_with_sparsa(name, with_g, clock):
    """Values fall, nothing is asked twice, and the bill names the method."""
    known, psi, asked = logistic(), PSI[name], ([], [])
    h, g = (timed(t, clock, 5e-5, seen=a) for t, a in zip((known.h, known.g), asked, strict=True))
    x0 = psi.prox(X0, 1.0)
    res = gt.minimize(h, g + psi, x0) if with_g else gt.minimize(g, psi, x0)
    assert res.success and isinstance(plan(res).current, SpaRSA)
    assert reasons(res) == [Reason.CHEAP] and "left for SpaRSA on the sum" in res.plan
    assert (np.diff(res.history["f"]) <= 1e-14).all()
    for points in asked:
        assert len(set(points)) == len(points)


def test_where_sparsa_stalls_pqn_goes_on(clock, monkeypatch):
    plain, seen = SpaRSA.step, itertools.count()

    def stalls(self, problem, state):
        return plain(self, problem, state) if next(seen) < 3 else replace(state, stalled=True)

    monkeypatch.setattr(SpaRSA, "step", stalls)
    known = quadratics(L_h=1.0, L_g=100.0)
    h, g = (timed(term, clock, 5e-5, n=24) for term in (known.h, known.g))
    res = gt.minimize(h, g + gt.L1(1e-3), np.ones(24), tol=1e-6)
    assert res.success and reasons(res) == [Reason.CHEAP, Reason.STALLED]
    assert "SpaRSA stalled" in res.plan
    assert isinstance(plan(res).current, gt.methods.ProximalQuasiNewton)


def test_a_psi_without_values_begins_with_pqn(clock):
    class Clipped:
        def prox(self, u, alpha):
            return np.clip(u, -0.1, 0.1)

    known = logistic()
    h = timed(known.h, clock, 5e-5)
    res = gt.minimize(h, Clipped(), 0.0 * X0)
    assert res.success and plan(res).runner_up is None and reasons(res) == []


@pytest.fixture
def raced(clock, monkeypatch):
    """A run of cheap terms in which L-BFGS takes `slow` seconds per iteration."""

    def run(slow, **options):
        plain = ProjectedLBFGS.step

        def step(self, problem, state):
            clock.pass_(slow)
            return plain(self, problem, state)

        monkeypatch.setattr(ProjectedLBFGS, "step", step)
        return gt.minimize(*terms, np.ones(24), **options)

    known = quadratics(L_h=1.0, L_g=1e4, mu=1e-4)
    run.seen = [], []
    terms = [
        timed(term, clock, 5e-5, n=24, seen=seen)
        for term, seen in zip((known.h, known.g), run.seen, strict=True)
    ]
    run.terms, run.known = terms, (known.h, known.g)
    return run


def test_the_other_method_has_its_turn_and_goes_on_while_it_leads(raced):
    """The learned method takes no time by this clock, so that it leads after as many seconds."""
    res = raced(0.02, tol=1e-9)
    assert res.success and reasons(res) == [Reason.CHEAP, Reason.TURN]
    assert isinstance(plan(res).current, gt.methods.ProximalQuasiNewton)
    assert "after 0.1 s, pqn has its turn" in res.plan
    for points in raced.seen:  # nothing is asked twice: from pqn to L-BFGS at x0, and back at x0
        assert len(set(points)) == len(points)


def test_lbfgs_goes_on_after_a_turn_of_the_other_method_as_if_there_had_been_none(
    clock, monkeypatch
):
    """A step of the learned method takes 0.1 s by this clock, and lets L-BFGS lead."""
    plain = gt.methods.ProximalQuasiNewton.step

    def step(self, *arguments):
        clock.pass_(0.1)
        return plain(self, *arguments)

    monkeypatch.setattr(gt.methods.ProximalQuasiNewton, "step", step)
    known, x0 = quadratics(L_h=1.0, L_g=1e4, mu=1e-4), np.ones(24)
    h, g = (timed(term, clock, 5e-4, n=24) for term in (known.h, known.g))
    res = gt.minimize(h, g, x0, stop=NEVER, max_iter=160)
    assert reasons(res)[:3] == [Reason.CHEAP, Reason.TURN, Reason.TURN]
    alone = gt.minimize(known.h, known.g, x0, method=plan(res).runner_up, stop=NEVER, max_iter=160)
    told = [list(map(float, run.history["f"])) for run in (res, alone)]
    seen = [f for f, _ in itertools.groupby(told[0])]  # the lowest so far
    assert len(seen) >= 100 and seen == told[1][: len(seen)]


@pytest.mark.parametrize("cut", [1, 4, 5, 9])
def test_turns_go_on_where_they_were(clock, tmp_path, cut, monkeypatch):
    """Before a turn, in it and after it, to the last bit: both methods know what they knew."""

    def change(self, state):
        if self.problem.ledger.calls["h.grad"] >= (4, 8, 10**6)[len(self.plan.changes) - 1]:
            self._turn()

    monkeypatch.setattr(planned._PlannedRun, "_change", change)
    monkeypatch.setattr(Turns, "seconds", lambda self, name: 0.0)  # they are told
    known, path = quadratics(L_h=1.0, L_g=1e4, mu=1e-4), tmp_path / "run.gtck"

    def terms():
        return [timed(term, clock, 5e-5, n=24) for term in (known.h, known.g)]

    whole = gt.minimize(*terms(), np.ones(24), stop=NEVER, max_iter=12)
    assert reasons(whole) == [Reason.CHEAP, Reason.TURN, Reason.TURN]
    pair = terms()
    gt.minimize(*pair, np.ones(24), stop=NEVER, max_iter=cut, checkpoint=path)
    same(whole, gt.resume(path, *pair, max_iter=12 - cut, check=False))


@pytest.mark.parametrize("most", [60, 76, 92])
def test_what_is_returned_in_the_turn_of_a_method_that_is_behind_is_the_lowest_point(
    raced, monkeypatch, most
):
    """The learned method begins at x0 after L-BFGS has come far; the budget ends its turn."""
    monkeypatch.setattr(planned, "_FIRST", 1.0)
    res = raced(0.02, stop=gt.stop.Calls({"h.grad": most}))
    f = res.history["f"]
    assert len(reasons(res)) > 1 and (np.diff(f) <= 1e-9 * np.abs(f[1:])).all()
    value = sum(term.value_and_grad(res.x)[0] for term in raced.known)
    assert res.fun == pytest.approx(f[-1], rel=1e-12) and f[-1] == pytest.approx(value, rel=1e-12)


def test_turns_by_hand(clock):
    """The one that is behind has a third of the seconds, the other one nine times its seconds."""
    turns = Turns()

    def note(name, seconds, value):
        turns.start()
        clock.pass_(seconds)
        turns.note(name, value)

    note("lbfgs", 0.09, 5.0)
    assert not turns.is_over("lbfgs", "pqn")
    note("lbfgs", 0.03, 4.0)
    assert turns.is_over("lbfgs", "pqn")
    note("pqn", 0.03, 4.5)
    assert turns.leads("pqn", "lbfgs") and not turns.is_over("pqn", "lbfgs")
    note("pqn", 0.02, 5.5)
    assert not turns.leads("pqn", "lbfgs") and turns.is_over("pqn", "lbfgs")
    assert turns.leads("lbfgs", "pqn") and not turns.is_over("lbfgs", "pqn")
    note("lbfgs", 0.35, 3.0)
    assert turns.is_over("lbfgs", "pqn")
    note("pqn", 0.45, 2.0)  # after as many seconds, and lower
    assert turns.leads("pqn", "lbfgs") and not turns.is_over("pqn", "lbfgs")


def test_where_own_arithmetic_takes_longest_lbfgs_is_tried(clock, monkeypatch):
    """An evaluation takes 4 ms, and what the learned method does with it 40."""
    plain = gt.methods.ProximalQuasiNewton._propose

    def propose(self, *arguments):
        clock.pass_(0.04)
        return plain(self, *arguments)

    monkeypatch.setattr(gt.methods.ProximalQuasiNewton, "_propose", propose)
    known = quadratics(L_h=1.0, L_g=1e4, mu=1e-4)
    terms = [timed(term, clock, 2e-3, n=24) for term in (known.h, known.g)]
    res = gt.minimize(*terms, np.ones(24), tol=1e-9)
    assert res.success and reasons(res)[0] is Reason.TURN
    assert "lbfgs has its turn" in res.plan


def test_code_that_is_loaded_is_no_reason_to_try_lbfgs(clock, monkeypatch):
    """An evaluation takes 0.4 s, and the first iteration 2 s more, in which code is compiled."""
    plain, loaded = gt.methods.ProximalQuasiNewton._propose, []

    def propose(self, *arguments):
        clock.pass_(0.0 if loaded else 2.0)
        loaded.append(True)
        return plain(self, *arguments)

    monkeypatch.setattr(gt.methods.ProximalQuasiNewton, "_propose", propose)
    known = quadratics(L_h=1.0, L_g=1e4, mu=1e-4)
    h, g = timed(known.h, clock, 0.4, n=24), timed(known.g, clock, 1e-3, n=24)
    res = gt.minimize(h, g, np.ones(24), tol=1e-9)
    assert res.success and Reason.TURN not in reasons(res)


@pytest.mark.parametrize("stay", [0, 3])
def test_where_lbfgs_stalls_pqn_goes_on(clock, monkeypatch, stay):
    plain, seen = ProjectedLBFGS.step, itertools.count()

    def stalls(self, problem, state):
        return plain(self, problem, state) if next(seen) < stay else replace(state, stalled=True)

    monkeypatch.setattr(ProjectedLBFGS, "step", stalls)
    known, points = logistic(), ([], [])
    terms = [
        timed(term, clock, 5e-5, seen=seen)
        for term, seen in zip((known.h, known.g), points, strict=True)
    ]
    res = gt.minimize(*terms, X0, tol=1e-7)
    assert res.success
    assert reasons(res) == [Reason.CHEAP, Reason.STALLED] and plan(res).settled
    assert isinstance(plan(res).current, gt.methods.ProximalQuasiNewton)
    assert [note for _, note in res.history.notes][-1] == "method changed: L-BFGS stalled"
    assert len(res.history["f"]) == res.nit + 1
    for asked in points:  # pqn begins where L-BFGS has ended, and asks nothing again
        assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("seed", range(2))
def test_lbfgs_stays_inside_the_domain(seed, clock):
    """-sum ln(b - Ax) is infinite outside of Ax < b: such a point is too far along its line."""
    rng = np.random.default_rng(seed)
    A, b, c = rng.standard_normal((60, 20)), 1.0 + rng.random(60), rng.standard_normal(20)

    def barrier(x):
        room = b - A @ x
        if (room <= 0.0).any():
            return np.inf, np.full(20, np.inf)
        return -float(np.log(room).sum()), A.T @ (1.0 / room)

    h, g = gt.Term(barrier, n=20), gt.Term(lambda x: (5.0 * x @ x - c @ x, 10.0 * x - c), n=20)
    res = gt.minimize(h, g)
    assert res.success and reasons(res) == [Reason.CHEAP]
    assert len(res.history["f"]) == res.nit + 1


def test_where_an_answer_to_pqn_is_not_finite_lbfgs_goes_on(raced, monkeypatch):
    """In its turn; the run ends as one of L-BFGS alone would."""

    def step(self, problem, state):
        raise NonFiniteAnswer("h.grad answered with nan")

    monkeypatch.setattr(gt.methods.ProximalQuasiNewton, "step", step)
    res = raced(0.02, tol=1e-6)
    assert res.success and isinstance(plan(res).current, ProjectedLBFGS)
    assert reasons(res)[:3] == [Reason.CHEAP, Reason.TURN, Reason.TURN]


def test_usage_by_hand():
    """Two calls of h, of 1 s each, and four of g, of 0.5 s each, after what came first."""
    first = Usage(5, 50.0, 5, 50.0, 9.0, 9.0)
    last = Usage(7, 52.0, 9, 52.0, 10.0, 12.0)
    assert last.since(first) == Usage(2, 2.0, 4, 2.0, 1.0, 3.0)
    assert last.ratio(first) == ((2.0 + 3.0) / 2) / ((2.0 + 1.0) / 4)
    assert last.ratio(Usage()) == (52.0 / 7) / (52.0 / 9)  # own seconds of the first ones are left


def test_below_a_ratio_of_three_prices_are_alike():
    known = bare(logistic())
    for ratio, reason in ((2.9, Reason.ALIKE), (3.0, Reason.EXPENSIVE)):
        res = solve_bare(known, {"h.grad": ratio, "g.grad": 1.0})
        assert plan(res).reason is reason and res.success


def test_an_answer_that_is_not_finite_ends_the_run_where_no_method_goes_on():
    known = bare(logistic())
    for limit in (0, 3):  # at x0, and from the third call on
        calls = itertools.count()

        def breaks(x, calls=calls, limit=limit):
            value, grad = known.h.value_and_grad(x)
            return (value if next(calls) < limit else np.nan), grad

        h = gt.Term(breaks, n=10)
        res = gt.minimize(h, known.g, X0, prices={"h.grad": 1.0, "g.grad": 1.0})
        assert res.status.name == "NON_FINITE" and res.calls["h.grad"] < 20


def test_terms_without_gradients():
    """A g of partial derivatives only: the inner method follows from what it answers."""
    known = quadratics()
    g = gt.Term(coord=known.g.coord, L_coord=known.g.L_coord, L=known.g.L, n=24)
    res = gt.minimize(known.h, g, np.ones(24), tol=1e-5)
    assert res.success
    assert res.calls["g.coord"] > 0
    assert plan(res).reason is Reason.NO_GRADIENTS


@pytest.mark.parametrize("ratio", [0.01, 100.0])
def test_in_a_geometry_no_constants_are_needed(ratio):
    known, geometry = logistic(), gt.geometry.Diagonal(np.logspace(-1.0, 1.0, 10))
    for case in (known, bare(known)):
        options = {"geometry": geometry, "tol": 1e-7}
        res = gt.minimize(case.h, case.g, X0, prices={"h.grad": ratio, "g.grad": 1.0}, **options)
        assert res.success and plan(res).reason is Reason.GEOMETRY
        assert plan(res).name == "pqn" and is_exchanged(res) == (ratio < 1.0)
    assert gt.minimize(case.h, case.g, X0, geometry=geometry).success  # measured prices


def test_the_name_of_a_term_stands_for_its_gradients():
    short, full = solve({"h": 100.0, "g": 1.0}), solve({"h.grad": 100.0, "g.grad": 1.0})
    assert short.plan == full.plan and short.calls == full.calls


def test_an_alternative_that_one_iteration_makes_dearer_says_so():
    newton = Alternative("similar-newton", 1900.0, False, "iteration")
    assert newton.told(1152.0, "").endswith("1900 per iteration, which is more than this run cost")
    assert newton.told(3800.0, " s").endswith("1900 s per iteration, cheaper below 2 iterations")
