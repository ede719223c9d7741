"""Formulas of docstrings as the pages of the documentation show them."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
import mathematics
import method_pages

pytestmark = pytest.mark.same_everywhere  # text

ROLE = re.compile(r":math:`([^`]*)`")


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        (
            "x^{k+1} = (A_k y^k + a z^k)/A_{k+1}",
            [r"x^{k+1}=\frac{A_{k}\,y^{k}+a\,z^{k}}{A_{k+1}}"],
        ),
        (
            r"\|grad F(y)\| <= sigma L \|y - x\|",
            [r"\lVert \nabla F(y)\rVert \le \sigma\,L\,\lVert y-x\rVert"],
        ),
        ("f(y^N) - f* <= R^2/(2 A_N)", [r"f(y^{N})-f^{*}\le \frac{R^{2}}{2\,A_{N}}"]),
        ("f is mu-strongly convex", ["f", r"\mu"]),
        ("a step of a method costs a gradient of h", ["h"]),
        ("a from n a^2 = A + a", ["a", r"n\,a^{2}=A+a"]),
        ("phi(v) = <beta, v> + g(v)", [r"\phi(v)=\langle \beta,\; v\rangle +g(v)"]),
        ("for t < T_s, k > 1", ["t<T_{s}", "k>1"]),
        ("W (W'M W)^{-1/2}", [r"W(W^{\top}\,M\,W)^{-1/2}"]),
        ("argmin m a/2 t", [r"\operatorname*{argmin} \,\frac{m\,a}{2}\,t"]),
        ("x~ = x_k+ (Theorem 2 of [1]_)", [r"\tilde x=x_{k}^{+}"]),
        ("Newton's method and h's value, lines 3 to 5, see `rho` and ``x``", ["h"]),
        ("T = ceil(sqrt(M/L))", [r"T=\lceil \sqrt{\frac{M}{L}}\rceil"]),
        (r"f + L/2 \|. - x\|^2", [r"f+\frac{L}{2}\,\lVert \cdot -x\rVert ^{2}"]),
        ("SciPy's L-BFGS-B", []),
        ("w in dpsi(x_+)", ["w", r"\partial\psi(x_{+})"]),
    ],
)
def test_formulas_among_words(text, formulas):
    assert ROLE.findall(mathematics.translate(text)) == formulas


CLASSES = list(dict.fromkeys(c for _, classes in method_pages.pages().values() for c in classes))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_algorithm_of_every_method_is_typeset(cls):
    """No index, power, root, norm or fraction is left as plain text, and all brackets match."""
    lines = mathematics.sections(inspect.getdoc(cls).splitlines())
    end = next(i for i, s in enumerate(lines) if s.startswith("---"))
    page = "\n".join(lines[:end])
    assert ".. container:: algorithm" in page
    for formula in ROLE.findall(page):
        assert formula.count("{") == formula.count("}")
        for left, right in (("(", ")"), (r"\lVert", r"\rVert"), (r"\langle", r"\rangle")):
            assert formula.count(left) == formula.count(right), formula
        bare = re.sub(r"\\operatorname\*?\{\w+\}|\\[A-Za-z]+", "", formula)
        assert not re.search(r"[A-Za-z]{4}", bare), formula
    plain = re.sub(r"``[^`]*``|`[^`]*`|\[\d+\]_", "", ROLE.sub("", page))
    plain = re.sub(r"\.\. math::\n\n.*", "", plain)
    assert not re.search(r"[A-Za-z]_[A-Za-z0-9{+]|\^|\\\||<=|\bsqrt\b|\bgrad [a-z]\b", plain), plain


def test_tables_of_symbols_become_lists():
    doc = inspect.cleandoc(sys.modules["geartrain.methods.sae"].__doc__).splitlines()
    page = "\n".join(mathematics.tables(doc))
    assert ".. list-table::" in page and "====" not in page
    assert r":math:`x^{k+1}`" in page and "``x``" in page
