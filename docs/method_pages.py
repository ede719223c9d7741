"""One page per method, made of the docstrings: nothing is said twice."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.registry import INNER, METHODS, NONSMOOTH
from geartrain.oracles.nonsmooth import L1

ALL = METHODS | NONSMOOTH
OUTER = (
    "pqn",
    "similar-newton",
    "working-set",
    "sae",
    "r-sae",
    "sc-sae",
    "afb",
    "aeg",
    "gmco",
    "cgs",
)

PAGE = """# {title}

    {call}

{opening}{asks}

```{{eval-rst}}
{symbols}{classes}
```
"""
# What a page begins with, if there is such a file: a text for people who do not know the method.
OPENING = """```{{include}} ../openings/{name}.md
:relative-docs: ../
:relative-images:
```

"""
OPENINGS = Path(__file__).parent / "openings"


def made_by(name: str) -> list[type]:
    """The classes behind a name of `ALL`: with mu known, Euclidean and not, and with psi."""
    psi = SimpleNamespace(term=L1(1.0))
    kinds: list[dict[str, Any]] = [
        {"geometry": EUCLIDEAN, "psi": None},
        {"geometry": None, "psi": None},
        {"geometry": EUCLIDEAN, "psi": psi},
    ]
    known = {"mu": SimpleNamespace(value=1.0), "mu_h": 1.0, "mu_g": 0.0}
    made = [ALL[name](SimpleNamespace(**known, **kind), None) for kind in kinds]
    return list(dict.fromkeys(map(type, made)))


def pages() -> dict[str, tuple[str, list[type]]]:
    """File name -> how it is called, and the classes on the page."""
    out = {name: (f'gt.minimize(h, g, method="{name}")', made_by(name)) for name in ALL}
    for name, cls in INNER.items():
        out[f"inner-{name}"] = (f'gt.minimize(h, g, method="afb", inner="{name}")', [cls])
    return out


def page(name: str, call: str, classes: list[type], shown: frozenset[type] = frozenset()) -> str:
    """The text of one page; classes of `shown` have their entry in the index on another page."""
    first = classes[0]
    inner = name.startswith("inner-")
    asked = ", ".join(f"`{q}`" for q in first.needs)
    asks = f"It evaluates {asked} of {'g' if inner else 'h and g'}."
    if name in OUTER and "inner" in inspect.signature(first).parameters:
        asks = f"It evaluates {asked} of h, and of g whatever the inner method needs."
    modules = dict.fromkeys(cls.__module__ for cls in classes)
    home = "geartrain.methods.inner" if inner else "geartrain.methods"
    tables = [m for m in modules if "===" in (sys.modules[m].__doc__ or "")]
    return PAGE.format(
        title=f"{first.__name__} (`{name.removeprefix('inner-')}`{', inner' if inner else ''})",
        call=call,
        opening=opening(name),
        asks=asks,
        symbols="".join(f".. automodule:: {m}\n   :no-index:\n\n" for m in tables),
        classes="".join(
            f".. autoclass:: {home}.{cls.__name__}\n{'   :no-index:' if cls in shown else ''}\n\n"
            for cls in classes
        ),
    )


def opening(name: str) -> str:
    """The beginning of a page."""
    return OPENING.format(name=name) if (OPENINGS / f"{name}.md").exists() else ""


def write(folder: Path) -> None:
    """All pages, and the list of them that ``methods.md`` includes."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        old.unlink()
    groups: dict[str, list[str]] = {"Outer methods": [], "Baselines": [], "Inner methods": []}
    shown: frozenset[type] = frozenset()
    for name, (call, classes) in pages().items():
        (folder / f"{name}.md").write_text(page(name, call, classes, shown))
        shown |= set(classes)
        kind = "Outer methods" if name in OUTER else "Baselines"
        groups["Inner methods" if name.startswith("inner-") else kind].append(name)
    (folder / "auto.md").write_text(
        '# The choice of a method (`auto`)\n\n    gt.minimize(h, g, method="auto")\n\n'
        f"{opening('auto')}"
        "```{eval-rst}\n.. automodule:: geartrain.methods.planning.planner\n   :no-index:\n```\n"
    )
    groups["Outer methods"].insert(0, "auto")
    lists = []
    for title, names in groups.items():
        entries = "\n".join(f"methods/{name}" for name in names)
        lists.append(f"## {title}\n```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n")
    (folder / "list.txt").write_text("\n".join(lists))
