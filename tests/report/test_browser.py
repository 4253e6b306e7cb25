"""The report in a real browser: quiet, searchable by keyboard, safe, and readable everywhere."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from scipy import sparse

from dibpnmf.report import write_report
from tests.report.conftest import EVIL, fit

MEGABYTE = 2**20


def draw_all(page):
    """Scroll down to the end, so that every chart is drawn, and wait for them."""
    page.evaluate("document.querySelectorAll('.plot').forEach((plot) => plot.scrollIntoView())")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.plot')].every((plot) => {"
        " if (!plot.querySelector('svg, canvas')) plot.scrollIntoView();"
        " return plot.querySelector('svg.marks, canvas.marks'); })"
    )


def choose(page, text):
    page.focus("#row-search")
    page.keyboard.type(text)
    page.wait_for_selector("#row-options li")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


def test_draws_every_chart_without_a_word_or_a_request(report, open_page, planted):
    opened = open_page(report)
    draw_all(opened.page)
    assert (
        opened.page.locator(
            "figure:visible .plot svg.marks, figure:visible .plot canvas.marks"
        ).count()
        >= 10
    )
    assert opened.page.locator(".factor svg.marks").count() == planted[0].n_components_
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [report.as_uri()]


def test_search_by_keyboard_shows_factors_and_nearest_rows(report, planted, open_page):
    model, data = planted
    page = open_page(report).page
    row = int(model.embedding_[:, 0].argmax())
    page.focus("#row-search")
    page.keyboard.type(data.index[row][:9].upper())  # any case, part of a name
    assert page.get_attribute("#row-search", "aria-expanded") == "true"
    options = page.locator("#row-options li").all_text_contents()
    at = options.index(data.index[row])
    for _ in range(at + 1):
        page.keyboard.press("ArrowDown")
    assert page.get_attribute("#row-search", "aria-activedescendant") == f"row-option-{at}"
    page.keyboard.press("Enter")
    assert page.text_content("#row-result h3") == data.index[row]
    assert page.get_attribute("#row-search", "aria-expanded") == "false"
    assert page.text_content("#search-count") == f"Showing {data.index[row]}, below."

    # The shares are those of the model, and the nearest row is.
    parts = model.embedding_ * model.components_.sum(axis=1)
    parts /= np.maximum(parts.sum(axis=1, keepdims=True), 1e-300)
    shown = {
        line.locator("th").text_content(): float(line.locator("td").last.text_content()[:-1])
        for line in page.locator("#row-result .card").first.locator("tbody tr").all()
    }
    used = np.flatnonzero(parts[row])
    assert set(shown) == {f"Factor {k + 1}" for k in used}
    for k in used:
        assert shown[f"Factor {k + 1}"] == pytest.approx(100 * parts[row, k], abs=1.0)
    unit = parts / np.maximum(np.linalg.norm(parts, axis=1, keepdims=True), 1e-300)
    likeness = unit @ unit[row]
    likeness[row] = -1.0
    nearest = page.locator("#row-result .card").last.locator("tbody tr").first
    other = list(data.index).index(nearest.locator("th").text_content())
    assert likeness[other] == pytest.approx(likeness.max(), abs=0.02)
    assert float(nearest.locator("td").text_content()) == pytest.approx(likeness[other], abs=0.02)

    nearest.locator("button").press("Enter")  # and from there to that row
    assert page.text_content("#row-result h3") == data.index[other]


def test_search_escapes_and_says_when_nothing_matches(report, open_page):
    page = open_page(report).page
    page.focus("#row-search")
    page.keyboard.type("nobody")
    assert page.text_content("#search-count") == "No row matches."
    assert page.is_hidden("#row-options")
    page.keyboard.press("Enter")
    assert page.locator("#row-result h3").count() == 0
    page.keyboard.press("Escape")
    assert page.input_value("#row-search") == ""


def test_a_name_with_markup_is_shown_and_not_run(report, open_page):
    opened = open_page(report)
    page = opened.page
    card = page.locator(".factor").first
    card.scroll_into_view_if_needed()  # it is drawn when it comes near the screen
    card.locator("svg.marks").wait_for()
    assert EVIL[:15] in card.locator("svg.marks").text_content()  # long names are cut there
    card.locator("summary").press("Enter")
    card.locator("table").wait_for()
    assert card.locator("td, th").get_by_text(EVIL, exact=True).count() == 1
    card.locator("svg .mark-rect path").first.hover()
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert EVIL in tooltip.text_content()
    assert tooltip.locator("script").count() == 0
    assert opened.dialogs == []
    assert opened.said == []


def test_the_policy_forbids_scripts_that_are_not_the_pages_own(report, open_page):
    opened = open_page(report)
    opened.page.evaluate(
        "() => { const made = document.createElement('script');"
        " made.textContent = 'window.ran = 1';"
        " document.body.append(made); document.body.insertAdjacentHTML('beforeend',"
        ' \'<img src="data:," onerror="window.ran = 1">\'); }'
    )
    opened.page.wait_for_timeout(200)
    assert opened.page.evaluate("window.ran") is None
    assert any("Content Security Policy" in text for text in opened.said)


def test_a_tooltip_appears(report, open_page):
    page = open_page(report).page
    bars = page.locator('figure[data-chart="shares"] .mark-rect path')
    bars.first.hover()
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert "Factor 1" in tooltip.text_content()


def test_traces_can_be_chosen(report, planted, open_page):
    model, _ = planted
    page = open_page(report).page
    draw_all(page)
    figure = page.locator('figure[data-chart="traces"]')
    before = figure.locator("svg.marks").inner_html()
    page.select_option("#trace-choice", "tau_rows")
    page.wait_for_function(
        "(before) => document.querySelector('[data-chart=traces] svg.marks').innerHTML !== before",
        arg=before,
    )
    assert page.locator("#trace-choice option").count() == len(model.diagnostics_["r_hat"])


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (375, "light"), (1280, "dark")])
def test_screenshot_is_not_blank_and_nothing_is_cut_off(report, open_page, width, scheme):
    page = open_page(report, width, scheme=scheme).page
    draw_all(page)
    choose(page, "1")
    page.wait_for_selector("#row-result svg.marks")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("window.scrollTo(0, 0)")
    whole = Image.open(BytesIO(page.screenshot(full_page=True))).convert("L")
    assert (np.mean(whole) < 80) == (scheme == "dark")
    for plot in page.locator(".plot:visible").all():
        box = plot.bounding_box()
        x, y = int(box["x"]), int(box["y"])
        part = whole.crop((x, y, x + int(box["width"]), y + int(box["height"])))
        assert np.std(part) > 3.0, box


def test_dark_mode_follows_a_switch_while_the_page_is_open(report, open_page):
    page = open_page(report).page
    label = 'figure[data-chart="shares"] .role-axis-label text'
    page.locator(label).first.wait_for()
    light = page.locator(label).first.get_attribute("fill")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "([label, light]) => { const text = document.querySelector(label);"
        " return text && text.getAttribute('fill') !== light; }",
        arg=[label, light],
    )


def test_keyboard_reaches_everything_and_readers_can_name_it(report, open_page):
    page = open_page(report).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the findings"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    draw_all(page)
    nameless = page.evaluate(
        "[...document.querySelectorAll('input, select')].filter((e) => !e.labels.length).length"
    )
    assert nameless == 0
    described = page.evaluate(
        "[...document.querySelectorAll('.plot')].every((plot) =>"
        " plot.querySelector('[role=graphics-document][aria-label], [aria-label]'))"
    )
    assert described
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((h) => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    figure = page.locator('figure[data-chart="counts"]')
    figure.locator("details:not(.vega-embed details) summary").last.press("Enter")
    assert "Probability" in figure.locator("table").text_content()


@pytest.mark.parametrize("K", [0, 1])
def test_a_report_of_little_is_still_a_report(tmp_path, open_page, K):
    Y = np.zeros((6, 5))
    Y[:3, :3] = K
    opened = open_page(
        write_report(fit(Y, n_draws=10, n_components=K or None), tmp_path / "r.html")
    )
    draw_all(opened.page)
    assert opened.page.locator(".factor").count() == K
    choose(opened.page, "row 6")
    assert "uses no factor" in opened.page.text_content("#row-result")
    assert opened.said == []


def test_large_report_is_small_and_searchable(large, tmp_path, open_page):
    rng = np.random.default_rng(0)
    Y = sparse.random_array((5000, 5000), density=0.01, rng=rng, format="csr")
    names = [f"a row with a name of usual length, number {i}" for i in range(5000)]
    path = write_report(
        large, tmp_path / "large.html", data=Y, row_names=names, column_names=names,
        image_shape=(50, 100),
    )  # fmt: skip
    assert path.stat().st_size < 20 * MEGABYTE
    opened = open_page(path)
    choose(opened.page, "number 4321")
    assert opened.page.text_content("#row-result h3") == names[4321]
    opened.page.locator("#more-factors").press("Enter")
    assert opened.page.locator(".factor").count() == 100
    draw_all(opened.page)
    assert opened.said == []
