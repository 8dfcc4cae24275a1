"""The pages of the embedded issuer: no script, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from aiohttp import web


BANNER = (
    "This is Fairlead's embedded issuer, for laptops and demonstrations."
    " It must not guard anything that matters."
)
"""What stands on every page."""

_STYLE = """
:root { color-scheme: light dark; font: 100%/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 26rem; padding: 1rem; }
.banner { border: 2px solid #b45309; border-radius: .3rem; padding: .5rem .8rem; }
label { display: block; margin-top: 1rem; }
input { box-sizing: border-box; font: inherit; padding: .4rem; width: 100%; }
button { font: inherit; margin-top: 1.2rem; padding: .4rem 1.2rem; }
.fault { border-left: 4px solid #b91c1c; padding-left: .8rem; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# After the form browsers follow redirects, to the callback and on to a program of this machine:
# some of them hold form-action against each step. No policy can name an address of IPv6.
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
    """The form; ``sealed`` is the request that it answers."""
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
    """A page that says why there is no form."""
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
