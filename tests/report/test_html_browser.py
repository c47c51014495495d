"""The report in a real browser: opens from disk, asks for nothing, complains of nothing, draws every chart, and what a
run calls itself stays text. Needs Chromium, which CI has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hotloop.report import html
from tests.report import browser as driver
from tests.report.browser import Browser
from tests.report.folders import CONFIG, FINDING, HOSTILE, SUMMARY, finished, folder, row, rows

pytestmark = pytest.mark.skipif(driver.installed() is None, reason=driver.MISSING)

# Charts of which every series has ink in the picture.
DRAWN = """(charts => [...document.querySelectorAll(".plot")].filter(p => p.querySelectorAll(".main-svg").length >= 2
    && [...p.querySelectorAll(".scatterlayer .trace, .barlayer .trace")].filter(t => t.querySelector("path[d]")).length
    >= charts[p.dataset.chart].series.length).length)(JSON.parse(document.getElementById("charts").textContent))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    running = Browser(tmp_path_factory.mktemp("browser"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, Path]:
    """One of each kind."""
    at = tmp_path_factory.mktemp("reports")
    found = [row(k, rss_mb=100.0 + k, workers={"idle": k}, sections={"main/act": 0.05}) for k in range(20)]
    slow = {"learner": {**CONFIG["learner"], "optimizer": {"learning_rate": 1e-4}}}
    told = {**SUMMARY, "versions": {HOSTILE: HOSTILE}, "measures": {HOSTILE: [1.0, 1.0, 1.0]}}
    hostile = {"workload": HOSTILE, "env": {"name": HOSTILE}}
    evil = [row(k, **{HOSTILE: 1.0, f"{HOSTILE} 2": 2.0, "<b>bold": 1.0 * k}) for k in range(9)]
    link = '<a href="http://evil.example/">go</a>&lt;%{x}'
    runs = {
        "one": [folder(at / "a", None, found, SUMMARY, [FINDING], seed=0)],
        "traced": [finished(at / "traced")],
        "many": [finished(at / f"s{s}", s, c) for s, c in ((0, None), (1, None), (2, None), (3, slow), (4, slow))],
        "hostile": [folder(at / "x<i>&lt;", hostile, evil, told, [FINDING | {"title": HOSTILE}])],
        "interrupted": [folder(at / "b", None, rows(3))],
        "bare": [folder(at / "c")],
        "linked": [finished(at / "d", 0), finished(at / "e", 0, {"env": {"size": link}})],
    }  # fmt: skip
    return {name: html.write(own, at / f"{name}.html") for name, own in runs.items()}


KINDS = ("one", "traced", "many", "hostile", "interrupted", "bare", "linked")


@pytest.mark.parametrize("kind", KINDS)
def test_it_opens_from_disk_alone_and_draws_every_chart(browser, reports, kind):
    browser.open(reports[kind])
    assert browser.requests() == [reports[kind].resolve().as_uri()]
    assert browser.complaints() == []
    assert browser.run(DRAWN) == browser.run("document.querySelectorAll('.plot').length")
    assert kind == "bare" or browser.run(DRAWN) >= 5


@pytest.mark.parametrize("kind", ["hostile", "linked"])
def test_what_a_run_calls_itself_stays_text(browser, reports, kind):
    browser.open(reports[kind])
    assert not [e for e in browser.events if e["method"] == "Page.javascriptDialogOpening"]
    assert browser.run("document.querySelectorAll('img, a, [onerror], [onclick]').length") == 0
    if kind == "hostile":
        assert browser.run("document.querySelector('h1').textContent") == HOSTILE
        assert "<b>bold" in browser.run("document.body.innerText").lower()
    else:
        name = 'size <a href="http://evil.example/">go</a>&lt;%{x}'
        assert browser.run("document.querySelectorAll('.keys button')[1].textContent") == name
        browser.run("Plotly.Fx.hover(document.querySelector('.plot'), {xval: 5000}, 'xy')")
        browser.until("document.querySelector('.hoverlayer').textContent.includes('size')")
        assert name in browser.run("document.querySelector('.hoverlayer').textContent")


@pytest.mark.parametrize("kind", ["one", "many", "hostile", "linked"])
def test_a_phone_shows_it_without_scrolling_sideways(browser, reports, kind):
    browser.open(reports[kind], width=400, height=800, phone=True)
    assert browser.run("document.documentElement.scrollWidth") == 400
    wide = "[...document.querySelectorAll('.plot .main-svg')].filter(s => s.getBoundingClientRect().right > 400).length"
    assert browser.run(wide) == 0
    assert browser.run("getComputedStyle(document.querySelector('main')).fontSize") == "15px"


def test_it_is_light_or_dark_as_the_reader_is(browser, reports):
    paper = "getComputedStyle(document.body).backgroundColor"
    ticks = "getComputedStyle(document.querySelector('.xtick text')).fill"
    seen = {}
    for dark in (False, True):
        browser.open(reports["one"], dark=dark)
        seen[dark] = (browser.run(paper), browser.run(ticks))
    assert len({*seen[False], *seen[True]}) == 4
    browser.scheme(dark=False)  # while it is open
    browser.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
    assert (browser.run(paper), browser.run(ticks)) == seen[False]


def test_hover_tells_values_and_a_drag_zooms(browser, reports):
    browser.open(reports["one"])
    place = "document.querySelector('.plot')"
    browser.run(f"{place}.scrollIntoView()")
    box = browser.run(
        f"(b => [b.x, b.y, b.width, b.height])({place}.querySelector('.nsewdrag').getBoundingClientRect())"
    )
    x, y, width, height = box
    browser.mouse("mouseMoved", x + width / 2, y + height / 2)
    browser.until(f"{place}.querySelector('.hoverlayer').textContent.includes('exploring')")
    spread = f"{place}._fullLayout.xaxis.range.reduce((a, b) => b - a)"
    whole = browser.run(spread)
    browser.mouse("mousePressed", x + width * 0.25, y + height / 2)
    browser.mouse("mouseDragged", x + width * 0.5, y + height / 2)
    browser.mouse("mouseDragged", x + width * 0.75, y + height / 2)
    browser.mouse("mouseReleased", x + width * 0.75, y + height / 2)
    browser.until(f"{spread} < {0.6 * whole}")
    assert browser.run(f"Plotly.toImage({place}, {{format: 'png'}}).then(url => url.startsWith('data:image/png'))")
    assert browser.complaints() == []


def test_a_click_on_a_key_hides_its_colour(browser, reports):
    browser.open(reports["many"])
    lines = "document.querySelectorAll('.plot')[0].querySelectorAll('.scatterlayer .trace').length"
    key = "document.querySelector('.keys button')"
    whole = browser.run(lines)
    browser.run(f"{key}.click()")
    browser.until(f"{lines} < {whole}")
    assert browser.run(f"{key}.ariaPressed") == "true" and browser.run(lines) > 0
    browser.run(f"{key}.click()")
    browser.until(f"{lines} === {whole}")


def test_options_are_filtered_as_one_types(browser, reports):
    browser.open(reports["one"])
    shown = "[...document.querySelectorAll('details tbody tr')].filter(r => !r.hidden).length"
    everything = browser.run(shown)
    typed = """(i => { i.value = 'learner RATE'; i.dispatchEvent(new Event('input')) })
        (document.querySelector('input[type=search]'))"""
    browser.run(typed)
    assert everything > 5 and browser.run(shown) == 1


@pytest.mark.parametrize("width", [1280, 400])
def test_it_prints_light_two_abreast_and_comes_back(browser, reports, width):
    """Whatever the screen: while the page is laid out for paper, the rules for narrow screens do not hold."""
    browser.open(reports["one"], width=width, dark=True)
    before = browser.run("document.querySelector('.main-svg').getAttribute('width')")
    browser.run(
        """window.printed = []; addEventListener("beforeprint", () => window.printed.push(
        getComputedStyle(document.querySelector(".xtick text")).fill,
        Math.max(...[...document.querySelectorAll(".main-svg")].map(s => s.getBoundingClientRect().right)),
        Math.max(...[...document.querySelectorAll(".half .main-svg")].map(s => s.getBoundingClientRect().width))))"""
    )
    assert browser.pdf().startswith(b"%PDF")
    colour, right, half = browser.run("window.printed")
    assert colour == "rgb(101, 100, 95)" and right <= 700 and half < 340, "light ink, on a page of A4"
    assert browser.run("document.querySelector('.main-svg').getAttribute('width')") == before


def test_the_watcher_sees_what_it_watches_for(browser, tmp_path, reports):
    """Pages with what a report must not hold: a script from elsewhere, with the policy and without; an exception."""
    page = reports["bare"].read_text("utf-8")
    script = "<script src=http://elsewhere.example/x.js></script>"
    path = tmp_path / "planted.html"
    path.write_text(page.replace("<main>", f"<main>{script}", 1))
    browser.open(path)
    assert any("Content Security Policy" in text for text in browser.complaints())
    path.write_text(page.replace("<main>", f"<main>{script}", 1).replace(html.POLICY, "", 1))
    browser.open(path)
    assert any("elsewhere.example" in request for request in browser.requests())
    path.write_text(page.replace("<main>", "<main><script>nothing()</script>", 1))
    browser.open(path)
    assert any("nothing is not defined" in text for text in browser.complaints())
