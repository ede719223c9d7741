"""Which model is chosen where there are prices: by scores, and by what trial points gain."""

from dataclasses import replace

import geartrain as gt
from geartrain.lab.profile.families import problem
from geartrain.methods.quasi_newton.contest import Contest, Gained
from geartrain.methods.quasi_newton.tuning import DEFAULT

RHO = 3.0
BILL = 12.0  # of a trial point whose model keeps g
MODELS = (("mixed", 20), ("mixed", 60), ("plain", 50))
SHORT, MIXED, PLAIN = range(3)


def contest(*scores, **fields):
    """After a few trial points."""
    start = Contest.between(MODELS)
    return replace(start, scores=scores, weight=2.0, bill=BILL, **fields)


def favourite(known):
    return known.favourite(RHO, DEFAULT, False)


def after_plain(known, times, gain=0.01):
    for _ in range(times):
        known = known.gained(True, gain, RHO + 1.0)
    return known


def test_what_is_gained_is_a_discounted_mean_per_bill():
    seen = Gained().after(1.0, 4.0, 0.5).after(3.0, 6.0, 0.5)
    assert (seen.gain, seen.bill) == (3.5, 8.0)
    assert seen.rate == 3.5 / 8.0 and Gained().rate == 0.0


def test_after_ten_of_its_bills_a_model_that_keeps_g_has_its_turn():
    """The one with the best score of these, whatever the plain one has."""
    known = contest(5.0, 2.0, -50.0)
    for _ in range(29):  # 29 plain trial points cost less than ten others
        assert favourite(known) == PLAIN
        known = known.gained(True, 0.01, RHO + 1.0)
    assert favourite(known) == PLAIN and not known.is_turn
    known = after_plain(known, 2)
    assert known.is_turn and favourite(known) == MIXED
    # one that gains little loses its turn, and the next one is as far away
    known = known.billed(BILL).gained(False, 0.01, BILL)
    assert not known.pays and favourite(known) == PLAIN
    assert not after_plain(known, 29).is_turn and after_plain(known, 31).is_turn


def test_where_keeping_g_pays_the_handicap_is_suspended():
    known = after_plain(contest(5.0, 2.0, 1.9), 31).gained(False, 1.0, BILL)
    assert known.pays and favourite(known) == PLAIN  # by its score
    known = replace(known, scores=(5.0, 1.8, 1.9))
    assert favourite(known) == MIXED  # which no handicap would allow:
    assert favourite(replace(known, pays=False)) == PLAIN
    # until it no longer gains three times as much per bill
    for _ in range(20):
        known = known.gained(False, 2.0 * BILL * known.by_plain.rate, BILL)
    assert not known.pays


def test_without_a_long_time_of_plain_steps_scores_decide():
    """A first trial point may gain much: that is not what suspends the handicap."""
    known = after_plain(contest(1.8, 2.0, 1.9), 3).gained(False, 5.0, BILL)
    assert not known.pays and favourite(known) == PLAIN


def test_models_that_waste_wait():
    """They have better scores, and gain less than half as much per bill as the plain one."""
    known = after_plain(contest(-90.0, -80.0, 0.0), 29, 0.4)
    assert favourite(known) == SHORT
    for _ in range(12):
        known = known.gained(False, 0.3, BILL)
    assert known.by_others.rate < 0.5 * known.by_plain.rate
    assert known.wastes and favourite(known) == PLAIN
    assert favourite(after_plain(known, 31, 0.4)) == SHORT  # its turn


def test_nothing_is_measured_without_prices():
    p = problem("report", 2)
    res = gt.minimize(p.h, p.g, p.x0, method=gt.methods.SAEQN(), max_iter=12)
    seen = res.state.state.contest
    assert seen.by_plain == seen.by_others == Gained()
