"""Who is connected here: one connection per client id, the newest by epoch."""

from collections.abc import Iterator
from uuid import UUID

from hub.session import Session


class Registry:
    """Sessions by client."""

    def __init__(self) -> None:
        self._sessions: dict[UUID, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def find(self, client_id: UUID) -> Session | None:
        """The client's session here."""
        return self._sessions.get(client_id)

    def enter(self, session: Session) -> Session | None:
        """Take a session in; returns the one that must go: the client's older one, or this one if it is older."""
        client_id = session.client.client_id
        present = self._sessions.get(client_id)
        if present is not None and present.epoch > session.epoch:
            return session
        self._sessions[client_id] = session
        return present if present is not session else None

    def leave(self, session: Session) -> bool:
        """Forget a session; False if another has taken its place."""
        if self._sessions.get(session.client.client_id) is not session:
            return False
        del self._sessions[session.client.client_id]
        return True
