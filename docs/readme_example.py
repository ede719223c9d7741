"""Run the ten lines of the README and write what they print below them.

``python docs/readme_example.py`` replaces the indented block after the code, and the evaluations
of L-BFGS after that. Counts depend on the processor, so a test compares the order of the numbers.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

README = Path(__file__).parent.parent / "README.md"
PRINTED = re.compile(r"(?<=it tells the bill:\n\n)(?P<bill>(?:    .*\n)+)\nL-BFGS needs (\d+)")


def example() -> tuple[str, int]:
    """What `res` prints, and the evaluations of L-BFGS, by a run on this machine."""
    names: dict[str, Any] = {}
    code = README.read_text().split("```python\n")[1].split("```")[0]
    for line in doctest.DocTestParser().get_examples(code):
        exec(compile(line.source, "README.md", "single"), names)
    return str(names["res"]), names["rival"].calls["h.grad"]


def write() -> None:
    """Replace what the README shows."""
    text, rival = example()
    block = "".join(f"    {line}\n" for line in text.splitlines())
    README.write_text(
        PRINTED.sub(lambda _: f"{block}\nL-BFGS needs {rival}", README.read_text(), count=1)
    )


if __name__ == "__main__":
    write()
