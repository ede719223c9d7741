"""Every figure lies inside its box, with titled axes and a legend beside it, at any width.

Measured in a real browser: at three widths, in both colour schemes, after the page has loaded and
after the window has been resized.
"""

from __future__ import annotations

import numpy as np
import pytest

from report_browser import SPACE, picture, resize, show

pytestmark = [
    pytest.mark.outside,  # a browser
    pytest.mark.same_everywhere,  # what a browser draws
]

WIDTHS = (390, 1280, 1920)

MEASURE = """
const PIXEL = 1.0;
const box = e => e.getBoundingClientRect();
const name = f => f.id || 'figure';
const inside = (a, b) => a.left >= b.left - PIXEL && a.right <= b.right + PIXEL
    && a.top >= b.top - PIXEL && a.bottom <= b.bottom + PIXEL;
const apart = (a, b) => a.right <= b.left + PIXEL || b.right <= a.left + PIXEL
    || a.bottom <= b.top + PIXEL || b.bottom <= a.top + PIXEL;
const wrong = [];
const root = document.documentElement;
if (root.scrollWidth > root.clientWidth) wrong.push('the page scrolls sideways');
const figures = [...document.querySelectorAll('.plotly-graph-div, .js-plotly-plot')];
if (!figures.length) wrong.push('no figure');
for (const f of new Set(figures)) {
  const frame = box(f.closest('figure') || f.parentElement);
  const drawing = f.querySelector('.main-svg');
  if (!drawing) { wrong.push(`${name(f)}: not drawn`); continue; }
  const page = {left: 0, right: root.clientWidth, top: -1e9, bottom: 1e9};
  if (!inside(box(drawing), frame)) {
    wrong.push(`${name(f)}: drawn ${Math.round(box(drawing).width)} px wide in a box of `
      + `${Math.round(frame.width)} px`);
  }
  if (!inside(frame, page)) wrong.push(`${name(f)}: its box leaves the page`);
  const texts = [...f.querySelectorAll('.main-svg text')].filter(t => t.textContent.trim());
  for (const t of texts) {
    if (!inside(box(t), frame)) wrong.push(`${name(f)}: '${t.textContent}' is cut off`);
  }
  const layout = f._fullLayout;
  const scene = layout.scene;
  const axes = scene ? [scene.xaxis, scene.yaxis, scene.zaxis] : [layout.xaxis, layout.yaxis];
  for (const axis of axes) {
    const title = axis.title.text || '';
    const told = title.trim() && !title.startsWith('Click');
    if (!told && !(axis.type === 'category' && axis.showticklabels)) {
      wrong.push(`${name(f)}: ${axis._name || axis._id} has no title`);
    }
  }
  if (!scene) {
    const size = layout._size;
    if (size.w < 120 || size.h < 120) wrong.push(`${name(f)}: squeezed to ${size.w} x ${size.h}`);
    const area = box(drawing);
    const plot = {left: area.left + size.l, right: area.left + size.l + size.w,
                  top: area.top + size.t, bottom: area.top + size.t + size.h};
    const parts = [plot, ...[...f.querySelectorAll('.xtick text, .ytick text, .xtitle, .ytitle')]
        .map(box)];
    const group = f.closest('.group') || f;
    for (const legend of group.querySelectorAll('.legend')) {
      if (box(legend).width > 0 && !parts.every(p => apart(box(legend), p))) {
        wrong.push(`${name(f)}: the legend lies over the axis or the curves`);
      }
    }
    const ticks = [...f.querySelectorAll('.xtick text')].map(box).sort((a, b) => a.left - b.left);
    for (let i = 1; i < ticks.length; i++) {
      if (ticks[i].left < ticks[i - 1].right - PIXEL) {
        wrong.push(`${name(f)}: labels of the horizontal axis overlap`); break;
      }
    }
  }
}
for (const e of document.querySelectorAll('p, td, th, figcaption, button')) {
  const size = parseFloat(getComputedStyle(e).fontSize);
  if (size < 12) { wrong.push(`text of ${size} px: '${e.textContent.slice(0, 30)}'`); break; }
}
return wrong;
"""

COLOURS = """
const ink = (s, what) => getComputedStyle(document.querySelector(s))[what];
return [ink('body', 'backgroundColor'), ink('main p', 'color'), ink('.data', 'color'),
        ink('.xtick text', 'fill'), ink('strong', 'color')];
"""


def luminance(text):
    """Relative luminance of a CSS colour, between 0 and 1."""
    numbers = [float(n) for n in text[text.index("(") + 1 : text.index(")")].split(",")[:3]]
    return float(np.dot([(c / 255) ** 2.2 for c in numbers], (0.2126, 0.7152, 0.0722)))


def cut_in_space(browser):
    """Sides of its box at which the figure in space is cut off: ink in the outermost pixels.

    Its texts are pixels of a canvas, whose places the page does not know.
    """
    figure = browser.execute_script(SPACE)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", figure)
    pixels = picture(figure)[..., :3]
    sides = {
        "left": pixels[:, :3],
        "right": pixels[:, -3:],
        "top": pixels[:3],
        "bottom": pixels[-3:],
    }
    paper = pixels[0, 0]
    return [name for name, strip in sides.items() if np.abs(strip - paper).max() > 0.1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_figures_lie_inside_their_boxes(browser, report, width, scheme):
    show(browser, report.page, width, scheme)
    assert browser.execute_script(MEASURE) == [], f"after loading at {width} px"
    assert cut_in_space(browser) == [], f"after loading at {width} px"
    other = WIDTHS[(WIDTHS.index(width) + 1) % len(WIDTHS)]
    resize(browser, other)
    assert browser.execute_script(MEASURE) == [], f"{width} px, resized to {other} px"
    assert cut_in_space(browser) == [], f"{width} px, resized to {other} px"
    paper, *inks = map(luminance, browser.execute_script(COLOURS))
    assert (paper < 0.1) == (scheme == "dark")
    for ink in inks:
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) > 4.5
    errors = [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    assert errors == []
