"""The embedded issuer's pages: without scripts and without external files."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from aiohttp import web


BANNER = (
    "This is Fairlead's embedded issuer, for laptops and demonstrations."
    " It must not guard anything that matters."
)
"""Warning on every page."""

_STYLE = """
:root {
  color-scheme: light dark; --back: #f4f6f9; --panel: #fff; --front: #1a2330; --line: #d5dbe3;
  --edge: #7b8794; --strong: #0b57a8; --on: #fff; --bad: #a8201a; --bad-back: #fce8e6;
  --wait: #7a4a00; --wait-back: #fdf0d5;
  font: 100%/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #0f141b; --panel: #181f29; --front: #e6ebf2; --line: #2c3644; --edge: #73808f;
    --strong: #8dbbff; --on: #0b1524; --bad: #ff9d95; --bad-back: #3a1a19; --wait: #ffc66b;
    --wait-back: #35270c;
  }
}
* { box-sizing: border-box; }
body { background: var(--back); color: var(--front); margin: 0; }
.banner { background: var(--wait-back); border-bottom: 1px solid var(--line); color: var(--wait); }
.banner { font-size: .875rem; padding: .4rem 1rem; text-align: center; }
main { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; }
main { margin: 8vh auto 2rem; padding: 1.75rem; width: min(26rem, 100% - 2rem); }
h1 { font-size: 1.5rem; line-height: 1.2; margin: 0 0 1rem; }
p { margin: 0; overflow-wrap: anywhere; }
label { display: block; font-weight: 600; margin: 1rem 0 .3rem; }
input, button { border: 1px solid var(--edge); border-radius: .4rem; font: inherit; }
input, button { min-height: 2.75rem; padding: .4rem .8rem; width: 100%; }
input { background: var(--panel); color: inherit; }
button { background: var(--strong); border-color: var(--strong); color: var(--on); }
button { cursor: pointer; font-weight: 600; margin-top: 1.5rem; }
:focus-visible { outline: 3px solid var(--strong); outline-offset: 2px; }
.fault { background: var(--bad-back); border-radius: .4rem; color: var(--bad); padding: .7rem; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# Some browsers apply form-action to each redirect after the form: to the callback, and on to a
# CLI on this machine. A policy cannot name an IPv6 address.
_LEADS = "'self' http://127.0.0.1:* http://localhost:*"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {_LEADS};"
        " base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every page."""


def sign_in(
    action: str, sealed: str, *, name: str = "", fault: str = "", status: int = 200
) -> web.Response:
    """Return the sign-in form; ``sealed`` is the authorization request."""
    told = f'<p class="fault" role="alert">{escape(fault)}</p>' if fault else ""
    focus = (" autofocus", "") if not name else ("", " autofocus")
    return _page(
        "Sign in",
        f"""{told}
<form method="post" action="{escape(action)}">
<input type="hidden" name="request" value="{escape(sealed)}">
<label for="name">Name</label>
<input id="name" name="name" value="{escape(name)}" autocomplete="username" required{focus[0]}>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password"
 required{focus[1]}>
<button type="submit">Sign in</button>
</form>""",
        status=status,
    )


def refused(text: str, *, status: int) -> web.Response:
    """Return a page that says why there is no form."""
    return _page("No sign-in", f'<p class="fault">{escape(text)}</p>', status=status)


def _page(title: str, body: str, *, status: int) -> web.Response:
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title} · Fairlead</title>
<style>{_STYLE}</style>
</head>
<body>
<aside class="banner" aria-label="Embedded issuer">{BANNER}</aside>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""
    return web.Response(status=status, text=text, content_type="text/html", headers=HEADERS)
