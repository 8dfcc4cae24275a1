"""What MkDocs calls while it builds the site (``hooks`` of mkdocs.yml)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hack.site import accessible, diagrams, folders, repository


if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent
TASKS = ("how-to/", "tutorials/")
"""Folders that the search puts before the reference, which has the same words more often."""
KINDS = "reference/resources/"
"""Folder of pages with all fields, which a search for a field finds before what mentions it."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of folders into the navigation."""
    config.nav = folders.filled(config.nav or [], Path(config.docs_dir))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add Mermaid's script, and the files of the repository that pages link."""
    from mkdocs.structure.files import File

    paths: set[str] = set()
    for file in files.documentation_pages():
        paths |= repository.linked(file.content_string, file.src_uri, _is_file)[1]
    for path in sorted(paths):
        source = ROOT / path
        files.append(
            File.generated(config, f"{repository.SERVED}/{path}", abs_src_path=str(source))
        )
    files.append(File.generated(config, diagrams.SCRIPT, content=diagrams.script()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Fill in lists of pages, make links hold that lead out of docs, and rank pages for tasks."""
    uri = page.file.src_uri
    if uri.startswith(TASKS):
        page.meta["search"] = {"boost": 8}
    elif uri.startswith(KINDS):
        page.meta["search"] = {"boost": 4}
    markdown = folders.listed(markdown, uri, Path(config.docs_dir))
    return repository.linked(markdown, uri, _is_file)[0]


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Give a page with a diagram the script that draws it, and name its parts."""
    return accessible.named(diagrams.drawn(output, "../" * page.url.count("/")))


def on_post_template(output: str, **_: Any) -> str:
    """Name the parts of the page for what is not found."""
    return accessible.named(output)


def _is_file(path: str) -> bool:
    # A text in Markdown would be taken for a page of the site.
    return not path.endswith(".md") and (ROOT / path).is_file()
