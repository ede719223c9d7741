"""Bayesian log-density estimation relative to a base density with heavy tails."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from sklearn.base import BaseEstimator, DensityMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from geartrain.compiled.records import Array
from geartrain.estimators.density.base import Base, Indices, Units, candidates, prepared, quantiles
from geartrain.estimators.density.fit import DensityFit, cosines, fit_density
from geartrain.oracles.validation import as_vector

STRENGTHS = 10.0 ** np.arange(3, -5, -1)  # tried by prior="auto", from strong to weak
FINER = 10.0**0.5, 10.0**-0.5  # times the best of these
WORSE = 0.3  # nats per observation by which the second base may be worse than the first
POINTS, LEAST = 16, 1024  # of the support: per basis function, and at least
MOST = 1e200  # sum of counts or weights
ENOUGH = (
    1e8  # observations, as which more are taken: f has 16 digits, its mode 1e-8 sqrt(m) deviations
)
BINS = 40  # of the histogram of `plot`


# Paper: log-density
class LogDensity(DensityMixin, BaseEstimator):
    r"""Density of one variable, with a Gaussian prior on its logarithm.

    The density is f(z) = q0(z) d(F0(z)). The base q0, with distribution function F0, is a Student t
    whose scale and degrees of freedom differ on both sides of its mode, fitted first. The factor d
    on [0, 1] is ln d(u) = sum_i x_i a_i(u) - c(x) with a_i(u) = sqrt(2) cos(pi i u). It is bounded
    from both sides, so that f falls like q0 where there are no data, and is never zero.

    Minimises m c(x) - sum_k <a(F0(z_k)), x> + prior/2 sum_i i^3 x_i^2 over x, where z_1, ..., z_m
    are the observations and c(x) = ln(1/p sum_u exp(<a(u), x>)) runs over p midpoints of [0, 1]:
    the maximum of the posterior, problem (bayes) of the paper.

    Where there are two or more clusters, a base fitted to them is narrow. A wide one, with the
    mean and the standard deviation of the data, is tried, too, and the larger evidence decides.

    Counts on a finite support 0, ..., p - 1 are the same problem with F0(k) = (k + 1/2)/p.

    Parameters
    ----------
    n_basis : int
        Number of functions a_i; one less than the number of counts at most.
    prior : "auto" or float
        Strength of the prior. "auto" takes the one of the largest evidence, which is the mean of
        the likelihood over the prior, by Laplace's method.
    tol : float
        Gradient norm at which a fit ends, relative to that at its start. Where rounding errors end
        it earlier, it warns only if it is farther from the mode than a thousandth of the
        posterior's standard deviation.

    Attributes
    ----------
    coef_ : array (n_basis,)
        The coefficients x.
    prior_ : float
        Strength of the prior that was used.
    evidence_ : float
        Logarithm of the evidence with that of the base, which pays ln(m)/2 for every parameter.
    support_ : array (p,)
        Points z of the support: quantiles of the base, or the indices of counts.
    n_calls_ : dict
        Calls of every oracle over all fits: "h.grad" of c, "g.grad" of the prior, ...
    n_features_in_ : int
    feature_names_in_ : array (1,)

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> z = np.random.default_rng(0).normal(size=(500, 1))
    >>> model = gt.estimators.LogDensity().fit(z)
    >>> low, high = model.credible_band([[0.0]])
    >>> bool(low[0] < -0.5 * np.log(2 * np.pi) < high[0])
    True
    >>> counts = np.array([3, 0, 5, 9, 6, 1])
    >>> float(np.exp(gt.estimators.LogDensity().fit(counts).log_density()).sum().round(9))
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_basis": [Interval(Integral, 1, None, closed="left")],
        "prior": [StrOptions({"auto"}), Interval(Real, 0.0, None, closed="neither")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(self, n_basis: int = 64, *, prior: Any = "auto", tol: float = 1e-7) -> None:
        self.n_basis = n_basis
        self.prior = prior
        self.tol = tol

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LogDensity:
        """Fit the density.

        Parameters
        ----------
        X : array (n_samples, 1) or counts (p,)
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
            w = _counts(X)
            p, n = w.size, min(self.n_basis, w.size - 1)
            units, values, edges = Units(), np.arange(float(p)), np.arange(p + 1) - 0.5
            bases: list[Base] = [Indices(p)]
            self.n_features_in_ = 1
        else:
            X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
            if X.shape[1] > 1:
                raise ValueError(
                    f"LogDensity is for one column, got {X.shape[1]}: fit one model per column, "
                    "X[:, [j]], if the columns are independent; if they are not, use "
                    "sklearn.neighbors.KernelDensity"
                )
            w = _at_most(_check_sample_weight(sample_weight, X))
            if (w < 0.0).any():
                raise ValueError("Negative values in data passed to `sample_weight`")
            if not w.any():
                raise ValueError("all samples have weight zero")
            units, values, w = prepared(X[w > 0, 0], w[w > 0])
            p, n = max(POINTS * self.n_basis, LEAST), self.n_basis
            low, high = quantiles(values, w, [0.005, 0.995])
            edges = np.linspace(low, high, BINS + 1)
            bases = candidates(values, w)
        middles = (np.arange(p) + 0.5) / p
        self._units, self._base = units, self._best(values, w, bases, cosines(middles, n))
        self.support_ = units.original(self._base.ppf(middles))
        shares = np.histogram(values, edges, weights=w / w.sum())[0]
        self._histogram = shares, units.original(edges)
        if not self._fit.success:
            warnings.warn(f"LogDensity: {self._fit.message}", ConvergenceWarning, stacklevel=2)
        return self

    def _best(self, values: Array, w: Array, bases: list[Base], A: Array) -> Base:
        """The base of the largest evidence; every fit starts from the one before."""
        share, m, n = w / w.sum(), min(float(w.sum()), ENOUGH), A.shape[1]
        strengths = STRENGTHS if self.prior == "auto" else [float(self.prior)]
        found: list[tuple[float, Base, DensityFit]] = []
        likelihoods = [m * float(share @ base.log_density(values)) for base in bases]
        for base, likelihood in zip(bases, likelihoods, strict=True):
            if likelihood < likelihoods[0] - WORSE * m:
                continue  # skew or outliers: d would have to be a spike
            own = likelihood - 0.5 * base.parameters * np.log(max(m, 1.0))
            angles = np.pi * base.cdf(values)
            mean = np.array([np.sqrt(2.0) * (share @ np.cos(i * angles)) for i in range(1, n + 1)])
            x = np.zeros(n)
            for strength in strengths:
                fit = fit_density(A, mean, m, float(strength), x, self.tol)
                found.append((own + fit.log_evidence, base, fit))
                x = fit.x
        best = max(found, key=itemgetter(0))
        for factor in FINER if self.prior == "auto" else ():
            start = best[2]
            fit = fit_density(A, start.mean, m, start.strength * factor, start.x, self.tol)
            found.append((best[0] - start.log_evidence + fit.log_evidence, best[1], fit))
        self.evidence_, base, self._fit = max(found, key=itemgetter(0))
        self.coef_, self.prior_ = self._fit.x, self._fit.strength
        self.n_calls_ = {kind: sum(f.calls[kind] for _, _, f in found) for kind in self._fit.calls}
        return base

    def log_density(self, X: Any = None) -> Array:
        """Logarithm of the density; after a fit to counts minus infinity where no count can be.

        Parameters
        ----------
        X : array (n_samples, 1), optional
            Where; all points of the support if not given.

        Returns
        -------
        array (n_samples,)
            With respect to length for samples, to counting for counts.
        """
        return self._log_density(self._column(X))

    score_samples = log_density

    def _log_density(self, z: Array) -> Array:
        return self._log_base(z) + self._fit.log_density(self._base.cdf(self._units.standard(z)))

    def _log_base(self, z: Array) -> Array:
        return self._base.log_density(self._units.standard(z)) - self._units.log_scale

    def score(self, X: Any, y: Any = None) -> float:
        """Log-likelihood of samples, or of counts if X has one dimension.

        Parameters
        ----------
        X : array (n_samples, 1) or counts (p,)
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
            counts = _counts(X)
            seen = np.flatnonzero(counts)
            return float(counts[seen] @ self._log_density(seen.astype(np.float64)))
        return float(self.log_density(X).sum())

    def credible_band(self, X: Any = None, level: float = 0.95) -> tuple[Array, Array]:
        """Pointwise credible band of the log-density from the Laplace approximation.

        The posterior of x is about N(x, H^{-1}) (Bernstein-von Mises), so ln f(z) is about normal
        with variance v'H^{-1}v, v = a(F0(z)) - grad c(x), for a given base. That of ln q0(z) by the
        posterior of the base is added.

        Parameters
        ----------
        X : array (n_samples, 1), optional
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
        z = self._column(X)
        centre, y = self._log_density(z), self._units.standard(z)
        variance = self._fit.variance(self._base.cdf(y)) + self._base.variance(y)
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
        array (n_samples, 1)
            F0(z) is uniform within each of p cells of [0, 1].
        """
        check_is_fitted(self)
        rng = check_random_state(random_state)
        pi = self._fit.pi
        cells = rng.choice(pi.size, n_samples, p=pi / pi.sum())
        u = (cells + rng.uniform(size=n_samples)) / pi.size
        return self._units.original(self._base.ppf(u))[:, None]

    def plot(self, ax: Any = None) -> Any:
        """Draw the density, the base, and a histogram of the data.

        Parameters
        ----------
        ax : matplotlib axes, optional
            New ones if not given.

        Returns
        -------
        matplotlib axes
            With the drawing in them.
        """
        check_is_fitted(self)
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("plot needs matplotlib: pip install geartrain[plot]") from error
        if ax is None:
            ax = plt.subplots(layout="constrained")[1]
        shares, edges = self._histogram
        margin = 0.1 * (edges[-1] - edges[0])
        line = np.linspace(edges[0] - margin, edges[-1] + margin, 400)
        z = self.support_ if isinstance(self._base, Indices) else line
        ax.stairs(shares / np.diff(edges), edges, fill=True, color="#DDDDDD", label="data")
        ax.plot(z, np.exp(self._log_base(z)), color="#888888", ls="--", label="base")
        ax.plot(z, np.exp(self._log_density(z)), color="#009E73", label="density")
        ax.set(xlabel=getattr(self, "feature_names_in_", ["z"])[0], ylabel="density")
        ax.legend(frameon=False)
        return ax

    def _column(self, X: Any) -> Array:
        check_is_fitted(self)
        if X is None:
            return self.support_
        return validate_data(self, X, reset=False, dtype=np.float64)[:, 0]


def _counts(X: Any) -> Array:
    """Counts of the points 0, ..., p - 1."""
    counts = as_vector(X, "counts")
    if (counts < 0).any() or (counts != np.round(counts)).any():
        raise ValueError(
            "one-dimensional input is taken as counts, which must be whole numbers of at "
            "least 0; Reshape your data with X.reshape(-1, 1) if these are samples"
        )
    if counts.size < 2 or not counts.any():
        raise ValueError("counts need at least two points, and one count above 0")
    return _at_most(counts)


@np.errstate(over="ignore")
def _at_most(weights: Array) -> Array:
    if not weights.sum() <= MOST:
        raise ValueError(f"the counts or weights are too large: their sum exceeds {MOST:g}")
    return weights
