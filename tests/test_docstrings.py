"""What users call is documented, and what is documented is there."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator

import geartrain

pytestmark = pytest.mark.same_everywhere  # text

# numpydoc's codes: no docstring, summary missing, parameters not documented, documented but not
# there, in the wrong order.
MISSING, SUMMARY, UNDOCUMENTED, UNKNOWN, ORDER = "GL08", "SS01", "PR01", "PR02", "PR03"


def own(module):
    """Public functions and classes that `module` itself defines."""
    return [
        f"{module.__name__}.{name}"
        for name, obj in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(obj) or inspect.isfunction(obj))
        and obj.__module__ == module.__name__
    ]


def modules():
    for info in pkgutil.walk_packages(geartrain.__path__, "geartrain."):
        try:
            yield importlib.import_module(info.name)
        except ImportError as error:  # of an extra that is not installed
            if (error.name or "").startswith("geartrain"):
                raise


EVERYTHING = sorted({name for module in modules() for name in own(module)})
# What users call: __all__ and the rules. Protocols have no parameters of their own.
SURFACE = [
    f"geartrain.{name}"
    for name in geartrain.__all__
    if not inspect.ismodule(getattr(geartrain, name))
]
SURFACE += [n for n in own(geartrain.core.stopping) if n.rpartition(".")[2] not in ("Look", "Rule")]
# What the modules of the package export besides.
EXPORTED = [
    f"{module.__name__}.{name}"
    for module in map(geartrain.__getattr__, geartrain._MODULES)
    for name in module.__all__
    if callable(getattr(module, name))
]


@cache
def errors(name):
    """Those codes, by the parts of numpydoc's `validate` that do not read the file again."""
    doc = Validator(get_doc_object(Validator._load_obj(name)))
    if not doc.raw_doc:
        return {MISSING: ""}
    return dict(doc.parameter_mismatches) | ({} if doc.summary else {SUMMARY: ""})


def wrong(names, *codes):
    """What numpydoc has against `names`."""
    return [(name, c, found) for name in names for c, found in errors(name).items() if c in codes]


@pytest.mark.parametrize("room", sorted({name.split(".")[1] for name in EVERYTHING}))
def test_docstrings_do_not_lie(room):
    names = [name for name in EVERYTHING if name.split(".")[1] == room]
    assert not wrong(names, SUMMARY, UNKNOWN, ORDER)


def test_the_surface_documents_every_parameter():
    assert not wrong(SURFACE, MISSING, UNDOCUMENTED)
    assert not wrong(EXPORTED, MISSING)


FORMULAS = [n for n in geartrain.theory.__all__ if callable(getattr(geartrain.theory, n))]


def test_letters_of_the_theory_are_explained():
    """In its own docstring or in the table at the head of the package."""
    for name in FORMULAS:
        fn = getattr(geartrain.theory, name)
        text = f"{geartrain.theory.__doc__} {fn.__doc__}"
        words = text.replace(",", " ").replace("`", " ").split()
        for letter in inspect.signature(fn).parameters:
            assert letter in words, f"{name} does not explain {letter}"


def test_methods_of_public_classes_are_documented():
    """Answers of terms are documented by the protocols; all else says what it does."""
    answers = {"value", "grad", "value_and_grad", "component", "coord", "prox", "convex"}
    answers |= {"L", "mu", "L_coord", "L_components"}
    for name in SURFACE:
        cls = getattr(geartrain, name.rpartition(".")[2], None)
        for member, obj in vars(cls).items() if inspect.isclass(cls) else ():
            if inspect.isfunction(obj) and not member.startswith("_") and member not in answers:
                assert obj.__doc__, f"{name}.{member} has no docstring"
