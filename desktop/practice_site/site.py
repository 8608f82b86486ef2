"""The practice site as an ASGI application. Each session (`/{session}/…`) has its own behaviour, people and counts."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from desktop.practice_site.answers import MODEL, answer_to, chunks
from desktop.practice_site.behaviour import LOGIN_COOKIE, PASSWORD, Behaviour

PAGES: Final = Path(__file__).parent / "pages"
DEFAULT: Final = "default"
MOST_QUESTION: Final = 20_000


@dataclass(slots=True)
class Session:
    """One session: its behaviour, who is signed in, and what it was asked."""

    behaviour: Behaviour
    logins: set[str] = field(default_factory=set)
    human: bool = False
    opened: int = 0
    questions: list[str] = field(default_factory=list)
    # Answers sent to their last word.
    answered: int = 0
    waiting: int = 0


class PracticeSite:
    """All sessions. `behaviour` is what a new session begins with."""

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self._behaviour = behaviour or Behaviour()
        self.sessions: dict[str, Session] = {}

    def session(self, name: str) -> Session:
        """The session of that name, made where there is none."""
        return self.sessions.setdefault(name, Session(self._behaviour))

    def app(self) -> Starlette:
        """The application."""
        return Starlette(
            routes=[
                Route("/", self._to_default),
                Route("/{session}/", self._chat),
                Route("/{session}/login", self._login, methods=["GET", "POST"]),
                Route("/{session}/check", self._check, methods=["GET", "POST"]),
                Route("/{session}/api/answer", self._answer, methods=["GET", "POST"]),
                Route("/{session}/api/never", self._never),
                Route("/{session}/state", self._state),
                Route("/{session}/control", self._control, methods=["GET", "PUT"]),
            ]
        )

    async def _to_default(self, _: Request) -> Response:
        return RedirectResponse(f"/{DEFAULT}/")

    # --- pages ----------------------------------------------------------------------------------------------

    async def _chat(self, request: Request) -> Response:
        session = self._of(request)
        session.opened += 1
        behaviour = session.behaviour
        await asyncio.sleep(behaviour.page_seconds)
        if behaviour.blocked:
            return _page("blocked", status=403)
        if behaviour.human_check == "open" and not session.human:
            return RedirectResponse("check")
        if behaviour.login and not _signed_in(session, request):
            return RedirectResponse("login?next=chat&ticket=practice-ticket")
        return await self._opened(behaviour)

    async def _opened(self, behaviour: Behaviour) -> Response:
        match behaviour.opening:
            case "hang":
                await asyncio.Event().wait()
            case "error":
                return _page("error", status=500)
            case "other":
                return HTMLResponse("<!doctype html><title>Welcome</title><p>Nothing to ask here.")
        return _page("chat", settings=msgspec.json.encode(behaviour).decode(), model=MODEL)

    async def _login(self, request: Request) -> Response:
        session = self._of(request)
        if session.behaviour.login_page == "hang":
            await asyncio.Event().wait()
        if request.method == "GET":
            return _page("login")
        form = parse_qs((await request.body()).decode())
        if form.get("password") != [PASSWORD]:
            return _page("login", status=401)
        answer = RedirectResponse("./", status_code=303)
        answer.set_cookie(
            LOGIN_COOKIE,
            self.sign_in(session),
            path=f"/{request.path_params['session']}/",
            max_age=86_400,
            httponly=True,
        )
        return answer

    async def _check(self, request: Request) -> Response:
        if request.method == "GET":
            return _page("check")
        self._of(request).human = True
        return RedirectResponse("./", status_code=303)

    @staticmethod
    def sign_in(session: Session) -> str:
        """A new login; the value of its cookie."""
        login = secrets.token_hex(16)
        session.logins.add(login)
        return login

    # --- answers --------------------------------------------------------------------------------------------

    async def _answer(self, request: Request) -> Response:
        session = self._of(request)
        question = (await _question(request))[:MOST_QUESTION]
        session.questions.append(question)
        match session.behaviour.answer:
            case "rate_limit":
                return JSONResponse({"error": {"code": "rate_limit", "message": "Too many questions"}}, status_code=429)
            case "error":
                return JSONResponse({"error": {"code": "internal", "message": "It broke"}}, status_code=500)
        if session.behaviour.human_check == "answer":
            await self._until_human(session)
        headers = {"X-Request-Id": f"practice-{len(session.questions)}", "Cache-Control": "no-store"}
        return StreamingResponse(self._stream(session, question), media_type="text/event-stream", headers=headers)

    async def _never(self, _: Request) -> Response:
        await asyncio.Event().wait()
        return Response()

    async def _until_human(self, session: Session) -> None:
        while not session.human:
            await asyncio.sleep(0.02)

    async def _stream(self, session: Session, question: str) -> AsyncIterator[bytes]:
        behaviour = session.behaviour
        session.waiting += 1
        try:
            await asyncio.sleep(behaviour.first_ms / 1000)
            pieces = list(chunks("" if behaviour.answer == "empty" else answer_to(question)))
            for number, piece in enumerate(pieces):
                await self._trouble(behaviour, number, len(pieces))
                yield piece
                await asyncio.sleep(behaviour.word_ms / 1000)
            session.answered += 1
        finally:
            session.waiting -= 1

    async def _trouble(self, behaviour: Behaviour, number: int, count: int) -> None:
        """In the middle of an answer."""
        if number != count // 2:
            return
        if behaviour.answer == "cut":
            raise ConnectionAbortedError("the answer breaks off here, as it was asked to")
        if behaviour.answer == "endless":
            await asyncio.Event().wait()

    # --- steering -------------------------------------------------------------------------------------------

    async def _state(self, request: Request) -> Response:
        """What the waiting pages ask: whether they may go on."""
        session = self._of(request)
        wanted = session.behaviour.login or session.behaviour.answer == "signed_out"
        login = wanted and not _signed_in(session, request)
        human = session.behaviour.human_check != "no" and not session.human
        return JSONResponse({"login": login, "human_check": human})

    async def _control(self, request: Request) -> Response:
        """GET: behaviour and counts. PUT: change what the body names; `human` and `forget_logins` act at once."""
        name = request.path_params["session"]
        if request.method == "PUT":
            try:
                self.change(name, await request.json())
            except (TypeError, ValueError) as error:
                return JSONResponse({"error": str(error)}, status_code=422)
        session = self.session(name)
        return JSONResponse(
            {
                "behaviour": msgspec.to_builtins(session.behaviour),
                "human": session.human,
                "opened": session.opened,
                "questions": session.questions,
                "answered": session.answered,
                "waiting": session.waiting,
            }
        )

    def change(self, name: str, wanted: dict[str, Any]) -> None:
        """Behave otherwise from now on. msgspec.ValidationError for what there is not."""
        session, wanted = self.session(name), dict(wanted)
        if wanted.pop("forget_logins", False):
            session.logins.clear()
        session.human = bool(wanted.pop("human", session.human))
        known = msgspec.to_builtins(session.behaviour)
        session.behaviour = msgspec.convert({**known, **wanted}, Behaviour)

    def _of(self, request: Request) -> Session:
        return self.session(request.path_params["session"])


def _signed_in(session: Session, request: Request) -> bool:
    return request.cookies.get(LOGIN_COOKIE) in session.logins


async def _question(request: Request) -> str:
    if request.method == "GET":
        return request.query_params.get("question", "")
    body = await request.json()
    return str(body.get("question", ""))


def _page(name: str, status: int = 200, **values: str) -> Response:
    text = (PAGES / f"{name}.html").read_text(encoding="utf-8")
    for key, value in values.items():
        # Inside a script element, where only the end of the element is special.
        text = text.replace("{{" + key + "}}", value.replace("</", "<\\/"))
    return HTMLResponse(text, status_code=status, headers={"Cache-Control": "no-store"})
