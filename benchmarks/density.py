"""Log-likelihood of held-out points: LogDensity against kernel density estimates.

Generated samples have 500 points to fit and 5,000 to judge, with ten seeds; data sets are cut into
5 folds by four of them. "Scott" is a Gaussian kernel with the bandwidth of Scott's rule, "cv" one
with the bandwidth of the largest likelihood in 5-fold cross-validation within the points to fit.
Columns are nats per held-out point, means over samples or folds; "margin" is LogDensity less the
better of the two kernels, "error" its standard error as if folds were independent, "least" the
smallest log-density of a held-out point by LogDensity, "seconds" its processor time.

Files are read from the folder that GEARTRAIN_DATA names: galaxies.csv (velocities of 82 galaxies;
Roeder, 1990), faithful.csv (Old Faithful; Azzalini and Bowman, 1990), magic04.data (every tenth row
of UCI 159). No constant was changed after a look at these seeds.

    python benchmarks/density.py [--quick] [--seed 900]
"""

from __future__ import annotations

import argparse
import warnings
from time import process_time

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KernelDensity

from geartrain import datasets
from geartrain.estimators import LogDensity

FIT, JUDGE = 500, 5000


def mixture(*parts):
    """Draw from normal distributions, each a (weight, mean, standard deviation)."""
    shares, means, deviations = np.array(parts).T

    def draw(rng, m):
        of = rng.choice(len(parts), m, p=shares / shares.sum())
        return rng.normal(means[of], deviations[of])

    return draw


GENERATED = {
    "normal": lambda rng, m: rng.normal(size=m),
    "two normals": mixture((1, -3, 0.5), (1, 2, 1)),
    "claw": mixture((5, 0, 1), *((1, j / 2 - 1, 0.1) for j in range(5))),
    "exponential": lambda rng, m: rng.exponential(size=m),
    "gamma(2)": lambda rng, m: rng.gamma(2.0, size=m),
    "lognormal": lambda rng, m: rng.lognormal(size=m),
    "t3": lambda rng, m: rng.standard_t(3, size=m),
    "uniform": lambda rng, m: rng.random(m),
    "beta(2, 5)": lambda rng, m: rng.beta(2.0, 5.0, size=m),
}


def column(file, place, delimiter=",", skip=1):
    """A column of a file in the folder that GEARTRAIN_DATA names."""
    path = datasets.data_file(file)
    return np.loadtxt(path, delimiter=delimiter, skiprows=skip, usecols=place)


def cancer(name):
    """A column of the breast cancer data of scikit-learn."""
    data = load_breast_cancer()
    return data.data[:, list(data.feature_names).index(name)]


MEASURED = {
    "galaxies": lambda: column("galaxies.csv", 1),
    "eruptions": lambda: column("faithful.csv", 1),
    "waiting": lambda: column("faithful.csv", 2),
    "cancer, radius": lambda: cancer("mean radius"),
    "cancer, area error": lambda: cancer("area error"),
    "cancer, concavity": lambda: cancer("mean concavity"),
    "cancer, texture": lambda: cancer("worst texture"),
    "magic04, length": lambda: column("magic04.data", 0, skip=0)[::10],
    "magic04, alpha": lambda: column("magic04.data", 8, skip=0)[::10],
}


def splits(name, seeds):
    """Pairs of points to fit and points to judge."""
    if name in GENERATED:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            yield GENERATED[name](rng, FIT), GENERATED[name](rng, JUDGE)
        return
    z = MEASURED[name]()
    for seed in seeds:
        for fit, judge in KFold(5, shuffle=True, random_state=seed).split(z):
            yield z[fit], z[judge]


def scores(fit, judge):
    """Mean log-density of the points to judge: ours, Scott, cv; our least one and our seconds."""
    fit, judge = fit[:, None], judge[:, None]
    started = process_time()
    model = LogDensity().fit(fit)
    ours, seconds = model.score_samples(judge), process_time() - started
    scott = KernelDensity(bandwidth=fit.std(ddof=1) * len(fit) ** -0.2).fit(fit)
    widths = {"bandwidth": fit.std() * np.logspace(-3, 0.3, 40)}
    with warnings.catch_warnings():  # a width that gives a held-out point the density 0
        warnings.simplefilter("ignore")
        cv = GridSearchCV(KernelDensity(), widths, cv=KFold(5, shuffle=True, random_state=0))
        theirs = [k.score(judge) / len(judge) for k in (scott, cv.fit(fit))]
    return [ours.mean(), *theirs, ours.min(), seconds]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--seed", type=int, default=900, help="the first of the seeds")
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + (1 if args.quick else 10))
    print(f"seeds {seeds[0]} to {seeds[-1]}\n")
    names = ("ours", "Scott", "cv", "margin", "error", "least", "seconds")
    print(f"{'':20}" + "".join(f"{name:>10}" for name in names))
    margins, missing = [], []
    for name in (*GENERATED, *MEASURED):
        few = seeds if name in GENERATED else seeds[:4]
        try:
            rows = np.array([scores(*pair) for pair in splits(name, few)])
        except FileNotFoundError:
            missing.append(name)
            continue
        best = 1 + rows[:, 1:3].mean(axis=0).argmax()
        gain = rows[:, 0] - rows[:, best]
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        margins.append(gain.mean())
        cells = (*rows[:, :3].mean(axis=0), margins[-1], error, rows[:, 3].min())
        row = "".join(f"{cell:10.3f}" for cell in cells)
        print(f"{name:20}{row}{rows[:, 4].mean():10.3f}", flush=True)
    near, low = sum(gain >= -0.05 for gain in margins), min(margins)
    print(f"\nwithin 0.05 of the better kernel or above it: {near} of {len(margins)}")
    print(f"the smallest margin: {low:.3f}")
    if missing:
        print(f"left out, as their files are missing: {'; '.join(missing)}")


if __name__ == "__main__":
    main()
