"""Bayesian log-density estimation on a finite support."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from sklearn.base import BaseEstimator, DensityMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from geartrain.estimators.arrays import Array, sample_weights
from geartrain.estimators.density.basis import Basis, Cells, interval, make_basis
from geartrain.estimators.density.fit import DensityFit, fit_density
from geartrain.oracles.validation import as_matrix, as_vector

# Strengths tried by prior="auto", from strong to weak, in units where the traces of the prior
# and of the likelihood are equal. The path ends when the score has fallen PATIENCE times.
STRENGTHS = np.logspace(10, -6, 17)
MOST = 1e200  # sum of counts or weights: strengths, which are in proportion to it, do not overflow
FINER = 10.0 ** np.array([2 / 3, 1 / 3, -1 / 3, -2 / 3])
PATIENCE = 3


# Paper: log-density
class LogDensity(DensityMixin, BaseEstimator):
    r"""One-dimensional density on a finite support, with a Gaussian prior on its logarithm.

    The model is ln f(z) = sum_i x_i a_i(z) - c(x) with a Gaussian prior on x.

    Minimises m c(x) - sum_k <a(z_k), x> + 1/2 \|G x\|^2 over x, where z_1, ..., z_m are the
    observations and c(x) = ln sum_z exp(<a(z), x>) runs over the support: the maximum of the
    posterior, problem (bayes) of the paper.

    The estimator is one-dimensional. Of several features it estimates every density by itself, and
    the joint density is their product: dependence between features is not modelled. For features
    that depend on each other, a kernel density estimate is the better choice.

    Parameters
    ----------
    basis : {"bspline", "fourier", "indicator"} or matrix (p, n)
        The functions a_i on the support; a matrix, dense or sparse, holds a(z) in the row of z.
        With a matrix the support is 0, ..., p - 1.
    n_basis : int
        Number of functions for "bspline" and "fourier".
    prior : "auto" or float
        Strength of the prior: G^2 is this times `precision`. "auto" takes the strength of the
        largest likelihood left out: every observation is judged by the fit without it, which one
        Newton step gives.
    precision : "roughness", "ridge", array (n,) or matrix (n, n)
        Shape of G^2. "roughness" punishes the third derivative of ln f, so a strong prior gives
        a Gaussian; for a basis given as a matrix it is the same as "ridge".
    n_support : int
        Number of cells into which the range of a feature is cut. Not used with counts.
    padding : float
        The support reaches beyond the smallest and largest sample by this share of the range.
    tol : float
        Gradient norm at which a fit ends, relative to that at zero. Where rounding errors end it
        earlier, it warns only if it is farther from the mode than a thousandth of the posterior's
        standard deviation.

    Attributes
    ----------
    coef_ : list of arrays
        The coefficients x, one array per feature.
    prior_ : array (n_features,)
        Strength of the prior that was used.
    support_ : list of arrays
        Points of the support, one array per feature.
    n_calls_ : dict
        Calls of every oracle over all fits: "h.grad" of c, "g.grad" of the prior, ...
    n_features_in_ : int
    feature_names_in_ : array (n_features,)

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> z = np.random.default_rng(0).normal(size=(500, 1))
    >>> model = gt.estimators.LogDensity().fit(z)
    >>> low, high = model.credible_band([[0.0]])
    >>> bool(low[0] < -0.5 * np.log(2 * np.pi) < high[0])
    True
    >>> counts = np.array([3, 0, 5, 9, 6, 1])
    >>> gt.estimators.LogDensity(basis="indicator", prior=1.0).fit(counts).log_density().shape
    (6,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "basis": [StrOptions({"bspline", "fourier", "indicator"}), "array-like", "sparse matrix"],
        "n_basis": [Interval(Integral, 4, None, closed="left")],
        "prior": [StrOptions({"auto"}), Interval(Real, 0.0, None, closed="neither")],
        "precision": [StrOptions({"roughness", "ridge"}), "array-like", "sparse matrix"],
        "n_support": [Interval(Integral, 8, None, closed="left")],
        "padding": [Interval(Real, 0.0, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(
        self,
        basis: Any = "bspline",
        *,
        n_basis: int = 40,
        prior: str | float = "auto",
        precision: Any = "roughness",
        n_support: int = 512,
        padding: float = 0.25,
        tol: float = 1e-7,
    ) -> None:
        self.basis = basis
        self.n_basis = n_basis
        self.prior = prior
        self.precision = precision
        self.n_support = n_support
        self.padding = padding
        self.tol = tol

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LogDensity:
        """Fit the density.

        Parameters
        ----------
        X : array (n_samples, n_features) or counts (p,)
            Two dimensions: samples. One dimension: counts of the points 0, ..., p - 1.
        y : None
            Not used.
        sample_weight : array (n_samples,), optional
            How often a sample counts.

        Returns
        -------
        LogDensity
            The model itself.
        """
        if not sparse.issparse(X) and np.asarray(X).ndim == 1:
            if sample_weight is not None:
                raise ValueError("counts take no sample_weight: multiply them")
            supports = [self._counts(X)]
            self.n_features_in_ = 1
        else:
            X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
            weights = sample_weights(sample_weight, X)
            if not weights.any():
                raise ValueError("all samples have weight zero")
            supports = [self._samples(column[weights > 0], weights[weights > 0]) for column in X.T]
        self._features = [self._one_density(cells, counts) for cells, counts in supports]
        self.coef_ = [feature.fit.x for feature in self._features]
        self.prior_ = np.array([feature.strength for feature in self._features])
        self.support_ = [feature.cells.points for feature in self._features]
        self.n_calls_ = {
            kind: sum(feature.calls[kind] for feature in self._features)
            for kind in self._features[0].calls
        }
        failed = [f.fit.message for f in self._features if not f.fit.success]
        if failed:
            warnings.warn(f"LogDensity: {failed[0]}", ConvergenceWarning, stacklevel=2)
        return self

    def _counts(self, X: Any) -> tuple[Cells, Array]:
        """The support 0, ..., p - 1 and the counts on it."""
        counts = as_vector(X, "counts")
        if (counts < 0).any() or (counts != np.round(counts)).any():
            raise ValueError(
                "one-dimensional input is taken as counts, which must be whole numbers of at "
                "least 0; Reshape your data with X.reshape(-1, 1) if these are samples"
            )
        if counts.size < 2 or not counts.any():
            raise ValueError("counts need at least two points, and one count above 0")
        return Cells(0.0, counts.size - 1.0, counts.size, discrete=True), counts

    def _samples(self, z: Array, weights: Array) -> tuple[Cells, Array]:
        """A support that holds the samples, and how many fall into each of its cells."""
        if isinstance(self.basis, str):
            cells = interval(z, self.n_support, self.padding)
        else:
            p = np.shape(self.basis)[0]
            cells = Cells(0.0, p - 1.0, p, discrete=True)
            if not cells.inside(z).all():
                raise ValueError(
                    f"with a basis of {p} rows the samples are indices 0, ..., {p - 1}"
                )
        return cells, np.bincount(cells.cell(z), weights, minlength=cells.p)

    def _one_density(self, cells: Cells, counts: Array) -> _Feature:
        """Fit one feature; with prior="auto" for a path of strengths, strong to weak."""
        if not counts.sum() <= MOST:
            raise ValueError(f"the counts or weights are too large: their sum exceeds {MOST:g}")
        basis = make_basis(self.basis, self.n_basis, cells.p)
        A = basis.rows(cells, cells.points)
        shape = self._shape(basis)
        if self.prior != "auto":
            fit = fit_density(A, counts, float(self.prior) * shape, self.tol, None)
            return _Feature(cells, basis, fit, float(self.prior), Counter(fit.calls))
        calls: Counter[str] = Counter()
        best: tuple[float, float, DensityFit] | None = None
        guess = None
        falls = 0
        unit = _balance(A, counts, shape)
        for strength in unit * STRENGTHS:
            fit = fit_density(A, counts, strength * shape, self.tol, guess)
            calls.update(fit.calls)
            guess = np.exp(fit.log_pi)
            score = fit.leave_one_out()
            falls = falls + 1 if best is not None and score < best[0] - 1e-3 else 0
            if best is None or score > best[0]:
                best = score, float(strength), fit
            if falls == PATIENCE:
                break
        assert best is not None  # the path is not empty
        for strength in best[1] * FINER:
            fit = fit_density(A, counts, strength * shape, self.tol, np.exp(best[2].log_pi))
            calls.update(fit.calls)
            score = fit.leave_one_out()
            if score > best[0]:
                best = score, float(strength), fit
        return _Feature(cells, basis, best[2], best[1], calls)

    def _shape(self, basis: Basis) -> Any:
        """The matrix `precision`, dense or CSR."""
        n = basis.n
        if isinstance(self.precision, str):
            return basis.roughness() if self.precision == "roughness" else sparse.eye_array(n)
        if np.ndim(self.precision) == 1 and not sparse.issparse(self.precision):
            diagonal = as_vector(self.precision, "precision", n)
            if (diagonal <= 0).any():
                raise ValueError("precision as a diagonal must be positive")
            return sparse.diags_array(diagonal, format="csr")
        matrix = as_matrix(self.precision, "precision")
        if matrix.shape != (n, n):
            raise ValueError(f"precision must be {n} x {n}, got {matrix.shape}")
        return matrix

    def log_density(self, X: Any = None) -> Array:
        """Logarithm of the density; minus infinity outside of the support.

        Parameters
        ----------
        X : array (n_samples, n_features), optional
            Where; all points of the support of a single feature if not given.

        Returns
        -------
        array (n_samples,)
            With respect to length for samples, to counting for counts.
        """
        total: Array = np.zeros(())
        for feature, z in self._columns(X):
            total = total + feature.log_density(z)
        return total

    score_samples = log_density

    def score(self, X: Any, y: Any = None) -> float:
        """Log-likelihood of samples, or of counts if X has one dimension.

        Parameters
        ----------
        X : array (n_samples, n_features) or counts (p,)
            As in `fit`.
        y : None
            Not used.

        Returns
        -------
        float
            The sum over the observations, as `sklearn.neighbors.KernelDensity.score` has it.
        """
        if np.asarray(X).ndim == 1:
            check_is_fitted(self)
            return float(self._counts(X)[1] @ self.log_density())
        return float(self.log_density(X).sum())

    def credible_band(self, X: Any = None, level: float = 0.95) -> tuple[Array, Array]:
        """Pointwise credible band of the log-density from the Laplace approximation.

        The posterior of x is about N(x, H^{-1}) (Bernstein-von Mises), so ln f(z) is about normal
        with variance u'H^{-1}u, u = a(z) - grad c(x).

        Parameters
        ----------
        X : array (n_samples, n_features), optional
            As in `log_density`.
        level : float
            Posterior probability of the band at a point.

        Returns
        -------
        low, high : arrays (n_samples,)
            Bounds of ln f.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, got {level}")
        centre: Array = np.zeros(())
        variance: Array = np.zeros(())
        for feature, z in self._columns(X):
            centre = centre + feature.log_density(z)
            rows = feature.basis.rows(
                feature.cells, np.clip(z, feature.cells.low, feature.cells.high)
            )
            variance = variance + feature.fit.variance(rows)
        half = ndtri(0.5 + 0.5 * level) * np.sqrt(variance)
        return centre - half, centre + half

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw from the density.

        Parameters
        ----------
        n_samples : int
            How many.
        random_state : int, RandomState or None
            Of the draws.

        Returns
        -------
        array (n_samples, n_features)
            Uniform within a cell of the support.
        """
        check_is_fitted(self)
        rng = check_random_state(random_state)
        columns = []
        for feature in self._features:
            cells = feature.cells
            z = cells.points[rng.choice(cells.p, n_samples, p=np.exp(feature.fit.log_pi))]
            if not cells.discrete:
                z = z + cells.width * (rng.uniform(size=n_samples) - 0.5)
            columns.append(z)
        return np.column_stack(columns)

    def _columns(self, X: Any) -> list[tuple[_Feature, Array]]:
        check_is_fitted(self)
        if X is None:
            if len(self._features) > 1:
                raise ValueError("X is needed: there is more than one feature")
            return [(self._features[0], self._features[0].cells.points)]
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return list(zip(self._features, X.T, strict=True))


@dataclass(frozen=True)
class _Feature:
    """The fitted density of one feature."""

    cells: Cells
    basis: Basis
    fit: DensityFit
    strength: float
    calls: Counter[str]

    def log_density(self, z: Array) -> Array:
        """At the points z."""
        inside = self.cells.inside(z)
        out = np.full(z.size, -np.inf)
        if inside.any():
            scores = self.fit.A @ self.fit.x
            normaliser = float((scores - self.fit.log_pi)[0]) + np.log(self.cells.width)
            out[inside] = self.basis.rows(self.cells, z[inside]) @ self.fit.x - normaliser
        return out


def _balance(A: Any, counts: Array, shape: Any) -> float:
    """The strength at which the prior's trace is that of the likelihood's Hessian."""
    m, p = counts.sum(), counts.size
    pi = (counts + 1.0) / (m + p)
    squares = A.multiply(A) if sparse.issparse(A) else A * A
    return float(m * (squares.T @ pi - (A.T @ pi) ** 2).sum() / shape.diagonal().sum())
