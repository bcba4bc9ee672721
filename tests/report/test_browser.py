"""The report in a real browser: it opens, sorts, fits a phone, prints, and reads well aloud."""

import json
import shutil

import numpy as np
import pytest

from priorshift.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: make install")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="make install")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: make chromium")

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZES = {"phone": {"width": 375, "height": 740}, "desk": {"width": 1280, "height": 900}}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as engine:
        chromium = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=0)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def many(draw):
    """Make more classes than a table shows without scrolling."""
    return draw([f"species {k}" for k in range(120)], n_val=1500, n_target=900, dim=6)


@pytest.fixture(scope="module")
def files(tmp_path_factory, pets_html, hostile_html, many):
    folder = tmp_path_factory.mktemp("reports")
    for name, html in {"pets": pets_html, "hostile": hostile_html}.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    write_report(folder / "many.html", many.estimate(), **many.data)
    return folder


@pytest.fixture
def visit(browser, files):
    """Open a report; at the end, check that it complained of nothing and asked for nothing."""
    contexts, complaints, requests = [], [], []

    def visit(name, size="desk", **settings):
        context = browser.new_context(viewport=SIZES[size], **settings)
        contexts.append(context)
        context.set_default_timeout(0)  # none: the machine may be busy
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: requests.append(request.url))
        page.goto((files / f"{name}.html").as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []
    known = ("data:", (files / "pets.html").as_uri().rpartition("/")[0])
    assert [url for url in requests if not url.startswith(known)] == []
    assert len([url for url in requests if not url.startswith("data:")]) == len(contexts)


def column(page, table, index):
    """Return the visible texts of a column, from top to bottom."""
    cells = page.locator(f"#{table} tbody tr:visible > :nth-child({index})")
    return [text.strip() for text in cells.all_inner_texts()]


def sorted_by(page, table):
    return page.eval_on_selector_all(
        f"#{table} th[aria-sort]", "heads => heads.map(h => [h.innerText, h.ariaSort])"
    )


def test_a_click_sorts_and_a_second_one_turns_round(visit, pets):
    page, estimate = visit("pets"), pets.estimate()
    by_prior = pets.classes[np.argsort(-estimate.priors)].tolist()
    header = page.get_by_role("button", name="Now", exact=True)
    assert column(page, "priors-table", 1) == pets.classes.tolist()
    header.click()
    assert column(page, "priors-table", 1) == by_prior
    assert sorted_by(page, "priors-table") == [["Now", "descending"]]
    header.click()
    assert column(page, "priors-table", 1) == by_prior[::-1]
    assert sorted_by(page, "priors-table") == [["Now", "ascending"]]
    page.get_by_role("button", name="Change, points").click()
    change = estimate.priors - estimate.source_priors  # by sign, not by the text of it
    assert column(page, "priors-table", 1) == pets.classes[np.argsort(-change)].tolist()
    assert sorted_by(page, "priors-table") == [["Change, points", "descending"]]
    assert page.get_by_role("status").inner_text() == "Sorted by Change, points, descending."


def test_the_keyboard_sorts(visit, pets):
    page = visit("pets")
    by_ratio = pets.classes[np.argsort(-pets.estimate().ratio)].tolist()
    page.locator(".scroll:has(#priors-table)").focus()
    for _ in range(5):  # class, before, now, change, ratio
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Ratio"
    page.keyboard.press("Enter")
    assert column(page, "priors-table", 1) == by_ratio
    page.keyboard.press("Space")
    assert column(page, "priors-table", 1) == by_ratio[::-1]
    assert page.evaluate("document.activeElement.innerText") == "Ratio", "focus stays"


def test_what_has_no_number_sorts_last(visit):
    page = visit("pets")
    page.get_by_text("Methods side by side").first.click()
    header = page.locator("#methods-table").get_by_role("button", name="Farthest class")
    for _ in range(2):
        header.click()
        assert column(page, "methods-table", 1)[-1] == "na"


def test_names_sort_by_their_numbers(visit, many):
    page = visit("many")
    assert column(page, "priors-table", 1) != many.classes.tolist()  # the largest change first
    page.locator("#priors-table").get_by_role("button", name="Class", exact=True).click()
    assert column(page, "priors-table", 1) == many.classes.tolist()  # 2 comes before 10


def test_long_tables_are_filtered(visit):
    page = visit("many")
    box = page.get_by_label("Find a class")
    box.fill("SPECIES 11")
    names = column(page, "priors-table", 1)
    assert sorted(names) == sorted(["species 11", *(f"species 11{k}" for k in range(10))])
    assert page.locator(".filter output").inner_text() == "11 of 120"
    box.fill("")
    assert len(column(page, "priors-table", 1)) == 120


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["pets", "hostile", "many"])
def test_nothing_sticks_out_of_the_page(visit, name, size):
    page = visit(name, size)
    wide, room = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= room
    beside = "table => table.parentElement.scrollWidth - table.parentElement.clientWidth"
    assert page.locator("#flows-table").evaluate(beside) == 0, "what changed is seen at once"
    for figure in page.locator("figure svg").all():
        box = figure.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= room


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("pets", "light"), ("pets", "dark"), ("hostile", "light"), ("many", "dark")],
)
def test_axe_finds_nothing_serious(visit, name, scheme):
    page = visit(name, color_scheme=scheme)
    found = axe.Axe().run(page).response["violations"]
    grave = [f"{v['id']}: {v['nodes'][0]['html'][:200]}" for v in found if v["impact"] != "minor"]
    assert grave == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["pets", "hostile", "many"])
