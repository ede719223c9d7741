"""All estimators behave as scikit-learn expects."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

import geartrain as gt
from geartrain.estimators import KernelSVC, KernelSVR, LogDensity
from geartrain.estimators.density import log_density


@pytest.mark.outside  # the checks of scikit-learn, with its tolerances
@pytest.mark.same_everywhere
# scikit-learn skips a check with a SkipTestWarning where it needs SCIPY_ARRAY_API.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([KernelSVC(), KernelSVR(), LogDensity(n_basis=6, prior=1.0)])
def test_check_estimator(estimator, check, monkeypatch):
    # The checks come with several columns, which LogDensity refuses: it gets the first of them.
    monkeypatch.setattr(log_density, "validate_data", lambda *a, **k: validate_data(*a, **k)[:, :1])
    check(estimator)


def test_reached_through_the_package():
    assert gt.estimators.KernelSVC is KernelSVC
    assert "estimators" in dir(gt)
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = gt.nothing_of_this_name


def test_pipeline_and_grid_search():
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), KernelSVC())
    search = GridSearchCV(model, {"kernelsvc__C": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.96
    prior = GridSearchCV(LogDensity(), {"prior": [1.0, 1e2]}, cv=2).fit(X[:, :1])
    assert np.isfinite(prior.best_score_)


@pytest.mark.parametrize("model", [KernelSVC(C=2.0, gamma=0.1), LogDensity(prior=1.0)])
def test_clone_pickle_and_set_params(model):
    X, y = load_iris(return_X_y=True)
    copy = clone(model).set_params(tol=1e-4)
    assert copy.get_params()["tol"] == 1e-4 and model.tol != 1e-4
    X = X[:, :1] if isinstance(model, LogDensity) else X
    copy.fit(X, y)
    again = pickle.loads(pickle.dumps(copy))
    assert again.score(X, y) == copy.score(X, y)


def test_pandas_feature_names():
    frame = load_iris(as_frame=True)
    model = KernelSVC().fit(frame.data, frame.target)
    assert list(model.feature_names_in_) == list(frame.data.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.data.rename(columns={frame.data.columns[0]: "other"}))
    density = LogDensity().fit(pd.DataFrame({"petal": frame.data.iloc[:, 2]}))
    assert list(density.feature_names_in_) == ["petal"]
