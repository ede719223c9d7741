"""LogDensity: optimality, leave-one-out, Laplace, and how good the densities are."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import OptimizeResult
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KernelDensity

from geartrain import datasets, minimize
from geartrain.core.status import Status
from geartrain.estimators import LogDensity
from geartrain.estimators.density.basis import make_basis
from geartrain.estimators.density.fit import fit_density, hessian


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    return rng.multinomial(200, rng.dirichlet(np.full(12, 2.0)))


def objective(A, counts, G2):
    """M c(x) - sum <a, x> + 1/2 x'G2x with its gradient and Hessian, literally."""

    def parts(x):
        weights = np.exp(A @ x)
        pi, m = weights / weights.sum(), counts.sum()
        value = m * np.log(weights.sum()) - counts @ A @ x + 0.5 * x @ G2 @ x
        gradient = m * A.T @ pi - A.T @ counts + G2 @ x
        mean = A.T @ pi
        return value, gradient, m * ((A.T * pi) @ A - np.outer(mean, mean)) + G2

    return parts


# Paper: log-density
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_maximises_the_posterior(counts, form):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((12, 5))
    B = rng.standard_normal((5, 5))
    G2 = B @ B.T + np.eye(5)
    model = LogDensity(form(A), precision=G2, prior=2.0).fit(counts)
    _, gradient, _ = objective(A, counts, 2 * G2)(model.coef_[0])
    assert abs(gradient).max() < 1e-4
    scores = A @ model.coef_[0]
    np.testing.assert_allclose(model.log_density(), scores - np.log(np.exp(scores).sum()))
    assert model.score(counts) == pytest.approx(counts @ model.log_density())
    assert model.n_calls_["h.grad"] == model.n_calls_["g.grad"] > 3
    assert model.n_calls_["h.value"] == 0 and model.prior_[0] == 2.0


def test_credible_band_is_the_laplace_approximation(counts):
    A = np.random.default_rng(1).standard_normal((12, 5))
    model = LogDensity(A, prior=3.0).fit(counts)
    x = model.coef_[0]
    _, _, H = objective(A, counts, 3 * np.eye(5))(x)

    def log_pi(x):
        return A @ x - np.log(np.exp(A @ x).sum())

    J = np.array([(log_pi(x + 1e-6 * e) - log_pi(x - 1e-6 * e)) / 2e-6 for e in np.eye(5)]).T
    half = 1.959964 * np.sqrt(np.einsum("ki,ij,kj->k", J, np.linalg.inv(H), J))
    low, high = model.credible_band()
    np.testing.assert_allclose(high - low, 2 * half, rtol=1e-4)
    np.testing.assert_allclose(0.5 * (low + high), model.log_density())
    with pytest.raises(ValueError, match="level"):
        model.credible_band(level=1.0)


def test_leave_one_out_by_one_newton_step_is_close_to_the_truth(counts):
    A = np.random.default_rng(1).standard_normal((12, 4))
    G2 = 2.0 * np.eye(4)
    fit = fit_density(A, counts.astype(float), G2, 1e-9, None)
    truth = 0.0
    for k in np.flatnonzero(counts):
        fewer = counts.astype(float)
        fewer[k] -= 1.0
        truth += counts[k] * fit_density(A, fewer, G2, 1e-9, None).log_pi[k]
    correction = counts @ fit.log_pi - truth
    assert correction > 0.5
    assert fit.leave_one_out() == pytest.approx(truth, abs=0.05 * correction)


