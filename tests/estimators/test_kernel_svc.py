"""KernelSVC against SVC and against its own definition."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from geartrain.estimators import KernelSVC
from geartrain.estimators.svm.kernel_svc import SOLVERS


@pytest.fixture(scope="module")
def moons():
    return make_moons(600, noise=0.3, random_state=0)


@pytest.mark.parametrize(
    ("C", "options"),
    [(0.03, {}), (30.0, {}), (1.0, {"kernel": "linear"}), (1.0, {"kernel": "poly", "coef0": 1.0})],
)
def test_agrees_with_svc(moons, C, options):
    X, y = moons
    ours = KernelSVC(C=C, **options).fit(X[:400], y[:400])
    theirs = SVC(C=C, tol=1e-8, **options).fit(X[:400], y[:400])
    f, g = (model.decision_function(X[400:]) for model in (ours, theirs))
    np.testing.assert_allclose(f, g, atol=5e-3 * abs(g).max())
    assert np.mean(ours.predict(X) == theirs.predict(X)) >= 0.995
    # The certificate brackets the optimum, which SVC has to eight digits.
    losses = np.maximum(0, 1 - (2 * y[:400] - 1) * theirs.decision_function(X[:400]))
    f0 = theirs.decision_function(X[:400]) - theirs.intercept_
    optimum = 0.5 * theirs.dual_coef_[0] @ f0[theirs.support_] + C * losses.sum()
    slack = 1e-6 * optimum
    assert ours.objective_ - ours.gap_ - slack <= optimum <= ours.objective_ + slack


def test_attributes_are_those_of_svc(moons):
    X, y = moons
    ours, theirs = KernelSVC(tol=1e-6).fit(X, y), SVC(tol=1e-6).fit(X, y)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    assert ours.n_calls_["kernel.row"] <= len(X) and ours.n_calls_["smo.step"] > 0


def test_the_same_by_every_way_to_give_a_kernel(moons):
    X, y = moons
    expected = KernelSVC(gamma=0.5).fit(X, y).decision_function(X)
    K = rbf_kernel(X, gamma=0.5)
    for model, points in (
        (KernelSVC(kernel="precomputed"), K),
        (KernelSVC(kernel=lambda a, b: rbf_kernel(a, b, gamma=0.5)), X),
        (KernelSVC(gamma=0.5), sparse.csr_matrix(X)),
        (KernelSVC(gamma=0.5, memory_limit=0.9), X),
    ):
        found = model.fit(points, y).decision_function(points)
        np.testing.assert_allclose(found, expected, atol=3e-3)
    assert KernelSVC(gamma=0.5).fit(sparse.csr_matrix(X), y).predict(X[:3]).shape == (3,)
    with pytest.raises(ValueError, match="square matrix"):
        KernelSVC(kernel="precomputed").fit(K[:, :5], y)


def test_one_against_one():
    X, y = load_iris(return_X_y=True)
    model = KernelSVC(C=3.0, gamma=0.4, decision_function_shape="ovo").fit(X, y)
    values = model.decision_function(X)
    for k, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        two = np.isin(y, (i, j))
        binary = KernelSVC(C=3.0, gamma=0.4).fit(X[two], y[two] == i)
        np.testing.assert_allclose(values[:, k], binary.decision_function(X), atol=1e-6)
        assert model.objective_[k] == pytest.approx(binary.objective_)
        assert model.gap_[k] == pytest.approx(binary.gap_, abs=1e-9)
        assert model.n_iter_[k] == binary.n_iter_[0]
    assert model.n_calls_["kernel.row"] <= 300  # each class is in two of the three problems


@pytest.mark.parametrize(
    ("kernel", "form"),
    [("rbf", sparse.csr_matrix), ("linear", np.asarray), ("sigmoid", np.asarray)],
)
def test_several_classes_agree_with_svc(kernel, form):
    X, y = load_digits(n_class=5, return_X_y=True)
    X, names = form(X[:300] / 16), np.array(["e", "d", "c", "b", "a"])[y[:300]]
    options = {"kernel": kernel, "tol": 1e-8, "gamma": 0.05}
    ours, theirs = KernelSVC(**options).fit(X, names), SVC(**options).fit(X, names)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    if kernel != "linear":  # its dual solution is not unique
        np.testing.assert_array_equal(ours.support_, theirs.support_)
        np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
        a, b = (np.asarray((1.0 * m.dual_coef_).todense() if form is not np.asarray else
                           m.dual_coef_) for m in (ours, theirs))  # fmt: skip
        np.testing.assert_allclose(a, b, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    for shape in ("ovo", "ovr"):
        values = [
            model.set_params(decision_function_shape=shape).decision_function(X)
            for model in (ours, theirs)
        ]
        np.testing.assert_allclose(*values, atol=1e-4)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert hasattr(ours, "coef_") == (kernel == "linear")
    if kernel == "linear":
        a, b = (sparse.csr_matrix(model.coef_).toarray() for model in (ours, theirs))
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_probabilities_are_calibrated_as_scikit_learn_recommends(moons):
    X, y = moons
    model = KernelSVC(probability=True, random_state=0).fit(X[:400], y[:400])
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    expected = CalibratedClassifierCV(SVC(tol=1e-6), cv=folds, ensemble=False)
    expected = expected.fit(X[:400], y[:400]).predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=2e-2)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    np.testing.assert_array_equal(
        model.decision_function(X), KernelSVC().fit(X[:400], y[:400]).decision_function(X)
    )
    plain = KernelSVC().fit(X, y)
    assert not hasattr(plain, "predict_proba")
    with pytest.raises(NotFittedError, match="fitted with probability=False"):
        plain.set_params(probability=True).predict_proba(X)


def test_a_gamma_far_too_large_is_solved_in_float64():
    X, y = load_iris(return_X_y=True)
    theirs, ours = SVC(gamma=1e7).fit(X, y), KernelSVC(gamma=1e7).fit(X, y)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    assert (ours.gap_ < 1e-5 * ours.objective_).all()


def test_weights_are_factors_of_C(moons):
    X, y = moons
    weights = np.where(y == 1, 4.0, 1.0)
    by_sample = KernelSVC(gamma=1.0, C=0.5).fit(X, y, sample_weight=weights)
    by_class = KernelSVC(gamma=1.0, C=0.5, class_weight={1: 4.0}).fit(X, y)
    assert by_sample.objective_ == by_class.objective_  # the same numbers in the same process
    assert abs(by_class.dual_coef_).max() == 2.0
    assert (by_class.dual_coef_ < 0).any() and by_class.dual_coef_.min() >= -0.5
    balanced = KernelSVC(gamma=1.0, class_weight="balanced").fit(X[:400], y[:400])
    theirs = SVC(gamma=1.0, class_weight="balanced").fit(X[:400], y[:400])
    np.testing.assert_allclose(
        balanced.decision_function(X), theirs.decision_function(X), atol=5e-3
    )
    with pytest.raises(ValueError, match="zero or negative weights"):
        KernelSVC().fit(X, y, sample_weight=-weights)
    some = KernelSVC(gamma=1.0).fit(X, y, sample_weight=np.where(np.arange(600) < 300, 1.0, -1.0))
    assert some.support_.max() < 300
    with pytest.raises(ValueError, match="positive weights belong to the same class"):
        KernelSVC().fit(X, y, sample_weight=(y == 1).astype(float))
    with pytest.raises(ValueError, match="only samples of weight zero"):
        KernelSVC().fit(X[:90], np.arange(90) % 3, sample_weight=(np.arange(90) % 3 > 0) * 1.0)


def test_the_libraries_of_the_process_are_searched_once(moons, monkeypatch):
    """This takes longer than a small fit."""
    KernelSVC().fit(*moons)
    monkeypatch.setattr("threadpoolctl.ThreadpoolController._load_libraries", None)
    KernelSVC().fit(*moons)


def test_warm_start_saves_steps():
    X, y = make_moons(1000, noise=0.3, random_state=0)
    cold = KernelSVC(C=10.0).fit(X, y)
    warm = KernelSVC(C=9.0, warm_start=True).fit(X, y).set_params(C=10.0).fit(X, y)
    for kind in ("smo.step", "kernel.row"):
        assert warm.n_calls_[kind] < cold.n_calls_[kind]
    again = clone(warm).set_params(tol=1e-4).fit(X, y).set_params(tol=1e-3).fit(X, y)
    rounding = X.shape[0] * np.finfo(float).eps * cold.objective_  # of a sum of so many losses
    assert again.n_calls_["smo.step"] == 0
    assert again.objective_ - again.gap_ <= cold.objective_ + rounding
    assert abs(warm.objective_ - cold.objective_) <= warm.gap_ + cold.gap_ + 1e-9
    warm.fit(X[:100], y[:100])  # another size: from scratch


def test_limit_of_steps_warns_and_still_certifies():
    X, y = make_moons(1000, noise=0.3, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"max_iter=50\).*gap_"):
        model = KernelSVC(C=100.0, max_iter=50).fit(X, y)
    assert model.n_iter_ == model.n_calls_["smo.step"] == 50 and model.fit_status_ == 1
    best = KernelSVC(C=100.0).fit(X, y)
    rounding = X.shape[0] * np.finfo(float).eps * best.objective_
    assert model.objective_ - model.gap_ <= best.objective_ + rounding
    assert best.objective_ <= model.objective_ + rounding


def test_progress(moons, capsys):
    KernelSVC(verbose=True).fit(*moons)
    assert "KernelSVC, 0 or 1: block 0: violation 2" in capsys.readouterr().err


# Paper: kernel SVM
@pytest.mark.parametrize("mu", [0.1, 0.01])
def test_smoothed_hinge_against_scipy(moons, mu):
    X, y = moons[0][:120], 2.0 * moons[1][:120] - 1.0
    model = KernelSVC(C=2.0, gamma=1.0, loss="smoothed_hinge", mu=mu, tol=1e-5).fit(X, y)
    K = rbf_kernel(X, gamma=1.0)
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0))  # K = root root'

    def objective(x):
        t = y * (root @ x[:-1] + x[-1])
        loss = mu * np.logaddexp(0, (1 - t) / mu)
        slope = -y / (1 + np.exp(np.minimum((t - 1) / mu, 700.0)))
        gradient = np.append(x[:-1] + 2 * root.T @ slope, 2 * slope.sum())
        return 0.5 * x[:-1] @ x[:-1] + 2 * loss.sum(), gradient

    best = minimize(objective, np.zeros(121), jac=True, method="L-BFGS-B",
                    options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-8}).fun  # fmt: skip
    assert best - 1e-6 * best <= model.objective_ <= best * (1 + 1e-6)
    assert 0 <= model.gap_ <= 1e-3 * best and model.objective_ - model.gap_ <= best
    # One product a gradient; one for the tolerance and three to see that the terms are those of K.
    calls = model.n_calls_
    assert calls["kernel.product"] == calls["g.grad"] + 4 and calls["kernel.row"] == 120
    assert calls["h.grad"] == calls["g.grad"] > model.n_iter_[0] and calls["g.component"] == 0


def test_solvers_of_the_smoothed_hinge_reach_the_same_optimum(moons):
    X, y = moons[0][:200], moons[1][:200]
    options = {"C": 1.0, "gamma": 1.0, "loss": "smoothed_hinge", "mu": 0.1, "tol": 1e-6}
    models = [KernelSVC(solver=name, **options).fit(X, y) for name in SOLVERS["smoothed_hinge"]]
    values = [model.objective_ for model in models]
    assert max(values) <= min(values) * (1 + 1e-8)
    assert all(-1e-10 <= model.gap_ <= 1e-4 * values[0] for model in models)
    for model in models[1:]:
        np.testing.assert_allclose(
            model.decision_function(X), models[0].decision_function(X), atol=1e-3
        )
    lbfgs, sae, katyusha = (model.n_calls_ for model in models)
    # SAE asks the penalty a few times an iteration, whatever its inner method asks the losses.
    assert sae["h.grad"] <= 3 * models[1].n_iter_[0] + 1 < sae["g.grad"]
    assert sae["kernel.product"] == sae["g.grad"] + 4
    assert katyusha["g.component"] > 200 and katyusha["kernel.product"] == 1  # for the tolerance
    assert lbfgs["g.component"] == 0


def test_weights_in_the_smoothed_problem(moons):
    X, y = moons[0][:100], moons[1][:100]
    weights = np.where(np.arange(100) < 50, 2.0, 1.0)
    options = {"gamma": 1.0, "loss": "smoothed_hinge", "tol": 1e-6}
    twice = np.concatenate([np.arange(100), np.arange(50)])
    doubled = KernelSVC(**options).fit(X[twice], y[twice])
    for solver in ("lbfgs", "sae"):
        model = KernelSVC(solver=solver, **options).fit(X, y, sample_weight=weights)
        assert model.objective_ == pytest.approx(doubled.objective_, rel=1e-8)
    with pytest.raises(ValueError, match="equal weight"):
        KernelSVC(solver="katyusha", **options).fit(X, y, sample_weight=weights)


def test_katyusha_says_what_to_do_where_K_does_not_fit(moons):
    with pytest.raises(ValueError, match=r"6 MB; raise memory_limit or use solver='sae'"):
        KernelSVC(loss="smoothed_hinge", solver="katyusha", memory_limit=5.0).fit(*moons)
    model = KernelSVC(loss="smoothed_hinge", memory_limit=1.0).fit(*moons)
    whole = KernelSVC(loss="smoothed_hinge").fit(*moons)
    assert model.objective_ == pytest.approx(whole.objective_, rel=1e-7)
    assert model.n_calls_["kernel.row"] > 600 == whole.n_calls_["kernel.row"]


def test_solvers_by_name(moons, monkeypatch):
    X, y = moons
    with pytest.raises(ValueError, match="'smo' or 'auto'"):
        KernelSVC(solver="lbfgs").fit(X, y)
    seen = []
    own = {"mine": lambda problem: seen.append(problem) or SOLVERS["hinge"]["smo"](problem)}
    monkeypatch.setitem(SOLVERS, "hinge", {**SOLVERS["hinge"], **own})
    KernelSVC(solver="mine").fit(X, y)
    assert len(seen) == 1


def test_objective_is_computed_from_the_model_alone(moons):
    X, y = moons
    model = KernelSVC(C=0.5).fit(X, y)
    assert model._objectives == [None]  # most support vectors are at their bounds
    signs = 2.0 * y - 1.0
    f = model.decision_function(X)
    w = model.dual_coef_[0] @ (f - model.intercept_)[model.support_]
    primal = 0.5 * w + 0.5 * np.maximum(0, 1 - signs * f).sum()
    again = pickle.loads(pickle.dumps(model))
    assert again.objective_ == model.objective_ == pytest.approx(primal, rel=1e-12)
    assert model._objectives == [model.objective_]
