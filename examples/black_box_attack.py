r"""
Attack a classifier that gives values only
==========================================

The problem eq:attack of the paper (Section 6): find a small change x of an image u that makes a
classifier err,

.. math:: \min_x \; h(x) + g(x),

where h has a gradient and g is known through questions to the classifier only.

=========  =========================================================================
h(x)       :math:`\frac12\|x\|^2 + \frac{\rho}{2}\|x - Sx\|^2`: distortion, and distance from a
           smooth image; S keeps the low frequencies of the cosine transform
g(x)       :math:`c \ln(1 + e^{m(x) + \kappa})`, m(x) the margin of the true class at the image
           u + x, cut to the range of pixels: its score minus the soft maximum of the others
=========  =========================================================================

Two methods get the same differences, the same constants and as many questions (the second one at
least as many):

*separated*
    `geartrain.methods.AFB` with `geartrain.inner.CoordinateSearch` inside. h is asked for one
    gradient per iteration, thousands of questions to the classifier apart.
*whole*
    `geartrain.methods.ACDWhole`: the same coordinate steps (Nesterov and Stich) on h + g. Every
    step asks h for a partial derivative, so h is asked about n times as often, n the number of
    pixels.

**What is proved and what is not.** h is convex, 1-strongly and (1 + rho)-smooth. g is not convex: a
network is behind it. It is not smooth either: ReLU, max-pooling and the cut to the range of pixels
have kinks. So no bound of the paper holds here: neither the rate of the outer loop, nor the number
of inner steps, nor that the point found is near a minimum of all. The constant L of g is a setting,
and the error rule of the inner runs is a heuristic test of progress. What does hold is the
counting: h is asked once an outer iteration, whatever g is.

The classifier is the MNIST network ``mnist-8.onnx``, run by onnxruntime, on the digits of
``mnist_test_500.npz``, both in the folder that GEARTRAIN_DATA names. Where one of these is missing
it is a small network of scikit-learn on scikit-learn's own digits.

Run it by ``python examples/black_box_attack.py``; ``--help`` lists the options.
"""

# %%
# Options
# -------
from __future__ import annotations

# Paper: adversarial attack
import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn, idctn

import geartrain as gt
from geartrain import datasets
from geartrain.core.status import Status
from geartrain.oracles.differences import central_partial, difference_steps

Array = NDArray[Any]

parser = argparse.ArgumentParser(description="Attack a classifier that gives values only.")
parser.add_argument("--digits", type=int, default=10, help="how many digits to attack (10)")
parser.add_argument(
    "--budget", type=float, default=25.0, help="questions for a pixel of a digit, at least (25)"
)
parser.add_argument("--quick", action="store_true", help="3 digits, 10 questions for a pixel")
parser.add_argument("--out", default="out/examples", help="folder of the picture; '' for none")
args = parser.parse_args()
if args.quick:
    args.digits, args.budget = 3, 10.0
if args.digits < 1:
    parser.error("--digits must be at least 1")

# %%
# The black box
# -------------
# It gives scores, one image a question, and counts the questions. The MNIST network takes images
# one by one, so differences cannot be asked for in batches.


@dataclass
class BlackBox:
    """A classifier: scores of an image with pixels in [0, 1], and how often they were asked."""

    name: str
    scores: Callable[[Array], Array]
    side: int  # images are side x side
    images: Array  # (m, side * side), all classified correctly
    labels: Array  # (m,)
    questions: int = field(default=0)

    def margin(self, image: Array, label: int) -> float:
        """Score of `label` minus the soft maximum of the others; below 0: misclassified."""
        self.questions += 1
        scores = self.scores(np.clip(image, 0.0, 1.0))
        others = np.delete(scores, label)
        top = others.max()
        return float(scores[label] - top - np.log(np.exp(others - top).sum()))

    def answer(self, image: Array) -> int:
        """The class, to look at results; not counted."""
        return int(self.scores(np.clip(image, 0.0, 1.0)).argmax())


def mnist() -> BlackBox:
    """The ONNX network and its digits."""
    model, digits = (datasets.data_file(f) for f in ("mnist-8.onnx", "mnist_test_500.npz"))
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the network is too small for more
    session = onnxruntime.InferenceSession(str(model), options)
    entry = session.get_inputs()[0].name

    def scores(image: Array) -> Array:
        pixels = (255.0 * image).astype(np.float32).reshape(1, 1, 28, 28)
        # The network takes pixels up to 255 and gives scores of that size.
        return session.run(None, {entry: pixels})[0][0].astype(np.float64) / 255.0

    with np.load(digits) as file:
        images, labels = file["images"].reshape(-1, 784) / 255.0, file["labels"].astype(int)
    return only_correct(BlackBox("MNIST network (ONNX)", scores, 28, images, labels))


