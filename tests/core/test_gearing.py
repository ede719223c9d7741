"""The levels that ``minimize`` chooses for more than two terms, and what the plan says."""

import numpy as np
import pytest

import geartrain as gt
from many_terms import train_of_quadratics
from runs import NEVER, same

KNOWN = train_of_quadratics((1.0, 30.0, 1000.0), mu=0.05, n=24)
H1, H2, G = KNOWN.terms
NAMED = {"simulator": H1, "cluster": H2}


def prices(*numbers, names=("h1", "h2", "g")):
    return {f"{name}.grad": float(p) for name, p in zip(names, numbers, strict=True)}


def opaque(term):
    return gt.Term(value_and_grad=lambda x: (term.value(x), term.grad(x)), n=term.n)


@pytest.mark.parametrize(
    ("given", "plan"),
    [
        (prices(1e4, 100, 1), "h1 > h2 > g: by prices and constants"),
        (prices(3, 2, 1), "h1 + h2 > g: h1 + h2 merged, prices alike"),
        (prices(1, 1000, 10), "h2 > h1 + g: h1 + g merged, a level of its own would not pay"),
        (None, "h1 > h2 > g: as listed, because no prices are given"),
    ],
)
def test_afb_orders_and_merges_by_prices_and_constants(given, plan):
    res = gt.minimize([H1, H2], G, method="afb", prices=given, tol=1e-3)
    assert res.success and res.plan == plan


def test_the_order_of_the_list_does_not_matter_where_prices_are_given():
    given = prices(1e4, 100, 1, names=("simulator", "cluster", "g"))
    one = gt.minimize(NAMED, G, method="afb", prices=given, tol=1e-3)
    other = gt.minimize({"cluster": H2, "simulator": H1}, G, method="afb", prices=given, tol=1e-3)
    assert one.plan == other.plan == "simulator > cluster > g: by prices and constants"
    assert {k: v for k, v in one.calls.items()} == dict(other.calls)
    np.testing.assert_array_equal(one.x, other.x)


def test_without_constants_terms_are_ordered_by_price():
    h = {"cluster": opaque(H2), "local": opaque(H1), "simulator": opaque(H1)}
    names = ("simulator", "cluster", "local", "g")
    res = gt.minimize(h, G, prices=prices(1e4, 100, 90, 1, names=names), tol=1e-2)
    assert res.success
    assert res.plan.startswith(
        "simulator > cluster + local > g: pqn on every level, cluster + local merged, prices al"
    )
    assert res.calls["cluster.grad"] == res.calls["local.grad"]


def test_the_learned_method_by_name():
    given = prices(1e4, 100, 1)
    res = gt.minimize([H1, H2], G, method="pqn", prices=given, stop=NEVER, max_iter=4)
    same(res, gt.minimize([H1, H2], G, prices=given, stop=NEVER, max_iter=4))
    assert res.plan.startswith("h1 > h2 > g: pqn on every level, by prices and constants")
    res = gt.minimize([H1, H2], G, method="pqn", tol=1e-3)
    assert res.success and res.plan.startswith(
        "h1 > h2 > g: pqn on every level, as listed, because no prices are given"
    )
    res = gt.minimize([H1, H2], G + gt.L1(0.1), method="pqn", tol=1e-3)
    assert res.success and res.plan.startswith("h1 > h2 > g: pqn on every level, as listed")
    with pytest.raises(TypeError, match="no inner method but the levels below"):
        gt.minimize([H1, H2], G, method="pqn", inner="agm")


def test_the_price_of_a_single_term_with_a_name():
    """It is the price of h, whatever the term is called."""
    term = opaque(H1)
    named = gt.minimize({"simulator": term}, opaque(G), prices={"simulator.grad": 1e4}, tol=1e-2)
    plain = gt.minimize(term, opaque(G), prices={"h.grad": 1e4}, tol=1e-2)
    assert named.plan == plain.plan.replace("of h", "of simulator")
    assert "costs 1e+04 times one" in named.plan
    assert list(named.calls.values()) == list(plain.calls.values())


def test_terms_that_are_alike_are_one_for_auto():
    terms = [gt.Quadratic(np.diag(d), np.ones(6)) for d in np.eye(6)[:3] + 1.0]
    res = gt.minimize(terms[:2], terms[2], prices=prices(1, 1, 1), tol=1e-6)
    assert res.success and res.plan.startswith("h1 > h2 + g: pqn, h1 + h2 + g merged, prices alike")
    assert res.calls["h1.grad"] == res.calls["h2.grad"] == res.calls["g.grad"]


def test_auto_takes_non_convex_terms_whose_sum_is_convex():
    res = gt.minimize([H1, H2 - 0.5 * G], 1.5 * G, prices=prices(1e4, 100, 1), tol=1e-3)
    assert res.success
    np.testing.assert_allclose(
        KNOWN.grad(res.x), 0.0, atol=2e-3 * np.linalg.norm(KNOWN.grad(0 * res.x))
    )


def test_a_g_without_gradients_is_the_last_level():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 24))
    full = gt.LinearModel(A, np.sign(A[:, 0] + 0.1), l2=0.05)
    g = gt.Term(
        component=full.component, n_components=30, L_components=full.L_components, n=24, mu=0.05
    )
    res = gt.minimize([H1, H2], g, prices=prices(1, 100, 1e4), tol=1e-3)
    assert res.success and res.plan.split(":")[0].endswith("> g") and res.calls["g.component"] > 0


@pytest.mark.parametrize(
    ("method", "given"), [("auto", prices(1e4, 100, 1)), ("afb", prices(1, 1000, 10))]
)
def test_a_planned_run_is_resumed_on_its_levels(tmp_path, method, given):
    path = tmp_path / "run.gtck"
    options = {"method": method, "prices": given, "stop": NEVER}
    whole = gt.minimize([H1, H2], G, max_iter=5, **options)
    gt.minimize([H1, H2], G, max_iter=2, checkpoint=path, **options)
    again = gt.resume(path, [H1, H2], G, max_iter=3)
    same(whole, again)
    assert again.plan == whole.plan
