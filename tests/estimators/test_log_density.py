"""LogDensity: its formulas written out, tails, evidence, invariances, and hostile data."""

import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import OptimizeResult
from sklearn.exceptions import ConvergenceWarning

from geartrain import minimize
from geartrain.core.status import Status
from geartrain.estimators import LogDensity
from geartrain.estimators.density.base import (
    TwoPieceT,
    Units,
    negative_log_posterior,
    prepared,
)
from geartrain.estimators.density.fit import cosines, fit_density

LARGEST = np.finfo(np.float64).max


def sample(name, m=300):
    rng = np.random.default_rng(5)
    clusters = np.concatenate([rng.normal(-2, 0.5, m // 2), rng.normal(3, 1, m - m // 2)])
    draws = {
        "normal": rng.normal(3.0, 2.0, m),
        "clusters": clusters,
        "exponential": rng.exponential(size=m),
        "lognormal": rng.lognormal(size=m),
        "t3": rng.standard_t(3, m),
        "whole numbers": rng.poisson(4.0, m).astype(float),
    }
    return draws[name][:, None]


@pytest.fixture(scope="module", params=["clusters", "lognormal", "t3", "whole numbers"])
def fitted(request):
    z = sample(request.param)
    return z, LogDensity().fit(z)


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    return rng.multinomial(200, rng.dirichlet(np.full(12, 2.0)))


def literal_base(model, z):
    """q0 and F0 at z from the definition, the integrals by SciPy's Student t."""
    base, units = model._base, model._units
    y = (z / 2.0**units.exponent - units.centre) / units.scale
    sides = [stats.t(nu, loc=base.mode, scale=s) for nu, s in zip(base.nu, base.s, strict=True)]
    # Both sides have the same density at the mode.
    heights = [side.pdf(base.mode) for side in sides]
    total = 0.5 / heights[0] + 0.5 / heights[1]
    left, right = (
        side.pdf(y) / height / total for side, height in zip(sides, heights, strict=True)
    )
    below = sides[0].cdf(y) / heights[0] / total
    above = sides[1].sf(y) / heights[1] / total
    density = np.where(y < base.mode, left, right) / units.scale / 2.0**units.exponent
    return density, np.where(y < base.mode, below, 1.0 - above)


# Paper: log-density
def test_the_density_is_that_of_the_formulas(fitted):
    z, model = fitted
    x, n = model.coef_, 64
    points = np.concatenate([z[:, 0], z.mean() + 5 * z.std() * np.linspace(-3, 3, 50)])
    q0, u = literal_base(model, points)
    grid = (np.arange(1024) + 0.5) / 1024

    def series(u):
        return sum(x[i - 1] * np.sqrt(2) * np.cos(np.pi * i * u) for i in range(1, n + 1))

    c = np.log(np.mean(np.exp(series(grid))))
    expected = np.log(q0) + series(u) - c
    # The series has sum |x_i| i units of the last place of u to lose.
    np.testing.assert_allclose(model.log_density(points[:, None]), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(
        model.score_samples(points[:, None]), model.log_density(points[:, None])
    )
    assert model.score(z) == pytest.approx(model.log_density(z).sum())


@pytest.mark.parametrize("prior", [1e-2, 1e2])
def test_maximises_the_posterior(prior):
    z = sample("exponential")
    model = LogDensity(20, prior=prior).fit(z)
    u, x = literal_base(model, z[:, 0])[1], model.coef_
    grid = (np.arange(1024) + 0.5) / 1024
    weights = np.exp(cosines(grid, 20) @ x)
    pull = prior * np.arange(1, 21) ** 3 * x
    gradient = z.size * cosines(grid, 20).T @ weights / weights.sum() - cosines(u, 20).sum(0) + pull
    # tol is 1e-7 of the gradient at the start, in a metric in which H is about the identity.
    assert abs(gradient).max() < 1e-5 * abs(cosines(u, 20).sum(0)).max()
    assert model.n_calls_["h.grad"] == model.n_calls_["g.grad"] > 3
    assert model.n_calls_["h.value"] == 0 and model.prior_ == prior


def test_outside_of_the_data_the_density_falls_like_the_base(fitted):
    _, model = fitted
    x, c, nu = model.coef_, model._fit.c, model._base.nu
    signs = (-1.0) ** np.arange(1, x.size + 1)
    for side, at_end in ((-1.0, np.sqrt(2) * x.sum()), (1.0, np.sqrt(2) * x @ signs)):
        far = side * 10.0 ** np.array([[150.0], [151.0]])
        values = model.log_density(far)
        ratio = values - model._log_base(far[:, 0])
        # ln d(0) or ln d(1); to the rounding errors of values of about -31 * 150 ln 10
        np.testing.assert_allclose(ratio, at_end - c, rtol=1e-9, atol=1e-9)
        fall = (nu[int(side > 0)] + 1.0) * np.log(10.0)
        assert values[0] - values[1] == pytest.approx(fall, rel=1e-9)
    everywhere = model.log_density([[-LARGEST], [-1e30], [1e30], [LARGEST]])
    assert np.isfinite(everywhere).all() and (everywhere < -20).all()


def test_shift_and_scale_of_the_data_do_not_matter():
    z = sample("lognormal", 100)
    first = LogDensity().fit(z)
    doubled = LogDensity().fit(2.0**40 * z)  # exact, so that every step is the same
    np.testing.assert_array_equal(first.coef_, doubled.coef_)
    assert first.prior_ == doubled.prior_ and first._base.mode == doubled._base.mode
    for scale, shift in ((-3.0, 0.1), (1e6, -1e6)):
        other = LogDensity().fit(scale * z + shift)
        # A base is fitted until its log-posterior has 13 digits: its parameters have 6.
        expected = first.log_density(z) - np.log(abs(scale))
        np.testing.assert_allclose(other.log_density(scale * z + shift), expected, atol=1e-4)


def test_weights_are_repetitions():
    rng = np.random.default_rng(0)
    z, times = rng.normal(size=(60, 1)), rng.integers(0, 4, 60)
    weighted = LogDensity().fit(z, sample_weight=times)
    repeated = LogDensity().fit(rng.permutation(np.repeat(z, times, axis=0)))
    without = LogDensity().fit(z[times > 0], sample_weight=times[times > 0])
    for other in (repeated, without):
        np.testing.assert_array_equal(weighted.log_density(z), other.log_density(z))
        assert weighted.prior_ == other.prior_ and weighted.evidence_ == other.evidence_
    alone = LogDensity().fit(z)
    assert abs(weighted.log_density(z) - alone.log_density(z)).max() > 0.01


def test_ties_are_spread_evenly_within_their_cells():
    units, y, w = prepared(np.array([0.0, 1.0, 1.0, 1.0, 3.0]), np.array([1.0, 1.0, 1.0, 2.0, 0.5]))
    values = units.original(y)
    np.testing.assert_allclose(values, [0.0, 0.625, 0.875, 1.125, 1.375, 3.0], atol=1e-15)
    np.testing.assert_array_equal(w, [1.0, 1.0, 1.0, 1.0, 1.0, 0.5])
    units, y, w = prepared(np.array([2.0, 5.0]), np.array([1e6, 2.5]))
    values = units.original(y)
    assert w.sum() == pytest.approx(1e6 + 2.5) and values[:-3].min() > 0.5 and w.size == 64 + 3
    assert w[:64] @ values[:64] / 1e6 == pytest.approx(2.0)


@pytest.mark.parametrize("nu", [(0.5, 30.0), (3.0, 3.0), (8.0, 1.0)])
def test_base_is_a_distribution(nu):
    base = TwoPieceT(np.array([0.3, *np.log([0.7, 2.0, *nu])]), 5, np.zeros((5, 0)))
    y = np.array([-50.0, -3.0, 0.0, 0.3, 0.5, 4.0, 8.0])
    step = 1e-5 * np.maximum(abs(y), 1.0)
    slope = (base.cdf(y + step) - base.cdf(y - step)) / (2 * step)
    np.testing.assert_allclose(np.log(slope), base.log_density(y), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(base.ppf(base.cdf(y)), y, rtol=1e-7, atol=1e-9)
    assert base.cdf(np.array([-1e300, 1e300])) == pytest.approx([0.0, 1.0])


def test_the_gradient_of_the_base_is_that_of_differences():
    rng = np.random.default_rng(3)
    y, w = rng.standard_t(3, 40), rng.integers(1, 4, 40).astype(float)
    for theta in ([0.1, -0.2, 0.4, 1.0, 2.5], [-0.7, 0.3, -1.0, -0.5, 3.0]):
        theta = np.array(theta)
        _, gradient = negative_log_posterior(theta, y, w)
        for j, e in enumerate(1e-6 * np.eye(5)):
            up, down = (negative_log_posterior(theta + s * e, y, w)[0] for s in (1, -1))
            assert gradient[j] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-7)
        base = TwoPieceT(theta, 5, np.zeros((5, 0)))
        skew = (theta[1] - theta[2]) / 0.3
        prior = 0.5 * ((theta[3:] - np.log(8.0)) ** 2).sum() + np.log(1 + skew**2)
        expected = (prior - w @ base.log_density(y)) / w.sum()
        assert negative_log_posterior(theta, y, w)[0] == pytest.approx(expected)


def test_the_base_adds_its_own_variance_to_the_band():
    """With a strong prior it is all of it: J H^{-1} J' with H and J by differences of values."""
    z = sample("lognormal")
    model = LogDensity(prior=1e12).fit(z)
    base, m = model._base, z.size
    assert base.parameters == 5
    _, y, w = prepared(z[:, 0], np.ones(m))
    inside = base.theta[3:] < np.log(30.0) - 1e-6
    steps = 1e-3 * np.eye(5)[np.concatenate([np.ones(3, dtype=bool), inside])]

    def value(theta):
        return m * negative_log_posterior(theta, y, w)[0]

    def second(a, b):
        t = base.theta
        return (value(t + a + b) - value(t + a - b) - value(t - a + b) + value(t - a - b)) / 4e-6

    H = np.array([[second(a, b) for b in steps] for a in steps])
    at = np.linspace(*np.quantile(y, [0.05, 0.95]), 20)
    sides = [[replace(base, theta=base.theta + s * e) for s in (1, -1)] for e in steps]
    J = np.array([(up.log_density(at) - down.log_density(at)) / 2e-3 for up, down in sides])
    variance = np.einsum("ik,ij,jk->k", J, np.linalg.inv(H), J)
    low, high = model.credible_band(model._units.original(at)[:, None], level=0.5)
    # differences with steps of 1e-3 where the base has a bend in its second derivative
    np.testing.assert_allclose((high - low) / 2, 0.6744898 * np.sqrt(variance), rtol=0.03)


def test_evidence_is_the_mean_of_the_likelihood_over_the_prior():
    """By quadrature over two coefficients; Laplace's method is right up to a multiple of 1/m."""
    u, m, strength = np.random.default_rng(1).beta(2.0, 3.0, 2000), 2000, 0.5
    grid = (np.arange(256) + 0.5) / 256
    A, mean = cosines(grid, 2), cosines(u, 2).mean(axis=0)
    fit = fit_density(A, mean, m, strength, np.zeros(2), 1e-9)
    deviations = np.sqrt(np.diag(np.linalg.inv(m * fit.factor.T @ fit.factor)))
    line = np.linspace(-8, 8, 201)
    x1, x2 = (fit.x[i] + deviations[i] * line for i in (0, 1))
    x = np.stack(np.meshgrid(x1, x2, indexing="ij"), axis=-1).reshape(-1, 2)
    c = np.log(np.exp(x @ A.T).mean(axis=1))
    precision = strength * np.array([1.0, 8.0])
    prior = stats.norm(scale=precision**-0.5).logpdf(x).sum(axis=1)
    joint = m * (x @ mean - c) + prior
    cell = (x1[1] - x1[0]) * (x2[1] - x2[0])
    exact = joint.max() + np.log(np.exp(joint - joint.max()).sum() * cell)
    assert fit.log_evidence == pytest.approx(exact, abs=20 / m)


def test_the_strength_has_the_largest_evidence():
    z = sample("clusters")
    model = LogDensity().fit(z)
    for factor in (0.1, 10.0):
        other = LogDensity(prior=model.prior_ * factor).fit(z)
        assert other.evidence_ <= model.evidence_ + 1e-6
    again = LogDensity(prior=model.prior_).fit(z)
    assert again.evidence_ == pytest.approx(model.evidence_, abs=1e-6)
    np.testing.assert_allclose(again.log_density(z), model.log_density(z), atol=1e-3)


def test_credible_band_is_the_laplace_approximation(counts):
    model = LogDensity(5, prior=3.0).fit(counts)
    x, A = model.coef_, cosines((np.arange(12) + 0.5) / 12, 5)

    def log_pi(x):
        return A @ x - np.log(np.exp(A @ x).sum())

    def gradient(x):
        return A.T @ (counts.sum() * np.exp(log_pi(x)) - counts) + 3 * np.arange(1, 6) ** 3 * x

    steps = 1e-6 * np.eye(5)
    H = np.array([(gradient(x + e) - gradient(x - e)) / 2e-6 for e in steps])
    J = np.array([(log_pi(x + e) - log_pi(x - e)) / 2e-6 for e in steps]).T
    half = 1.959964 * np.sqrt(np.einsum("ki,ij,kj->k", J, np.linalg.inv(H), J))
    low, high = model.credible_band()
    np.testing.assert_allclose(high - low, 2 * half, rtol=1e-4)
    np.testing.assert_allclose(0.5 * (low + high), log_pi(x))
    with pytest.raises(ValueError, match="level"):
        model.credible_band(level=1.0)


def test_counts_are_a_density_on_the_indices(counts):
    model = LogDensity().fit(counts)
    assert model.coef_.shape == (11,)
    np.testing.assert_array_equal(model.support_, np.arange(12))
    assert np.exp(model.log_density()).sum() == pytest.approx(1.0)
    assert model.score(counts) == pytest.approx(counts @ model.log_density())
    assert model.score([*counts, 0, 0]) == model.score(counts) > model.score([0] * 12 + [1])
    np.testing.assert_array_equal(model.log_density([[3.0]]), model.log_density()[3:4])
    assert (model.log_density([[-1.0], [0.5], [12.0]]) == -np.inf).all()
    drawn = model.sample(2000, random_state=0)[:, 0]
    assert set(drawn) <= set(range(12))
    # Eleven functions on twelve indices are all functions: a weak prior leaves the frequencies.
    weak = LogDensity(prior=1e-9).fit(counts + 1)
    shares = (counts + 1) / (counts + 1).sum()
    np.testing.assert_allclose(np.exp(weak.log_density()), shares, rtol=1e-5)


def test_samples_are_drawn_from_the_density(fitted):
    _, model = fitted
    drawn = model.sample(4000, random_state=0)
    assert drawn.shape == (4000, 1)
    np.testing.assert_array_equal(drawn, model.sample(4000, random_state=0))
    # Shares of eighths of the support within six standard deviations.
    u = model._base.cdf(model._units.standard(drawn[:, 0]))
    shares = np.histogram(u, 8, (0.0, 1.0))[0] / 4000
    expected = model._fit.pi.reshape(8, -1).sum(axis=1)
    assert (abs(shares - expected) <= 6 * np.sqrt(expected / 4000) + 1 / 4000).all()


@pytest.mark.parametrize("prior", [1e-2, 1e2])
def test_a_fit_that_rounding_ends_at_the_mode_is_good(prior):
    """Warnings are errors here: a tolerance below rounding gives the fit and no warning."""
    z = np.random.default_rng(0).normal(size=(300, 1))
    tight = LogDensity(prior=prior, tol=1e-16).fit(z)
    usual = LogDensity(prior=prior).fit(z)
    # both are within 1e-3 standard deviations of the mode
    np.testing.assert_allclose(tight.log_density(), usual.log_density(), rtol=1e-3, atol=1e-3)


def test_a_fit_that_ends_far_from_the_mode_warns(monkeypatch):
    """The distance to the mode is measured in posterior standard deviations."""
    z = sample("clusters")
    good = LogDensity(prior=1.0).fit(z)._fit
    assert good.distance() < 1e-4
    H = good.m * good.factor.T @ good.factor
    eigenvalues, vectors = np.linalg.eigh(H)
    moved = replace(good, x=good.x + 0.01 * vectors[:, -1] / np.sqrt(eigenvalues[-1]))
    assert moved.distance() == pytest.approx(0.01, rel=0.05)

    def stalls(h, g, x0, **options):
        return OptimizeResult(
            minimize(h, g, x0, **options | {"max_iter": 1}), status=Status.STALLED, success=False
        )

    monkeypatch.setattr("geartrain.estimators.density.fit.METRICS", 1)
    monkeypatch.setattr("geartrain.estimators.density.fit.minimize", stalls)
    with pytest.warns(ConvergenceWarning, match="LogDensity: "):
        LogDensity(prior=1.0).fit(z)


def test_messages(counts):
    with pytest.raises(ValueError, match=r"one column, got 2: fit one model per column, X\[:, \[j"):
        LogDensity().fit(np.random.default_rng(0).normal(size=(20, 2)))
    with pytest.raises(ValueError, match="Reshape your data"):
        LogDensity().fit([0.5, 1.5])
    with pytest.raises(ValueError, match="multiply them"):
        LogDensity().fit(counts, sample_weight=counts)
    with pytest.raises(ValueError, match="zero"):
        LogDensity().fit(sample("normal"), sample_weight=np.zeros(300))
    with pytest.raises(ValueError, match="at least two points"):
        LogDensity().fit([0, 0, 0])


def test_sums_beyond_all_numbers_are_refused(counts):
    with pytest.raises(ValueError, match="too large: their sum exceeds 1e\\+200"):
        LogDensity().fit(1e300 * counts)
    with pytest.raises(ValueError, match="too large: their sum exceeds 1e\\+200"):
        LogDensity().fit(sample("normal"), sample_weight=np.full(300, 1e308))
    many = LogDensity().fit(1e150 * counts)
    np.testing.assert_allclose(np.exp(many.log_density()), counts / counts.sum(), atol=1e-6)


def hostile():
    rng = np.random.default_rng(2)
    return {
        "a constant": np.full(5, 3.0),
        "zeros": np.zeros(7),
        "the largest number": np.full(4, LARGEST),
        "the smallest number": np.full(4, 5e-324),
        "both ends": np.array([-LARGEST, LARGEST]),
        "neighbours": np.array([1.0, np.nextafter(1.0, 2.0)]),
        "tiny": 1e-320 * rng.normal(size=50),
        "an outlier": np.append(rng.normal(size=100), 1e300),
        "600 powers": 10.0 ** np.arange(-300, 300),
        "mostly zero": np.append(np.zeros(300), rng.exponential(size=100)),
        "one of 1000": np.append(np.zeros(999), 1.0),
        "far from zero": 1e15 + rng.integers(0, 3, 100),
        "two values": (rng.random(200) < 0.3).astype(float),
    }


@pytest.mark.parametrize("name", hostile())
def test_hostile_samples(name):
    """No warning, finite everywhere, and a density on [0, 1]."""
    z = hostile()[name][:, None]
    model = LogDensity().fit(z)
    assert np.isfinite(model.log_density(z)).all() and np.isfinite(model.sample(50, 0)).all()
    assert np.isfinite(model.log_density([[-LARGEST], [0.0], [1.0], [LARGEST]])).all()
    assert np.isfinite(model.credible_band()).all()
    fine = (np.arange(1 << 13) + 0.5) / (1 << 13)
    # The midpoint rule on the support is exact but for frequencies beyond its own.
    assert np.exp(model._fit.log_density(fine)).mean() == pytest.approx(1.0, abs=1e-6)


def test_units_of_any_size():
    units = Units(-1000, 0.25, 2.0)
    np.testing.assert_array_equal(units.standard(np.array([LARGEST, -LARGEST])), [1e300, -1e300])
    assert units.original(np.array([1e300]))[0] == 0.0 + 2e300 * 2.0**-1000
    assert Units(1000, 0.0, 1.0).original(np.array([1e300]))[0] == LARGEST


def test_plot(monkeypatch):
    mpl.use("agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    z = sample("clusters")
    model = LogDensity().fit(z)
    ax = model.plot()
    lines = {line.get_label(): line for line in ax.get_lines()}
    where, density = lines["density"].get_data()
    np.testing.assert_allclose(density, np.exp(model.log_density(where[:, None])))
    np.testing.assert_allclose(lines["base"].get_ydata(), np.exp(model._log_base(where)))
    heights, edges, _ = ax.patches[0].get_data()
    shares = np.histogram(z, edges)[0] / z.size
    np.testing.assert_allclose(heights * np.diff(edges), shares, atol=1.01 / z.size)
    _, mine = plt.subplots()
    assert LogDensity().fit([3, 1, 4, 1, 5]).plot(ax=mine) is mine
    assert mine.get_lines()[1].get_ydata().sum() == pytest.approx(1.0)
    plt.close("all")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install geartrain\[plot\]"):
        model.plot()
