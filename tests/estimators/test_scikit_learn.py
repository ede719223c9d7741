"""All estimators behave as scikit-learn expects."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

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


def test_pipeline_and_grid_search():
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), KernelSVC())
    search = GridSearchCV(model, {"kernelsvc__C": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.96
    prior = GridSearchCV(LogDensity(), {"prior": [1.0, 1e2]}, cv=2).fit(X[:, :1])
    assert np.isfinite(prior.best_score_)
