"""Names of the parts of a page that the theme leaves without, for screen readers."""

from __future__ import annotations

import re


_SEARCH = 'data-md-component="search" role="dialog"'
_SECTION = re.compile(r'(<nav class="md-nav"[^>]*aria-labelledby="__nav_[\d_]+)_label"')
_TITLE = re.compile(r'<label class="md-nav__title" for="(__nav_[\d_]+)">')


def named(page: str) -> str:
    """The page with a name for its search, and for each section of its navigation."""
    page = page.replace(_SEARCH, f'{_SEARCH} aria-label="Search"')
    # The theme names a section that has a page of its own by a label without a word in it.
    page = _SECTION.sub(r'\1_title"', page)
    return _TITLE.sub(r'<label class="md-nav__title" for="\1" id="\1_title">', page)
