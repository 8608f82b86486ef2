"""How the practice site behaves in one session: what a real site does to a desktop, chosen through `/control`."""

from typing import Final, Literal

import msgspec

LOGIN_COOKIE: Final = "practice-login"
PASSWORD: Final = "practice"


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One session's behaviour; everything well unless something is chosen."""

    # Whether the chat is only for people who are signed in.
    login: bool = False
    # Whether the login page comes at all.
    login_page: Literal["form", "hang"] = "form"
    # Where it asks whether one is human.
    human_check: Literal["no", "open", "typing", "answer"] = "no"
    blocked: bool = False
    # What opening the chat gives instead: a page with status 500, nothing at all, or a page without a chat.
    opening: Literal["chat", "error", "hang", "other"] = "chat"
    # Seconds that the page takes to come.
    page_seconds: float = 0.0
    # How a question is answered.
    answer: Literal["stream", "toast", "rate_limit", "cut", "endless", "empty", "error", "loop", "signed_out"] = (
        "stream"
    )
    transport: Literal["fetch", "eventsource"] = "fetch"
    editor: Literal["textarea", "contenteditable"] = "textarea"
    cookie_banner: bool = False
    # Milliseconds before the first word, and from word to word.
    first_ms: int = 20
    word_ms: int = 2
