r"""
Densities with a prior: eruptions and words
===========================================

A density :math:`\ln f(z) = \sum_i x_i a_i(z) - c(x)` with a Gaussian prior on x is the second
problem of the paper (Section 5.2). The normaliser c is the expensive term: a sum over the whole
support. Two supports:

*A line.*
    How long the eruptions of Old Faithful last and how long one waits for the next:
    `geartrain.estimators.LogDensity`, which is relative to a base density with heavy tails, with
    credible bands, against scikit-learn's ``KernelDensity`` with its bandwidth chosen by
    cross-validation.
*A vocabulary.*
    The words of text8, where the functions a_i tell the length of a word, its first letter and its
    last two letters: a sparse matrix with a row for every word, and `geartrain.minimize`.

Both are read from the folder that GEARTRAIN_DATA names (``faithful.csv``,
``text8_word_counts.tsv``). Where a file is missing, data of the same kind is made up.

Run it by ``python examples/log_density.py``; ``--help`` lists the options.
"""

# %%
# Options
# -------
from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KernelDensity

import geartrain as gt
from geartrain import datasets
from geartrain.estimators import LogDensity

Array = NDArray[Any]

parser = argparse.ArgumentParser(description="Densities with a prior: eruptions and words.")
parser.add_argument("--quick", action="store_true", help="2 folds of 5, every fourth word")
parser.add_argument("--out", default="out/examples", help="folder of the picture; '' for none")
args = parser.parse_args()

# %%
# Eruptions
# ---------
# Every fold is judged by models that have not seen it; the bandwidth is chosen within the rest.


def old_faithful() -> tuple[str, Array]:
    """Durations and waiting times; made up where the file is missing."""
    try:
        return "Old Faithful", datasets.load_old_faithful().X
    except FileNotFoundError:
        print("faithful.csv is missing: a sample of two bumps instead")
    rng = np.random.default_rng(0)
    long = rng.random(272) < 0.64
    eruptions = np.where(long, rng.normal(4.3, 0.42, 272), rng.normal(2.0, 0.26, 272))
    waiting = np.where(long, rng.normal(80.0, 6.0, 272), rng.normal(54.5, 6.0, 272))
    return "made-up eruptions", np.column_stack([eruptions, waiting])


def kernel_density(z: Array) -> Any:
    """A kernel density estimate with the bandwidth of the largest likelihood left out."""
    bandwidths = {"bandwidth": z.std() * np.logspace(-2, 0.3, 40)}
    return GridSearchCV(KernelDensity(), bandwidths, cv=5).fit(z).best_estimator_


source, minutes = old_faithful()
folds = list(KFold(5, shuffle=True, random_state=0).split(minutes))
if args.quick:
    folds = folds[:2]
held_out: dict[str, tuple[float, float]] = {}
print(f"{source}: log-likelihood of a held-out observation")
print(f"{'':12s}{'LogDensity':>12s}{'KernelDensity':>15s}")
for name, column in zip(("eruptions", "waiting"), minutes.T, strict=True):
    z = column[:, None]
    total = sum(len(test) for _, test in folds)
    ours = sum(LogDensity().fit(z[train]).score(z[test]) for train, test in folds) / total
    theirs = sum(kernel_density(z[train]).score(z[test]) for train, test in folds) / total
    held_out[name] = ours, theirs
    print(f"{name:12s}{ours:>12.4f}{theirs:>15.4f}")

# %%
# Words
# -----
# The counts are cut in two by a fair coin for every occurrence; the model sees one half. 600
# functions cannot tell 36,000 words apart, and the most frequent words are more frequent than their
# letters say.


def words() -> tuple[str, list[str], Array]:
    """Words and counts; made up where the file is missing."""
    try:
        names, counts = datasets.load_counts()
        return "text8", list(names), counts
    except FileNotFoundError:
        print("text8_word_counts.tsv is missing: made-up words instead")
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    names = sorted({"".join(rng.choice(letters, rng.integers(2, 11))) for _ in range(38_000)})
    # Zipf's law, the ranks in part by length and letters.
    bonus = dict(zip(letters, 0.7 * rng.standard_normal(26), strict=True))
    appeal = [bonus[w[0]] + bonus[w[-1]] - 0.2 * len(w) for w in names] + rng.gumbel(
        size=len(names)
    )
    share = 1.0 / (1.0 + np.argsort(np.argsort(-appeal)))
    return "made-up words", names, rng.multinomial(550_000, share / share.sum())


corpus, vocabulary, counts = words()
if args.quick:
    vocabulary, counts = vocabulary[::4], counts[::4]
features: dict[str, int] = {}
entries = [
    (k, features.setdefault(feature, len(features)))
    for k, word in enumerate(vocabulary)
    for feature in (f"length {min(len(word), 12)}", f"{word[0]}...", f"...{word[-2:]}")
]
rows, columns = np.array(entries).T
A = sparse.csr_array((np.ones(len(entries)), (rows, columns)), (len(vocabulary), len(features)))

seen = np.random.default_rng(1).binomial(counts, 0.5)
unseen = counts - seen
h = gt.LogSumExp(A, A.T @ seen / seen.sum())
g = gt.Quadratic(sparse.eye_array(A.shape[1], format="csr") / seen.sum())
res = gt.minimize(h, g, method="pqn", tol=1e-5)
log_probability = A @ res.x - gt.LogSumExp(A).value(res.x)
per_word = float(unseen @ log_probability) / unseen.sum()
uniform = -float(np.log(len(vocabulary)))
print(
    f"{corpus}: {len(vocabulary):,} words, {len(features)} functions, "
    f"{res.calls['h.grad']} gradients of c"
)
print(f"log-likelihood of an unseen occurrence: {per_word:.4f}, all words alike: {uniform:.4f}")

# %%
# The picture
# -----------
# Left: the band is that of ln f at every point. Right: words in groups of equal total probability,
# from improbable to probable: the share of the unseen half that falls to a word of the group,
# against what the model expects. Points below the line are words that share their letters with a
# very frequent one ("the") and are believed to be frequent, too.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")

z = minutes[:, :1]
fitted = LogDensity().fit(z)
grid = np.linspace(z.min() - 0.5, z.max() + 0.5, 400)[:, None]
low, high = np.exp(fitted.credible_band(grid))
density = np.exp(fitted.log_density(grid))
left.hist(z, bins=32, density=True, color="#DDDDDD")
left.fill_between(grid[:, 0], low, high, color="#009E73", alpha=0.25, lw=0, label="95 % band")
left.plot(grid, density, color="#009E73", label="LogDensity")
kernel = np.exp(kernel_density(z).score_samples(grid))
left.plot(grid, kernel, color="#D55E00", ls="--", label="KernelDensity")
left.set_xlabel("minutes")
left.set_ylabel("density")
left.set_title(f"{source}: eruptions", fontsize=11)
left.legend(frameon=False)

probability = np.exp(log_probability)
order = np.argsort(probability)
group = np.minimum((20.0 * np.cumsum(probability[order])).astype(int), 19)
size = np.bincount(group)
expected = np.bincount(group, probability[order]) / size
share = np.bincount(group, unseen[order]) / unseen.sum() / size
right.loglog(expected, share, "o", color="#009E73")
ends = [expected.min(), expected.max()]
right.loglog(ends, ends, color="#444444", lw=1, label="right on average")
right.set_xlabel("probability of a word by the model")
right.set_ylabel("share of a word in the unseen half")
right.set_title(f"{corpus}: {len(vocabulary):,} words", fontsize=11)
right.legend(frameon=False)
if args.out:
    path = Path(args.out) / "log_density.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    print(f"picture: {path}")
