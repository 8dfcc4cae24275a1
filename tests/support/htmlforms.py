"""Forms of pages, posted as a browser does."""

from __future__ import annotations

from html.parser import HTMLParser

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from fairlead.portal.console.authoring import Form
from fairlead.portal.console.pages.rendering import unturned


Fields = list[tuple[str, str]]
_ENVIRONMENT = Environment(
    loader=PackageLoader("fairlead.portal.console"),
    autoescape=select_autoescape(default=True, default_for_string=True),
    finalize=unturned,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_PAGE = _ENVIRONMENT.from_string(
    '{% import "form.html" as forms %}{{ forms.problems(form) }}{{ forms.result(form) }}'
    '<form method="post" novalidate>{{ forms.controls(form) }}</form>'
)


class Page(HTMLParser):
    """A form's page: what would be posted, its ids and what refers to them, tags and texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.fields: Fields = []
        self.ids: list[str] = []
        self.referred: list[str] = []
        self.tags: set[str] = set()
        self.buttons: Fields = []
        self.focused: list[str] = []
        self.told: list[str] = []
        self._area: list[str] | None = None
        self._options: list[tuple[str, bool]] = []
        self._name = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        assert not any(name.startswith("on") or name == "style" for name in said), attrs
        if "id" in said:
            self.ids.append(said["id"])
        for name in ("for", "aria-describedby", "aria-labelledby"):
            self.referred += said.get(name, "").split()
        if said.get("href", "").startswith("#"):
            self.referred.append(said["href"][1:])
        if "autofocus" in said:
            self.focused.append(said.get("name", said.get("id", tag)) + said.get("value", ""))
        name = said.get("name", "")
        match tag:
            case "input" if said["type"] in {"checkbox", "radio"}:
                if "checked" in said:
                    self.fields.append((name, said["value"]))
            case "input":
                self.fields.append((name, said["value"]))
            case "button" if name:
                self.buttons.append((name, said["value"]))
            case "textarea":
                self._name, self._area = name, []
            case "select":
                self._name, self._options = name, []
            case "option":
                self._options.append((said["value"], "selected" in said))

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area is not None:
            text = "".join(self._area).removeprefix("\n")
            self.fields.append((self._name, text.replace("\n", "\r\n")))
            self._area = None
        if tag == "select":
            chosen = [value for value, selected in self._options if selected]
            self.fields.append((self._name, chosen[0] if chosen else self._options[0][0]))

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._area.append(data)
        self.told.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.told).split())


def shown(form: Form) -> Page:
    """The page of a form, whose ids are its own and are all there."""
    page = Page(_PAGE.render(form=form))
    assert len(page.ids) == len(set(page.ids))
    assert set(page.referred) <= set(page.ids)
    assert len(page.focused) <= 1
    return page