def scikit_learn_digits() -> BlackBox:
    """A network of scikit-learn, trained on half of scikit-learn's digits."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    images, labels = load_digits(return_X_y=True)
    images = images / 16.0
    model = MLPClassifier((32,), alpha=1e-2, max_iter=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # good enough, converged or not
        model.fit(images[::2], labels[::2])

    def scores(image: Array) -> Array:
        return np.log(np.maximum(model.predict_proba(image[None])[0], 1e-300))

    box = BlackBox("network of scikit-learn", scores, 8, images[1::2], labels[1::2])
    return only_correct(box)


def only_correct(box: BlackBox) -> BlackBox:
    """Keep one correctly classified image of every class, then a second of every class, ..."""
    right = np.array([box.answer(u) == y for u, y in zip(box.images, box.labels, strict=True)])
    box.images, box.labels = box.images[right], box.labels[right]
    turn = np.array([np.sum(box.labels[:k] == y) for k, y in enumerate(box.labels)])
    order = np.lexsort((box.labels, turn))
    box.images, box.labels = box.images[order], box.labels[order]
    return box


try:
    box = mnist()
except (FileNotFoundError, ImportError) as error:
    what = "onnxruntime" if isinstance(error, ImportError) else "the MNIST network or its digits"
    print(f"{what} is missing: a network of scikit-learn on scikit-learn's digits instead")
    box = scikit_learn_digits()
n = box.side**2
print(f"{box.name}: {n} pixels")

# %%
# The problem
# -----------
# S is the orthogonal projection on the low frequencies, so h is a quadratic with the matrix
# (1 + rho) I - rho S.
rho, c, kappa = 1.0, 1.0, 1.0
frequency = np.hypot(*np.meshgrid(np.arange(box.side), np.arange(box.side)))
low = (frequency <= 0.3 * box.side).astype(float)
pixels = np.eye(n).reshape(n, box.side, box.side)
S = idctn(low * dctn(pixels, axes=(1, 2), norm="ortho"), axes=(1, 2), norm="ortho").reshape(n, n)
Q = (1.0 + rho) * np.eye(n) - rho * 0.5 * (S + S.T)


def h_value_and_grad(x: Array) -> tuple[float, Array]:
    """Distortion and distance from a smooth image."""
    grad = Q @ x
    return 0.5 * float(x @ grad), grad


h = gt.Term(
    h_value_and_grad,
    coord=lambda x, i: float(Q[i] @ x),
    n=n,
    L=1.0 + rho,
    mu=1.0,
    L_coord=np.diag(Q),
)

# %%
# g by values. Over the length of a difference the network bends by kinks, which act like noise: the
# stated noise and M3 make differences of about 0.07, a fifteenth of the range of a pixel.
G: dict[str, Any] = {"n": n, "L": 2.0, "noise": 1e-3, "M3": 10.0, "convex": False}


def by_values(image: Array, label: int) -> Any:
    """The term g of one image: it answers with values only."""
    return gt.Term(
        value=lambda x: c * float(np.logaddexp(0.0, box.margin(image + x, label) + kappa)), **G
    )


def by_partials(g: Any) -> Any:
    """The same for the method on the whole: partial derivatives by the same differences."""
    step = difference_steps(g, g.value, np.zeros(n), g.L)  # stated noise: nothing is asked
    return gt.Term(coord=lambda x, i: central_partial(g.value, x.copy(), i, float(step[i])), **G)


# %%
# The attacks
# -----------
# The separated method runs until its budget is spent, and then to the end of its iteration; the
# method on the whole gets as many questions.


@dataclass
class Attack:
    """One attack by one method."""

    x: Array
    f: float
    wrong: bool  # the classifier errs at the end
    questions: int  # by the ledger
    h_calls: int  # by the ledger
    first: int  # questions until it first erred
    asked: int  # questions as the black box counted them


@dataclass(frozen=True)
class AtLeast:
    """A stopping rule: ends a run after the first iteration that has used up the questions.

    ``gt.stop.Calls`` would end it inside an iteration.
    """

    kind: str
    questions: int

    def check(self, look: Any) -> Status | None:
        """The status to end with, or None to go on."""
        return Status.BUDGET if look.calls[self.kind] >= self.questions else None


def attack(method: Any, image: Array, label: int, budget: int, separated: bool) -> Attack:
    """Run `method` on one image."""
    g = by_values(image, label)
    term = g if separated else by_partials(g)
    kind, price = ("g.value", 1) if separated else ("g.coord", 2)
    first = None

    def look(intermediate_result: Any) -> None:
        nonlocal first
        seen = intermediate_result
        if first is None and box.answer(image + seen.x) != label:
            first = price * seen.calls[kind]

    box.questions = 0
    stop = AtLeast(kind, budget // price)
    res = gt.minimize(h, term, method=method, stop=stop, callback=look)
    calls, asked = res.calls, box.questions
    questions = price * calls[kind]
    return Attack(
        x=res.x,
        f=h_value_and_grad(res.x)[0] + g.value(res.x),
        wrong=bool(box.answer(image + res.x) != label),
        questions=questions,
        h_calls=calls["h.grad"] + calls["h.coord"] + calls["h.value"],
        first=questions if first is None else first,
        asked=asked,
    )


results: dict[str, list[Attack]] = {"separated": [], "whole": []}
for image, label in zip(box.images[: args.digits], box.labels, strict=False):
    # A looser rule than AFB's own (zeta = 0.5): g is not worth exact inner runs.
    method = gt.methods.AFB(zeta=0.8, inner=gt.inner.CoordinateSearch())
    one = attack(method, image, label, int(args.budget * n), separated=True)
    two = attack(gt.methods.ACDWhole(mu=h.mu), image, label, one.questions, separated=False)
    results["separated"].append(one)
    results["whole"].append(two)

# %%
# The table: means over the digits. "first" is the number of questions until the classifier first
# erred, seen at the ends of iterations. Separation is paid for in questions: the inner runs test
# their error by a gradient of differences, 2 n questions each time, so the method on the whole
# needs fewer of them. It pays where h is what costs: a perceptual distance, a renderer.
# Here h is a product with a matrix; what is shown is the counts.


def distortion(image: Array, x: Array) -> float:
    """Norm of the change as the classifier sees it."""
    return float(np.linalg.norm(np.clip(image + x, 0.0, 1.0) - image))


head = ("success", "distortion", "f", "first", "questions", "calls of h")
print(f"{'':10s}" + "".join(f"{word:>12s}" for word in head))
table: dict[str, list[float]] = {}
for name, attacks in results.items():
    table[name] = [
        float(np.mean([a.wrong for a in attacks])),
        float(np.mean([distortion(u, a.x) for u, a in zip(box.images, attacks, strict=False)])),
        *(float(np.mean([getattr(a, k) for a in attacks])) for k in ("f", "first")),
        *(float(np.mean([getattr(a, k) for a in attacks])) for k in ("questions", "h_calls")),
    ]
    rate, size, f, first, questions, h_calls = table[name]
    print(
        f"{name:10s}{rate:>12.0%}{size:>12.3f}{f:>12.3f}{first:>12,.0f}{questions:>12,.0f}"
        f"{h_calls:>12,.1f}"
    )
ratio = table["whole"][-1] / table["separated"][-1]
print(f"for as many questions the method on the whole asks h {ratio:,.0f} times as often, n = {n}")

# %%
# The picture: originals, what was added (red) or taken away (blue), and what the classifier says.
columns = list(zip(box.images, box.labels, results["separated"], strict=False))
size = max(abs(a.x).max() for _, _, a in columns)
figure, axes = plt.subplots(
    3, len(columns), figsize=(1.1 * len(columns) + 0.9, 3.9), squeeze=False, layout="constrained"
)
for (image, label, one), (top, middle, bottom) in zip(columns, axes.T, strict=True):
    result = np.clip(image + one.x, 0.0, 1.0)
    shape = (box.side, box.side)
    top.imshow(image.reshape(shape), cmap="gray", vmin=0, vmax=1)
    shown = middle.imshow((result - image).reshape(shape), cmap="RdBu_r", vmin=-size, vmax=size)
    bottom.imshow(result.reshape(shape), cmap="gray", vmin=0, vmax=1)
    top.set_title(f"{label}", fontsize=11)
    said = box.answer(result)
    colour = "#D55E00" if said != label else "black"
    bottom.set_xlabel(f"taken for {said}", color=colour, fontsize=9)
    middle.set_xlabel(f"norm {distortion(image, one.x):.2f}", fontsize=9)
for ax in axes.flat:
    ax.set_xticks([])
    ax.set_yticks([])
for ax, word in zip(axes[:, 0], ("original", "change", "result"), strict=True):
    ax.set_ylabel(word)
figure.colorbar(shown, ax=axes, shrink=0.3, pad=0.01)
figure.suptitle(
    f"{box.name}: separated method, {table['separated'][-1]:.1f} gradients of h a digit",
    fontsize=11,
)
if args.out:
    path = Path(args.out) / "black_box_attack.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"picture: {path}")
