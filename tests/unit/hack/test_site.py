"""What the manual's site needs besides MkDocs: folders, files of the repository, checks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hack.site import accessible, checks, diagrams, folders, repository


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    for name, text in {
        "how-to/index.md": "# How-to\n\n1. [Second](second.md#now)\n2. [First](first.md)\n",
        "how-to/first.md": "# The first\n",
        "how-to/second.md": "# The second\n",
        "how-to/another.md": "# Another\n",
        "runbooks/README.md": "# Runbooks\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_folder_stands_for_its_pages_as_its_index_links_them(docs: Path) -> None:
    nav = [
        "index.md",
        {"How-to": "how-to/"},
        {"Reference": ["reasons.md", {"Runbooks": "runbooks/"}, {"None": "none/"}]},
        {"Tutorials": "tutorials/"},
    ]
    ordered = ["index.md", "second.md", "first.md", "another.md"]
    assert folders.filled(nav, docs) == [
        "index.md",
        {"How-to": [f"how-to/{name}" for name in ordered]},
        {"Reference": ["reasons.md", {"Runbooks": ["runbooks/README.md"]}]},
    ]


def test_a_list_of_pages_has_their_titles_and_not_the_page_itself(docs: Path) -> None:
    text = "before\n\n<!-- pages: how-to/ -->\n\nafter"
    links = "- [The second]({0}second.md)\n- [The first]({0}first.md)\n- [Another]({0}another.md)"
    for page, root in {
        "index.md": "how-to/",
        "how-to/index.md": "",
        "a/b.md": "../how-to/",
    }.items():
        listed = folders.listed(text, page, docs)
        assert listed == f"before\n\n{links.format(root)}\n\nafter"


@pytest.mark.parametrize(
    ("page", "text", "expected", "files"),
    [
        pytest.param(
            "postgres.md",
            "see [the example](../examples/app.yaml).",
            "see [the example](repository/examples/app.yaml).",
            {"examples/app.yaml"},
            id="file",
        ),
        pytest.param(
            "how-to/bind.md",
            "[`app.yaml`](../../examples/app.yaml)",
            "[`app.yaml`](../repository/examples/app.yaml)",
            {"examples/app.yaml"},
            id="deeper",
        ),
        pytest.param(
            "a.md", "[rules](../config/alerts)", "rules (`config/alerts`)", set(), id="folder"
        ),
        pytest.param(
            "a.md", "[config/alerts](../config/alerts)", "`config/alerts`", set(), id="named"
        ),
        pytest.param("how-to/a.md", "[x](../b.md#c)", "[x](../b.md#c)", set(), id="page"),
        pytest.param("a.md", "[x](b.md) [y](#z)", "[x](b.md) [y](#z)", set(), id="beside"),
    ],
)
def test_links_out_of_docs(page: str, text: str, expected: str, files: set[str]) -> None:
    is_file = {"examples/app.yaml"}.__contains__
    assert repository.linked(text, page, is_file) == (expected, files)


def test_a_page_with_a_diagram_brings_the_script_before_the_theme_asks_for_it() -> None:
    page = '<body><pre class="mermaid"></pre><script src="theme.js"></script></body>'
    script = f'<script src="../{diagrams.SCRIPT}"></script>'
    assert diagrams.drawn(page, "../") == page.replace("<script", script + "<script")
    assert diagrams.drawn("<body></body>", "../") == "<body></body>"
    assert "globalThis[" in diagrams.script()


def test_sections_of_the_navigation_are_named_by_their_titles() -> None:
    page = (
        '<nav class="md-nav" data-md-level="1" aria-labelledby="__nav_2_1_label">'
        '<label class="md-nav__title" for="__nav_2_1">Reference</label></nav>'
        '<div data-md-component="search" role="dialog"></div>'
    )
    assert accessible.named(page) == (
        '<nav class="md-nav" data-md-level="1" aria-labelledby="__nav_2_1_title">'
        '<label class="md-nav__title" for="__nav_2_1" id="__nav_2_1_title">Reference</label></nav>'
        '<div data-md-component="search" role="dialog" aria-label="Search"></div>'
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    page = '<link rel="canonical" href="https://a.example/"><h1 id="here">1</h1>{}'
    good = (
        '<a href="../b/#here">b</a> <a href="#here">here</a> <a href="https://b.example">far</a>'
        '<a href="mailto:a@b.example">m</a> <img src="../i.png"> <a href="..">up</a>'
    )
    for name, text in {
        "index.html": page.format(""),
        "a/index.html": page.format(good),
        "b/index.html": page.format(""),
        "404.html": page.format('<link rel="stylesheet" href="/style.css">'),
        "i.png": "",
        "style.css": "p { background: url(i.png) url('data:image/svg+xml,x') }",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_site_whose_links_hold_has_no_problem(site: Path) -> None:
    assert list(checks.problems(site)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param('<a href="../c/">', "../c/: is not in the site", id="page"),
        pytest.param('<a href="../b/#there">', "../b/#there: has no such anchor", id="anchor"),
        pytest.param('<a href="#there">', "#there: has no such anchor", id="own-anchor"),
        pytest.param('<a href="../../x">', "../../x: is not in the site", id="out"),
        pytest.param('<a href="/b/">', "/b/: leads to the host's root", id="root"),
        pytest.param('<img src="../j.png">', "../j.png: is not in the site", id="image"),
        *(
            pytest.param(text, f"{address}: loaded from another host", id=kind)
            for kind, address, text in [
                ("script", "https://c.example/x.js", '<script src="https://c.example/x.js">'),
                ("bare", "//c.example/x.js", '<script src="//c.example/x.js">'),
                (
                    "sheet",
                    "https://c.example/",
                    '<link rel="preconnect" href="https://c.example/">',
                ),
                (
                    "font",
                    "https://c.example/f",
                    "<style>a{src:url('https://c.example/f')}</style>",
                ),
                (
                    "style",
                    "https://c.example/i",
                    '<p style="background:url(https://c.example/i)">',
                ),
                (
                    "set",
                    "https://c.example/i",
                    '<img srcset="../i.png 1x, https://c.example/i 2x">',
                ),
            ]
        ),
    ],
)
def test_a_problem_is_one_line(site: Path, text: str, problem: str) -> None:
    (site / "a" / "index.html").write_text(text)
    assert list(checks.problems(site)) == [f"a/index.html: {problem}"]


def test_a_style_sheet_asks_no_other_host(site: Path) -> None:
    (site / "style.css").write_text("@import 'https://c.example/s.css';")
    problem = "style.css: https://c.example/s.css: loaded from another host"
    assert list(checks.problems(site)) == [problem]
