# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Opens pages of --html in Chromium from disk and uses them by mouse and by keys. Fails
where a page complains, asks for anything but itself or shows something else than its
data. `--shots FOLDER` keeps pictures of each.

usage: browse_report.py [--shots FOLDER] PAGE...
"""
import pathlib
import shutil
import sys
import time

from playwright.sync_api import sync_playwright

# Limit for a page of 2,000 ops: processor time from the request until the page has handled keys and
# shown the result, because wall-clock time depends on other work.
SECONDS, LARGE = 2.0, 1500
NEXT_FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def expect(holds, what):
    if not holds:
        sys.exit(f"{path.name}: {what}")


def start(browser, **settings):
    """A page with its messages and requests."""
    page = browser.new_context(viewport={"width": 1400, "height": 850}, **settings).new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.resolve().as_uri())
    return page, said, asked


def focused(page):
    return page.evaluate("() => document.activeElement.id || document.activeElement.className || document.activeElement.value")


def search(page, word, count):
    page.keyboard.press("/")
    expect(focused(page) == "search", "/ does not reach the text box")
    page.keyboard.type(word)
    expect(page.locator("#count").inner_text() == f"{count} found", f"'{word}': {page.locator('#count').inner_text()}")
    expect(page.locator(".node.hit").count() == count, "matches are not marked")
    for key, at in (("ArrowDown", 1), ("Enter", 2), ("ArrowUp", 1)):
        page.keyboard.press(key)
        at = (at - 1) % count + 1
        expect(page.locator("#count").inner_text() == f"{at} of {count}", f"{key} does not reach match {at}")
        expect(page.locator(".node.chosen.hit").count() == 1, "the match is not chosen")
        chosen = page.locator("#matches [aria-selected=true]")
        expect(page.locator("#search").get_attribute("aria-activedescendant") == chosen.get_attribute("id"), "the list does not follow")
        expect(page.locator("#details").inner_text() == chosen.get_attribute("title"), "the details are of another op")
    page.keyboard.press("Escape")
    expect(page.locator("#search").input_value() == "" and page.locator(".node.hit").count() == 0, "Esc clears nothing")
    expect(not page.locator("#matches").is_visible(), "the list stays")


def walk_by_tab(page):
    """Every stop of the tab key has a name; the text box and the graph are among the stops."""
    page.evaluate("() => document.activeElement.blur()")
    stops = []
    for _ in range(12):
        page.keyboard.press("Tab")
        name, stop = page.evaluate("""() => { const e = document.activeElement;
            return [e.getAttribute('aria-label') || e.textContent || (e.labels && e.labels[0] && e.labels[0].textContent), e.id || e.value || e.className]; }""")
        expect(name, f"a stop without a name: {stop}")
        stops.append(stop)
    expect(stops[:2] == ["theme", "tab-graph"] and stops.index("search") < stops.index("canvas"), f"the order is {stops}")


def use_graph(page, data):
    nodes = data["drawing"]["nodes"]
    expect(page.locator(".node").count() == len(nodes), "a node is missing")
    op = next(i for i, node in enumerate(nodes) if "op" in node)
    page.locator(f"[data-node='{op}'] .body").dispatch_event("click")
    expect(page.locator("#details").inner_text() == data["document"]["ops"][nodes[op]["op"]]["name"], "a click opens something else")
    expect("decision" in page.locator(".side").inner_text().lower(), "the decision is not told")
    canvas = page.locator(".canvas")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    chosen = page.locator(".node.chosen").get_attribute("data-node")
    follows = [edge["to"] for edge in data["drawing"]["edges"] if edge["from"] == op]
    expect(int(chosen) in follows, "an arrow does not follow a value")
    page.keyboard.press("Enter")
    expect(focused(page) == "details", "Enter does not open the details")
    view = lambda: page.locator(".canvas svg").get_attribute("viewBox")
    canvas.focus()
    for action in (lambda: page.keyboard.press("+"), lambda: page.keyboard.press("0"), lambda: page.mouse.wheel(0, 60), drag(page, canvas)):
        before = view()
        action()
        page.evaluate(NEXT_FRAME)
        expect(view() != before, "the view does not move")
    page.keyboard.press("Escape")
    expect(page.locator(".chosen").count() == 0 and page.locator("#details").inner_text() == "Overview", "Esc chooses nothing")


def drag(page, canvas):
    def move():
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + 20, box["y"] + 300)
        page.mouse.down()
        page.mouse.move(box["x"] + 90, box["y"] + 340, steps=4)
        page.mouse.up()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    return move


def use_colours(page, data):
    picture = page.locator(".canvas svg")
    for value in ("time", "type"):
        page.locator(f".switch label:has(input[value={value}])").click()
        expect(f"by-{value}" in picture.get_attribute("class"), f"{value} is no colour")
    has_errors = "error" in data["document"]
    expect(page.locator("input[value=error]").is_enabled() == has_errors, "errors are shown without samples, or not with them")
    theme = lambda: page.evaluate("() => document.documentElement.dataset.theme")
    expect(theme() == "light", "the system's light is not followed")
    page.emulate_media(color_scheme="dark")
    page.evaluate(NEXT_FRAME)
    expect(theme() == "dark", "the system's dark is not followed")
    for wanted in ("light", "dark", "dark"):
        page.locator("#theme").click()
        expect(theme() == wanted, "the switch does not change the colours")
    page.emulate_media(color_scheme="light")


def use_pages(page, data):
    page.locator("#tab-graph").focus()
    page.keyboard.press("ArrowRight")
    kernels = data["document"]["kernels"]
    expect(focused(page) == "tab-kernels" and page.locator("#page-kernels tbody tr").count() == len(kernels), "kernels are missing")
    page.locator("#page-kernels th button", has_text="moves").click()
    first = page.locator("#page-kernels tbody tr").first.inner_text()
    most = max(range(len(kernels)), key=lambda i: kernels[i]["bytes"])
    expect(first.split()[0] == str(most + 1), "the table does not sort")
    page.keyboard.press("/")
    expect(page.locator("#page-graph").is_visible() and focused(page) == "search", "/ does not lead to the graph")


def open_all(page, data):
    """The pages of other commands, which have those of mpc explain as well."""
    document, tabs = data["document"], page.locator("[role=tab]")
    for i in range(tabs.count()):
        tabs.nth(i).click()
        panel = page.locator(".page:visible")
        expect(panel.count() == 1 and panel.get_attribute("aria-labelledby") == tabs.nth(i).get_attribute("id"), "a tab opens another page")
    tabs.first.click()
    if data["command"] == "tune":
        expect(page.locator("#page-front .dot").count() == len(document["front"]), "a point of the front is missing")
        expect(page.locator("#page-front circle.chosen").count() == ("chosen" in document), "the choice is not shown")
        expect(page.locator("#page-front .limit").count() == (document["limit"] > 0), "the budget is not shown")
        if "chosen" in document:
            page.locator("#page-front button.link").first.click()
            expect(page.locator(".node.chosen").count() == 1, "a value of the front is not found in the graph")
    if data["command"] == "train":
        curve = page.locator("#page-curves .chart").first
        curve.focus()
        page.keyboard.press("ArrowRight")
        first = document["progress"][0]
        expect(f"step {first['step']}" in page.locator("#page-curves figcaption").first.inner_text(), "an arrow tells no number")
        page.locator("#page-curves summary").first.click()
        expect(page.locator("#page-curves table").first.locator("tbody tr").count() == len(document["progress"]), "a number is missing")
    if data["command"] == "bench" and not data["drawing"]:
        expect(page.locator("#page-kernels tbody tr").count() == len(document["kernels"]), "a kernel is missing")
    elif data["command"] == "bench":
        expect("by-time" in page.locator(".canvas svg").get_attribute("class"), "times are not shown first")
        expect("measured" in page.locator(".legend").inner_text(), "the legend does not say measured")


def seconds_until_used(browser):
    """By the processor and by the clock."""
    page = browser.new_context(viewport={"width": 1400, "height": 850}).new_page()
    metrics = page.context.new_cdp_session(page)
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})
    begin = time.monotonic()
    page.goto(path.resolve().as_uri())
    page.keyboard.press("/")
    page.keyboard.type("gelu")
    page.keyboard.press("Enter")
    page.evaluate(NEXT_FRAME)
    clock = time.monotonic() - begin
    expect(page.locator(".node.chosen").count() == 1, "the search chose nothing")
    found = {metric["name"]: metric["value"] for metric in metrics.send("Performance.getMetrics")["metrics"]}
    page.context.close()
    return found["ProcessTime"], clock


arguments = sys.argv[1:]
shots = pathlib.Path(arguments[1]) if arguments[0] == "--shots" else None
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    for path in map(pathlib.Path, arguments[2:] if shots else arguments):
        page, said, asked = start(browser, color_scheme="light")
        data = page.evaluate("() => JSON.parse(document.getElementById('data').textContent)")
        if data["command"] == "explain":
            word = "e"
            found = page.evaluate("word => graph.facts.filter(facts => facts.text.toLowerCase().includes(word)).length", word)
            walk_by_tab(page)
            use_graph(page, data)
            search(page, word, found)
            use_colours(page, data)
            use_pages(page, data)
        else:
            open_all(page, data)
        if shots:
            page.screenshot(path=shots / (path.stem + ".png"))
        expect(not said, f"the browser says {said}")
        expect(asked == [path.resolve().as_uri()], f"the page asks for {asked}")
        expect(page.title().startswith(data["document"]["model"]), f"the title is {page.title()}")
        nodes = len(data["drawing"]["nodes"]) if data["drawing"] else 0
        page.context.close()
        told = f"{path.name}: {nodes} nodes"
        if nodes > LARGE:
            processor, clock = seconds_until_used(browser)
            expect(processor < SECONDS, f"{nodes} nodes take {processor:.1f} s")
            told += f", used after {processor:.1f} s of the processor, {clock:.1f} s of the clock"
        print(told)
    browser.close()
