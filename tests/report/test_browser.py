"""The page in a real browser: no error, no request, text that can be read, figures that react."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from report_browser import SPACE, picture, show

pytestmark = [
    pytest.mark.outside,  # a browser
    pytest.mark.same_everywhere,  # what a browser draws
]


@pytest.fixture(scope="module")
def wide(browser, report):
    """The page, opened at 1280 pixels."""
    show(browser, report.page, 1280)
    return browser


def test_nothing_is_missing_in_this_browser(wide):
    assert "WebGL is not supported" not in wide.find_element("css selector", "main").text


def test_the_verdict_is_on_the_first_screen(wide):
    """Headline, claims and the beginning of the picture, before anything else."""
    tops = wide.execute_script(
        "return ['h1', 'table', 'tbody tr:last-child', '.plot']"
        ".map(s => document.querySelector(s).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops) and tops[1] < 250 and tops[-1] < 900


def test_a_legend_serves_all_figures_beside_each_other(wide):
    group = wide.execute_script(
        "return [...document.querySelectorAll('.group')]"
        ".find(g => g.querySelectorAll('.plot').length > 1 && g.querySelector('[data-name=FGM]'))"
    )
    shown = (
        "return [...arguments[0].querySelectorAll('.plot')].map(p => p.data"
        ".filter(t => t.meta === 'FGM' && t.visible !== false).length)"
    )
    before = wide.execute_script(shown, group)
    assert len(before) > 1 and min(before) > 0
    key = group.find_element("css selector", "[data-name=FGM]")
    wide.execute_script("arguments[0].click()", key)
    assert wide.execute_script(shown, group) == [0] * len(before)
    wide.execute_script("arguments[0].click()", key)
    assert wide.execute_script(shown, group) == before


def test_a_method_has_one_colour_in_all_figures(wide):
    pairs = wide.execute_script(
        "return [...document.querySelectorAll('.plot')].flatMap(p => p.data)"
        ".filter(t => t.mode === 'lines' && t.line.width > 0 && t.name)"
        ".map(t => [t.name, t.line.color])"
    )
    colours = {}
    for name, colour in pairs:
        colours.setdefault(name, set()).add(colour)
    assert {"SAE (tuned)", "AGS", "FGM", "FCD", "L-BFGS", "pqn"} <= set(colours)
    assert all(len(c) == 1 for c in colours.values())


def test_space_is_drawn_and_turns_with_a_drag(wide):
    from selenium.webdriver.common.action_chains import ActionChains

    figure = wide.execute_script(SPACE)
    assert figure is not None
    wide.execute_script("arguments[0].scrollIntoView({block: 'center'})", figure)
    time.sleep(1.0)
    before = picture(figure)
    colours = np.unique((before[..., :3] * 255).astype(int) @ (65536, 256, 1))
    assert len(colours) > 50
    eye = "return arguments[0]._fullLayout.scene._scene.getCamera().eye"
    start = wide.execute_script(eye, figure)
    canvas = figure.find_element("css selector", "canvas")
    ActionChains(wide).move_to_element(canvas).click_and_hold().move_by_offset(120, 40).pause(
        0.3
    ).release().perform()
    time.sleep(1.0)
    end = wide.execute_script(eye, figure)
    assert sum((start[c] - end[c]) ** 2 for c in "xyz") > 1e-3
    assert (np.abs(picture(figure) - before) > 0.1).any(axis=-1).mean() > 0.002


def test_page_asks_no_host(browser, report):
    browser.get_log("performance")
    show(browser, report.page, 1400)
    asked = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    assert report.page.as_uri() in asked
    assert [u for u in asked if not u.startswith(("file:", "data:", "blob:"))] == []