@pytest.mark.parametrize("basis", ["bspline", "fourier", "indicator"])
def test_density_integrates_to_one_and_band_covers_it(basis):
    rng = np.random.default_rng(5)
    z = np.concatenate([rng.normal(-2, 0.5, 600), rng.normal(1, 1, 400)])[:, None]
    model = LogDensity(basis, n_support=128).fit(z)
    points = model.support_[0]
    width = points[1] - points[0]
    assert np.exp(model.log_density()).sum() * width == pytest.approx(1.0)
    t = points
    truth = 0.6 * np.exp(-2 * (t + 2) ** 2) / 0.5 + 0.4 * np.exp(-0.5 * (t - 1) ** 2)
    truth = np.log(truth / np.sqrt(2 * np.pi))
    inside = (t > -3) & (t < 2.5)
    low, high = model.credible_band()
    assert np.mean((low <= truth) & (truth <= high), where=inside) > 0.7
    drawn = model.sample(4000, random_state=0)
    assert drawn.shape == (4000, 1) and np.mean(drawn < -0.8) == pytest.approx(0.61, abs=0.04)
    assert model.log_density([[1e3]])[0] == -np.inf


def test_strong_roughness_prior_leaves_a_gaussian():
    z = np.random.default_rng(0).normal(3.0, 2.0, (2000, 1))
    model = LogDensity(prior=1e6, padding=1.0).fit(z)
    t = model.support_[0]
    expected = -0.5 * ((t - z.mean()) / z.std()) ** 2 - np.log(z.std() * np.sqrt(2 * np.pi))
    near = abs(t - 3) < 5
    np.testing.assert_allclose(model.log_density()[near], expected[near], atol=0.02)


def test_splines_sum_to_one_with_the_one_left_out():
    cells = LogDensity(n_support=50)._samples(np.array([0.0, 1.0]), np.ones(2))[0]
    rows = make_basis("bspline", 8, 50).rows(cells, cells.points).toarray()
    assert rows.shape == (50, 8) and (rows >= 0).all() and rows.sum(axis=1).max() <= 1 + 1e-12
    np.testing.assert_allclose(rows[:30].sum(axis=1), 1.0)


def test_weights_are_repetitions():
    rng = np.random.default_rng(0)
    z, times = rng.normal(size=(60, 1)), rng.integers(0, 4, 60)
    one = LogDensity().fit(z, sample_weight=times)
    other = LogDensity().fit(np.repeat(z, times, axis=0))
    assert one.prior_ == other.prior_
    np.testing.assert_allclose(one.coef_[0], other.coef_[0], atol=1e-9)


@pytest.mark.parametrize("prior", [1e-2, 1e2])
def test_a_fit_that_rounding_ends_at_the_mode_is_good(prior):
    """Warnings are errors here: a tolerance below rounding gives the fit and no warning."""
    z = np.random.default_rng(0).normal(size=(300, 1))
    tight = LogDensity(prior=prior, tol=1e-16).fit(z)
    usual = LogDensity(prior=prior).fit(z)
    # both are within 1e-4 standard deviations of the mode; in the tails the logarithm is -100
    np.testing.assert_allclose(tight.log_density(), usual.log_density(), rtol=1e-3, atol=1e-3)


def test_a_fit_that_ends_far_from_the_mode_warns(monkeypatch):
    """The distance to the mode is measured in posterior standard deviations."""
    z = np.random.default_rng(0).normal(size=(300, 1))
    good = LogDensity(prior=1.0).fit(z)._features[0].fit
    assert good.distance() < 1e-4
    eigenvalues, vectors = np.linalg.eigh(
        hessian(good.A, np.exp(good.log_pi), good.counts.sum(), good.G2)
    )
    moved = replace(good, x=good.x + 0.01 * vectors[:, -1] / np.sqrt(eigenvalues[-1]))
    assert moved.distance() == pytest.approx(0.01, rel=0.05)

    def stalls(*terms, **options):
        options["tol"] = 1e-1
        return OptimizeResult(minimize(*terms, **options), status=Status.STALLED, success=False)

    monkeypatch.setattr("geartrain.estimators.density.fit.minimize", stalls)
    with pytest.warns(ConvergenceWarning, match="LogDensity: "):
        LogDensity(prior=1.0).fit(z)


