"""Formulas of docstrings, typeset: ``x^{k+1} = (A_k y^k + a z^k)/A_{k+1}`` becomes mathematics.

Docstrings hold formulas as plain text, which is readable in a terminal. In the pages the formulas
among the words of the docstring of a method (the algorithm, its guarantee, what is said of the
parameters, the notes) and of the table of symbols of its module are found and translated into
LaTeX.

A text is cut into tokens. A token is mathematics if it is a symbol (one letter, a Greek name, a
name with an index), a number or a function; a word of two or more letters is prose; operators and
brackets follow their neighbours. The longest runs of mathematics become formulas.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

GREEK = frozenset(
    re.findall(
        r"\w+",
        "alpha beta gamma delta eps zeta eta theta kappa lambda mu nu xi rho sigma tau phi psi "
        "omega Gamma Delta Theta Lambda Sigma Phi Psi Omega",
    )
)
FUNCTIONS = {
    "grad": r"\nabla ",
    "argmin": r"\operatorname*{argmin}",
    "argmax": r"\operatorname*{argmax}",
    "sqrt": r"\sqrt",
    "sum": r"\sum",
    "min": r"\min",
    "max": r"\max",
    "exp": r"\exp",
    "ln": r"\ln ",
    "log2": r"\log_2 ",
}
NAMES = {
    "eps": r"\varepsilon",
    "xt": r"\tilde x",
    "ut": r"\tilde u",
    "ul": r"\underline{u}",
    "xbar": r"\bar x",
    "x_bar": r"\bar x",
    "x_low": r"\underline{x}",
    "xb": r"\bar x",
    "dpsi": r"\partial\psi",
    "lam": r"\lambda",
    "t3": "t_3",
    "loss": r"\ell",
}
# Words after which a single "a" is a symbol, although they are prose.
_VERBS = {"from", "with", "is", "for", "and", "lags"}
_OPEN, _CLOSE = "([<{", ")]>}"
_RELATIONS = {"<=": r"\le ", ">=": r"\ge ", "=": "=", "~": r"\approx ", "<": "<", ">": ">"}

_NAME = re.compile(r"x_bar|x_low|t3|[A-Za-z]+2?")
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_PROTECTED = re.compile(
    r"[A-Z]-[A-Z]{2,}(?:-[A-Z])?|NU_ACDM|(?<=option )I+"  # names
    r"|'s\b|\*\w+\*|``[^`]+``|`[^`]+`|:math:`[^`]+`|\[\d+\]_|\.\.\.|\.\.(?= )"
)


@dataclass
class Token:
    """A piece of a text."""

    text: str
    kind: str  # "math", "prose", "operator", "open", "close", "space"
    base: str = ""  # the name without its scripts
    scripts: tuple[tuple[str, str], ...] = ()  # ("_", "k"), ("^", "2"), ("'", ""), ("~", "")


def tokens(text: str) -> list[Token]:
    """The pieces of `text`, in order; together they are the text."""
    out: list[Token] = []
    i = 0
    while i < len(text):
        start = i
        if match := _PROTECTED.match(text, i):
            word = match[0]
            i = match.end()
            dots = word in ("...", "..")
            out.append(Token(word, "operator" if dots else "prose"))
        elif text[i].isspace():
            i += 1
            out.append(Token(text[start:i], "space"))
        elif text.startswith("\\|", i):
            i += 2
            i, scripts = _scripts(text, i)
            out.append(Token(text[start:i], "norm", r"\|", scripts))
        elif match := _NAME.match(text, i):
            base, i = match[0], match.end()
            i, scripts = _scripts(text, i)
            out.append(_named(text, start, i, base, scripts))
        elif match := _NUMBER.match(text, i):
            base, i = match[0], match.end()
            i, scripts = _scripts(text, i)
            out.append(Token(text[start:i], "number", base, scripts))
        elif text[i] == "<" and text[i + 1 : i + 2] not in (" ", "="):
            i += 1
            out.append(Token("<", "open", "<"))
        elif text[i] == ">" and text[i + 1 : i + 2] != "=" and text[i - 1] != " ":
            i += 1
            i, scripts = _scripts(text, i)
            out.append(Token(text[start:i], "close", ">", scripts))
        elif text[i : i + 2] in ("<=", ">="):
            i += 2
            out.append(Token(text[start:i], "operator"))
        elif text[i] in "([":
            i += 1
            out.append(Token(text[start:i], "open", text[start]))
        elif text[i] in ")]":
            i += 1
            i, scripts = _scripts(text, i)
            out.append(Token(text[start:i], "close", text[start], scripts))
        else:
            i += 1
            out.append(Token(text[start:i], "operator"))
    return out


def _scripts(text: str, i: int) -> tuple[int, tuple[tuple[str, str], ...]]:
    """Indices, powers and marks that follow at `i`."""
    found: list[tuple[str, str]] = []
    while i < len(text):
        if text[i] in "_^" and i + 1 < len(text):
            mark, i = text[i], i + 1
            if text[i] == "{":
                end = _matching(text, i)
                found.append((mark, text[i + 1 : end]))
                i = end + 1
            else:
                match = re.compile(r"\+|\*|[A-Za-z]+\d?|\d+").match(text, i)
                if match is None:
                    return i - 1, tuple(found)
                found.append((mark, match[0]))
                i = match.end()
        elif text[i] == "'" and not re.match(r"'s\b", text[i:]):
            found.append(("'", ""))
            i += 1
        elif text[i] == "*" or (text[i] == "+" and found):
            found.append(("^", text[i]))
            i += 1
        elif text[i] == "~":
            found.append(("~", ""))
            i += 1
        else:
            break
    return i, tuple(found)


def _matching(text: str, i: int) -> int:
    depth = 0
    for j in range(i, len(text)):
        depth += {"{": 1, "}": -1}.get(text[j], 0)
        if depth == 0:
            return j
    raise ValueError(f"no closing bracket in {text!r}")


def _named(
    text: str, start: int, end: int, base: str, scripts: tuple[tuple[str, str], ...]
) -> Token:
    known = base in GREEK or base in FUNCTIONS or base in NAMES
    called = text[end : end + 1] == "(" and base not in ("O",)
    kind = "math" if len(base) == 1 or known or any(m in "_^" for m, _ in scripts) else "prose"
    after = re.compile(r" (?:([A-Za-z-]{2,})|`)").match(text, end)
    if base in "aA" and not scripts and after and text[start - 1 : start] != "/":
        word = after[1]
        if word not in {*_VERBS, *GREEK, *NAMES, "grad", "sqrt"}:
            kind = "prose"  # the article
    if kind == "prose" and called:
        kind = "called"  # a function if its arguments are mathematics
    applied = called or re.compile(r" [A-Za-z]_").match(text, end)
    if base in ("min", "max", "loss", "sum", "exp") and not scripts and not applied:
        kind = "prose"
    return Token(text[start:end], kind, base, scripts)


def _decide(found: list[Token]) -> None:
    """Settle brackets: they are mathematics if all that is inside is."""
    stack: list[int] = []
    for i, token in enumerate(found):
        if token.kind == "open":
            stack.append(i)
        elif token.kind == "close":
            if not stack or _OPEN.index(found[stack[-1]].base) != _CLOSE.index(token.base):
                token.kind = "prose"
                continue
            first = stack.pop()
            inside = found[first + 1 : i]
            if any(t.kind in ("prose", "called") for t in inside) or not inside:
                found[first].kind = token.kind = "prose"
            else:
                found[first].kind, token.kind = "begin", "end"
            if found[first - 1].kind == "called" and first:
                found[first - 1].kind = "math" if token.kind == "end" else "prose"
    for i in stack:
        found[i].kind = "prose"
    for i, token in enumerate(found):
        if token.kind == "called":
            token.kind = "prose"
        # The hyphen of a word such as "mu-strongly".
        around = (0 < i < len(found) - 1) and found[i + 1].kind == "prose"
        if token.text == "-" and around and found[i - 1].kind != "space":
            token.kind = "prose"
    norms = [i for i, t in enumerate(found) if t.kind == "norm"]
    for first, last in zip(norms[::2], norms[1::2], strict=True):
        found[first].kind, found[last].kind = "begin", "end"


_SEPARATORS = set(",;:.")
_EDGE = "\0"  # where a role begins and ends


def translate(text: str, display: bool = False) -> str:
    """`text` with its formulas as ``:math:`` roles."""
    found = tokens(text)
    _decide(found)
    out: list[str] = []
    span: list[Token] = []
    depth = 0
    for i, token in enumerate(found):
        if token.kind == "begin":
            depth += 1
        if token.kind == "end":
            depth -= 1
        splits = token.kind == "prose" or (
            token.kind == "operator"
            and depth == 0
            and token.text in _SEPARATORS | {"...", ".."}
            and not _is_placeholder(found, i)
            and not (token.text == ".." and span)
        )
        if splits:
            out += [_flush(span, display), token.text]
            span = []
        else:
            span.append(token)
    whole = "".join([*out, _flush(span, display)])
    # Where a role touches a word, an escaped space tells them apart.
    whole = re.sub(f"(?<=[^\\s({_EDGE}]){_EDGE}(?=:math:)", r"\\ ", whole)
    whole = re.sub(f"(?<=`){_EDGE}(?=[^\\s),;:.{_EDGE}-])", r"\\ ", whole)
    return whole.replace(_EDGE, "")


def _is_placeholder(found: list[Token], i: int) -> bool:
    """Whether a full stop stands for the argument, as in the norm of . - x."""
    before = found[i - 1] if i else found[i]
    return found[i].text == "." and before.base == r"\|" and before.kind == "begin"


def _flush(span: list[Token], display: bool) -> str:
    """A run of mathematics as a formula, without the spaces and operators at its ends."""
    first, last = 0, len(span)
    while first < last and (
        span[first].kind == "space"
        or (span[first].kind == "operator" and span[first].text not in "-")
    ):
        first += 1
    while last > first and span[last - 1].kind in ("space", "operator"):
        last -= 1
    before = "".join(t.text for t in span[:first])
    after = "".join(t.text for t in span[last:])
    inside = span[first:last]
    plain = "".join(t.text for t in inside)
    if not any(t.kind == "math" or t.base == r"\|" for t in inside):
        return before + plain + after
    style = r"\displaystyle " if display and "/" in plain else ""
    return f"{before}{_EDGE}:math:`{style}{latex(inside)}`{_EDGE}{after}"


class _Reader:
    """Reads a run of tokens as an expression: sums of products of factors.

    In scripts (`flat`) fractions are written with a slash.
    """

    def __init__(self, found: list[Token], flat: bool = False) -> None:
        self.left = [t for t in found if t.kind != "space"]
        self.flat = flat

    def peek(self) -> Token | None:
        return self.left[0] if self.left else None

    def read(self, until: str = "") -> str:
        """LaTeX up to the closing token `until`, which is left."""
        out: list[str] = []
        while (token := self.peek()) is not None and not (until and token.kind == "end"):
            if token.kind == "operator":
                self.left.pop(0)
                out.append("," if self.flat and token.text == "," else _operator(token.text))
            else:
                out.append(self.product())
        return "".join(out)

    def product(self) -> str:
        """Factors side by side; those before a slash are the numerator of a fraction."""
        out: list[str] = []
        above: list[tuple[str, bool]] = []  # what a slash would put above the bar
        while (token := self.peek()) is not None and token.kind != "end":
            if token.text == "/" and above and not self.flat:
                self.left.pop(0)
                numerator = _bare(above[0]) if len(above) == 1 else _beside(above)
                out.append(rf"\frac{{{numerator}}}{{{_bare(self.factor())}}}")
                above = []
            elif token.kind == "operator":
                break
            elif token.base in _PREFIXES:
                self.left.pop(0)
                out += [t for t, _ in above]
                out.append(_scripted(FUNCTIONS[token.base], token.scripts) + " ")
                above = []
            else:
                above.append(self.factor())
        return r"\,".join([*out, *(t for t, _ in above)])

    def factor(self) -> tuple[str, bool]:
        """One factor, and whether it is an expression in round brackets without a power."""
        if not self.left:
            return "", False
        token = self.left.pop(0)
        if token.kind == "begin":
            return self.bracket(token)
        if token.kind == "operator":  # the minus of a denominator
            return _operator(token.text) + self.factor()[0], False
        if token.base in FUNCTIONS:
            return self.function(token), False
        after = self.peek()
        if token.base in _ROUNDINGS and after is not None and after.kind == "begin":
            self.left.pop(0)
            left, right = _ROUNDINGS[token.base]
            return left + self.bracket(after, keep=True)[0][1:-1] + right, False
        word = _scripted(_symbol(token), token.scripts)
        if after is not None and after.kind == "begin" and after.base in "([" and _applies(token):
            self.left.pop(0)
            word += self.bracket(after, keep=True)[0]
        return word, False

    def function(self, token: Token) -> str:
        name, after = FUNCTIONS[token.base], self.peek()
        scripted = _scripted(name.rstrip(), token.scripts)
        begins = after is not None and after.kind == "begin"
        if token.base == "sqrt":
            return rf"\sqrt{{{_bare(self.factor())}}}"
        if token.base == "grad":
            return name + self.factor()[0]
        if begins and after is not None and after.base == "(":
            self.left.pop(0)
            return scripted + self.bracket(after, keep=True)[0]
        return scripted + r"\, " + self.factor()[0]

    def bracket(self, opened: Token, keep: bool = False) -> tuple[str, bool]:
        inside = self.read(until=opened.base)
        closed = self.left.pop(0)
        if opened.base == "(" and not closed.scripts and _is_fraction(inside) and not keep:
            return inside, False
        left, right = _BRACKETS[opened.base]
        whole = _scripted(f"{left}{inside}{right}", closed.scripts)
        return whole, opened.base in "([" and not closed.scripts


_PREFIXES = ("argmin", "argmax", "sum")
_ROUNDINGS = {"ceil": (r"\lceil ", r"\rceil "), "floor": (r"\lfloor ", r"\rfloor ")}
_BRACKETS = {
    "(": ("(", ")"),
    "[": ("[", "]"),
    "<": (r"\langle ", r"\rangle "),
    r"\|": (r"\lVert ", r"\rVert "),
}


def _applies(token: Token) -> bool:
    """Whether a bracket after the symbol holds its argument; else it is a factor."""
    return token.kind == "math"


def _beside(factors: list[tuple[str, bool]]) -> str:
    return r"\,".join(text for text, _ in factors)


def _is_fraction(text: str) -> bool:
    """Whether a formula is one fraction and nothing else."""
    if not text.startswith(r"\frac{"):
        return False
    middle = _matching(text, len(r"\frac"))
    return _matching(text, middle + 1) == len(text) - 1


def _bare(factor: tuple[str, bool]) -> str:
    """A factor above or below a bar, or under a root, needs no brackets."""
    text, in_brackets = factor
    return text[1:-1] if in_brackets else text


def _operator(text: str) -> str:
    if text in ("...", ".."):
        return r"\dots "
    if text == ".":
        return r"\cdot "
    if text == ",":
        return r",\; "
    return _RELATIONS.get(text, text)


def _symbol(token: Token) -> str:
    base = token.base
    if base in NAMES:
        return NAMES[base]
    if base in GREEK:
        return rf"\{base}"
    if len(base) > 1 and not base.isdigit() and "." not in base:
        return rf"\operatorname{{{base}}}"
    return base.replace(",", "{,}")  # 20,000


def _scripted(symbol: str, scripts: tuple[tuple[str, str], ...]) -> str:
    below, above = "", ""
    for mark, inside in scripts:
        if mark == "~":
            symbol = rf"\tilde {symbol}"
        elif mark == "'":
            above += r"\top" if symbol.isupper() else r"\prime"
        else:
            inner = (
                "+" if inside == "+" else "*" if inside == "*" else latex(tokens(inside), flat=True)
            )
            if mark == "_":
                below += inner
            else:
                above += inner
    return symbol + (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")


def latex(found: list[Token], flat: bool = False) -> str:
    """A run of tokens as LaTeX; `flat` is without fractions, for scripts."""
    if not any(t.kind in ("begin", "end") for t in found):
        _decide(found)
    return _Reader(found, flat).read().strip()


# Docstrings ----------------------------------------------------------------------------------

_DESCRIBED = ("Parameters", "Attributes", "Returns")
_HEADING = re.compile(r"^-{3,}$")
_ITEM = re.compile(r"^(\d+\. |- )")


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """A hook of autodoc: typeset the formulas of methods and of their tables of symbols."""
    module = name if what == "module" else getattr(obj, "__module__", "")
    if not str(module).startswith("geartrain.methods"):
        return
    if what == "module":
        lines[:] = tables(lines)
    elif what == "class":
        # The mark by which the source is searched for departures from a paper.
        lines[:] = sections([s.replace("# Deviation:", "Deviation:") for s in lines])


def sections(lines: list[str]) -> list[str]:
    """The lines of a docstring with formulas, and with the algorithm in a box."""
    end = next((i - 1 for i, s in enumerate(lines) if _HEADING.match(s.strip())), len(lines))
    return [*_typeset(lines[:end]), "", *_sections(lines[end:])]


def _sections(lines: list[str]) -> list[str]:
    """The sections after the first heading, with formulas in descriptions and notes."""
    heads = [i for i, s in enumerate(lines[1:]) if _HEADING.match(s.strip())]
    out: list[str] = []
    for head, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        name, body = lines[head], lines[head + 2 : end]
        if name in _DESCRIBED:
            body = _descriptions(body)
        elif name == "Notes":
            body = [*_typeset(body), ""]
        out += [name, lines[head + 1], *body]
    return out


def _descriptions(lines: list[str]) -> list[str]:
    """A list of parameters: names and types stay, formulas are typeset in what is said of them."""
    out: list[str] = []
    for line in lines:
        if line.startswith("    ") and out and out[-1].startswith("    "):
            out[-1] += f" {line.strip()}"
        else:
            out.append(line)
    return [f"    {translate(line.strip())}" if line.startswith("    ") else line for line in out]


def _typeset(lines: list[str]) -> list[str]:
    out: list[str] = []
    boxed = False  # whether the steps of an algorithm may follow
    for paragraph in _paragraphs(lines):
        begins, steps = paragraph[0].startswith("Algorithm"), _ITEM.match(paragraph[0])
        inside = "    " if begins or (boxed and steps) else ""
        if paragraph[0].startswith("    "):  # a formula that stands alone
            text = [".. math::", "", *(f"    {latex(tokens(s.strip()))}" for s in paragraph)]
        else:
            text = _items(paragraph)
        if begins:
            out += ["", ".. container:: algorithm"]
        out += ["", *(inside + line for line in text)]
        boxed = begins
    return out[1:]


def _paragraphs(lines: list[str]) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            blocks[-1].append(line.rstrip())
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def _items(paragraph: list[str]) -> list[str]:
    """A paragraph as one line, or a list with one line per item."""
    out: list[str] = []
    for line in paragraph:
        if out and not _ITEM.match(line):
            out[-1] += f" {line.strip()}"
        else:
            out.append(line)
    items = []
    for line in out:
        mark = match[0] if (match := _ITEM.match(line)) else ""
        items.append(mark + translate(line[len(mark) :], display=bool(mark)))
    return items


def tables(lines: list[str]) -> list[str]:
    """The lines of the docstring of a module, with formulas and tables of symbols typeset."""
    out: list[str] = []
    rules = [i for i, s in enumerate(lines) if re.fullmatch(r"=+(  =+)+", s.rstrip())]
    last = 0
    for head, _, end in zip(rules[::3], rules[1::3], rules[2::3], strict=True):
        out += [*_typeset(lines[last:head]), "", *_table(lines[head : end + 1])]
        last = end + 1
    return [*out, *_typeset(lines[last:]), ""]


def _table(block: list[str]) -> list[str]:
    starts = [m.start() for m in re.finditer(r"=+", block[0])]
    ends = [*starts[1:], None]
    rows: list[list[str]] = []
    for line in (block[1], *block[3:-1]):
        cells = [line[a:b].strip() for a, b in zip(starts, ends, strict=True)]
        if cells[0]:
            rows.append(cells)
        else:  # a row that goes on
            rows[-1] = [f"{old} {more}".strip() for old, more in zip(rows[-1], cells, strict=True)]
    out = [".. list-table::", "   :header-rows: 1", ""]
    for k, row in enumerate(rows):
        for j, cell in enumerate(row):
            shown = cell if k == 0 else translate(cell)
            out.append(f"   {'* -' if j == 0 else '  -'} {shown}")
    return [*out, ""]
