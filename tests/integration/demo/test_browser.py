"""What the story's people have for a browser, at pages of a server on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from fairlead.demo.browser import sign_in
from fairlead.demo.steps import StoryError


PAGE = """<!doctype html><form method="post" action="sent?to=here">
<input type="hidden" name="request" value="a &quot;b&quot;"><input name="name" value="old">
<input name="password" type="password"><button type="submit">Sign in</button></form>"""


class Site:
    """A page that needs a cookie, a form, and where it leads."""

    def __init__(self) -> None:
        self.url = ""
        self.sent: dict[str, str] = {}
        self.origin = ""
        self.ended = False

    async def start(self, request: web.Request) -> web.Response:
        answer = web.Response(status=302, headers={"Location": "/people/form"})
        answer.set_cookie("began", "here", path="/")
        return answer

    async def form(self, request: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    async def take(self, request: web.Request) -> web.Response:
        posted = await request.post()
        self.sent = {name: str(value) for name, value in posted.items()} | dict(request.query)
        self.origin = request.headers["Origin"]
        if self.sent["password"] != "right" or request.cookies.get("began") != "here":
            return web.Response(status=401, text=PAGE, content_type="text/html")
        return web.Response(status=303, headers={"Location": "/end"})

    async def end(self, request: web.Request) -> web.Response:
        self.ended = request.cookies.get("began") == "here"
        return web.Response(text="done")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site, app = Site(), web.Application()
    app.router.add_get("/start", site.start)
    app.router.add_get("/people/form", site.form)
    app.router.add_post("/people/sent", site.take)
    app.router.add_get("/end", site.end)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield site
    await runner.cleanup()


async def test_a_form_is_filled_in_and_followed_to_the_end(site: Site) -> None:
    await sign_in(f"{site.url}/start", "ada", "right")
    assert site.sent == {"to": "here", "request": 'a "b"', "name": "ada", "password": "right"}
    assert (site.origin, site.ended) == (site.url, True)


async def test_a_password_that_is_refused_is_told(site: Site) -> None:
    with pytest.raises(StoryError, match=r"/people/sent answers 401 to ada$"):
        await sign_in(f"{site.url}/start", "ada", "wrong")
    assert not site.ended


@pytest.mark.parametrize(("path", "status"), [("/end", 200), ("/nowhere", 404)])
async def test_a_page_without_a_form_is_told(site: Site, path: str, status: int) -> None:
    with pytest.raises(StoryError, match=rf"{path} answers {status} and shows no form$"):
        await sign_in(site.url + path, "ada", "right")