def test_features_are_independent():
    z = np.random.default_rng(0).normal(size=(200, 2))
    joint = LogDensity().fit(z).log_density(z)
    single = [LogDensity().fit(z[:, [j]]).log_density(z[:, [j]]) for j in (0, 1)]
    np.testing.assert_allclose(joint, sum(single))
    with pytest.raises(ValueError, match="X is needed"):
        LogDensity().fit(z).log_density()


def test_messages(counts):
    with pytest.raises(ValueError, match="Reshape your data"):
        LogDensity().fit([0.5, 1.5])
    with pytest.raises(ValueError, match="basis has 3 rows but the support has 12"):
        LogDensity(np.eye(3), prior=1.0).fit(counts)
    with pytest.raises(ValueError, match=r"indices 0, \.\.\., 2"):
        LogDensity(np.eye(3), prior=1.0).fit([[0], [7]])
    with pytest.raises(ValueError, match="precision must be 3 x 3"):
        LogDensity(np.eye(3), prior=1.0, precision=np.eye(2)).fit([1, 2, 3])
    with pytest.raises(ValueError, match="must be positive"):
        LogDensity(np.eye(3), prior=1.0, precision=[1.0, 0.0, 1.0]).fit([1, 2, 3])
    with pytest.raises(ValueError, match="multiply them"):
        LogDensity().fit(counts, sample_weight=counts)


def old_faithful():
    """The eruptions; where the file is missing, a sample of two bumps like theirs."""
    try:
        return datasets.load_old_faithful().X[:, :1]
    except FileNotFoundError:
        rng = np.random.default_rng(0)
        return np.concatenate([rng.normal(2.0, 0.26, 97), rng.normal(4.3, 0.42, 175)])[:, None]


def test_at_least_as_good_as_a_kernel_density_estimate():
    z = old_faithful()
    ours = theirs = 0.0
    for train, test in KFold(5, shuffle=True, random_state=0).split(z):
        ours += LogDensity().fit(z[train]).score(z[test])
        bandwidths = {"bandwidth": z.std() * np.logspace(-2, 0.3, 16)}
        search = GridSearchCV(KernelDensity(), bandwidths, cv=3).fit(z[train])
        theirs += search.score(z[test])
    assert ours >= theirs


def test_counts_beyond_all_numbers_are_refused(counts):
    with pytest.raises(ValueError, match="too large: their sum exceeds 1e\\+200"):
        LogDensity().fit(1e300 * counts)
    LogDensity().fit(1e150 * counts)


def words():
    """Words of text8 with their counts; where the file is missing, made-up ones."""
    try:
        return datasets.load_counts()
    except FileNotFoundError:
        rng = np.random.default_rng(0)
        names = {"".join(rng.choice(list("abcdefgh"), rng.integers(1, 9))) for _ in range(36_000)}
        return sorted(names), rng.zipf(2.0, len(names)).clip(max=10**5)


def test_word_counts_on_a_sparse_basis():
    names, counts = (part[::6] for part in words())
    features: dict[str, int] = {}
    entries = [
        (k, features.setdefault(feature, len(features)))
        for k, word in enumerate(names)
        for feature in {f"length {min(len(word), 12)}", *word[:2], word[-1:] + "$"}
    ]
    rows, columns = np.array(entries).T
    shape = (len(names), len(features))
    A = sparse.csr_array((np.ones(len(entries)), (rows, columns)), shape=shape)
    model = LogDensity(A, prior=1.0).fit(counts)
    log_pi = model.log_density()
    np.testing.assert_allclose(np.exp(log_pi).sum(), 1.0)
    # The observed and the expected number of every feature differ by the pull of the prior.
    gap = A.T @ (counts - counts.sum() * np.exp(log_pi)) - model.coef_[0]
    assert abs(gap).max() < 1e-4 * counts.sum()
    assert model.score(counts) > counts.sum() * -np.log(len(names))
