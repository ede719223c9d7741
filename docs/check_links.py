"""``python docs/check_links.py FOLDER``: every internal link of the built pages leads somewhere."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Anchors and links of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect ids, and what a, link, img and script point to."""
        given = dict(attrs)
        self.anchors.update(v for k in ("id", "name") if (v := given.get(k)))
        self.links += [v for k in ("href", "src") if (v := given.get(k))]


def broken(folder: Path) -> list[str]:
    """``page: link`` of every internal link without a target."""
    pages = {
        path.resolve(): Page(path)
        for path in folder.rglob("*.html")
        if "_static" not in path.parts  # templates of the theme
    }
    out = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else {"", parts.fragment}
            if not target.exists() or unquote(parts.fragment) not in anchors:
                out.append(f"{path.relative_to(folder.resolve())}: {link}")
    return sorted(set(out))


if __name__ == "__main__":
    wrong = broken(Path(sys.argv[1]))
    print("\n".join(wrong) or "all internal links lead somewhere")
    sys.exit(bool(wrong))