def test_the_first_screen_has_the_answer(visit, name, size):
    page = visit(name, size)
    assert page.locator("#verdict").bounding_box()["y"] <= 250
    assert page.locator(".tiles").bounding_box()["y"] < 800
    assert page.locator(".shares").first.bounding_box()["y"] < 800


def test_folds_open_on_paper_and_close_again(visit):
    page = visit("pets")
    assert page.locator("details[open]").count() == 0
    page.emulate_media(media="print")
    page.locator("details:not([open])").first.wait_for(state="detached")
    assert page.locator("#confusion figure").is_visible()
    page.emulate_media(media="screen")
    page.locator("details[open]").first.wait_for(state="detached")


def test_figures_follow_the_colour_scheme(visit):
    def ink(scheme):
        page = visit("pets", color_scheme=scheme)
        body = page.locator("body").evaluate("e => ({...getComputedStyle(e)})")
        text = page.locator("figure text").first.evaluate("e => getComputedStyle(e).fill")
        assert text == body["color"] != body["backgroundColor"]
        return text

    assert ink("light") != ink("dark")


def test_it_is_read_without_scripts(visit, pets):
    page = visit("many", java_script_enabled=False)
    assert page.get_by_role("button").count() == 0, "a button that does nothing"
    assert not page.get_by_label("Find a class").is_visible()
    assert page.locator("#priors-table tbody tr").count() == 120


def test_the_slider_says_what_the_table_says(visit, draw, files):
    case = draw(["no", "yes"], spread=0.8, seed=2)
    write_report(files / "two.html", case.estimate("em"), **case.data)
    page = visit("two")
    data = json.loads(page.locator("#priorshift-data").text_content())["what_if"]
    slider = page.locator("#what-if-share")
    for row in data["rows"]:
        slider.evaluate(
            "(e, share) => { e.value = Math.log(share / (1 - share)); "
            "e.dispatchEvent(new Event('input')); }",
            row["share"],
        )

        def shown(what):
            text = page.locator(f"#what-if [data-what={what}]").inner_text()
            return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)

        assert shown("threshold") == pytest.approx(row["threshold"], rel=0.01)
        assert shown("alerts") == pytest.approx(row["alerts"], abs=0.006)
        assert shown("missed") == pytest.approx(row["missed"], abs=0.006)
        assert shown("ppv") == pytest.approx(row["ppv"], abs=0.006)


def test_two_classes_have_a_table_without_scripts(visit, draw, files):
    case = draw(["no", "yes"], spread=0.8, seed=2)
    write_report(files / "two.html", case.estimate("em"), **case.data)
    page = visit("two", java_script_enabled=False)
    assert page.locator(".slider").is_hidden()
    page.get_by_text("At other shares").first.click()
    assert page.locator("#what-if-table").is_visible()


def test_the_data_can_be_read_from_the_page(visit, pets):
    page = visit("pets")
    data = json.loads(page.locator("#priorshift-data").text_content())
    assert data["estimate"]["priors"] == pets.estimate().to_dict()["priors"]


def test_it_prints(visit):
    page = visit("many")
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF-")
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    assert page.locator("#priors-table tbody tr:visible").count() == 100
    assert page.get_by_text("This print shows the first 100 of 120 rows").is_visible()
    tall = page.locator(".scroll:has(#priors-table)").evaluate(
        "e => [e.scrollHeight, e.clientHeight]"
    )
    assert tall[0] == tall[1], "nothing is hidden in a box that paper cannot scroll"


def test_only_short_tables_stay_whole_on_paper(visit):
    page = visit("pets")
    page.emulate_media(media="print")

    def breaks(table):
        box = page.locator(f".scroll:has(#{table})")
        return box.evaluate("e => getComputedStyle(e).breakInside")

    assert (
        page.locator("#priors-table tbody tr").count()
        < 9
        < page.locator("#reliability-table tbody tr").count()
    )
    assert breaks("priors-table") == "avoid"
    assert breaks("reliability-table") == "auto", "or half a page before it stays empty"


def test_skip_link_and_focus(visit):
    page = visit("pets")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Skip to the report"
    assert page.locator(".skip").bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
