"""Who calls: JSON web tokens with pinned algorithms (6-operations, Security).

HS256 with the development key in development only; RS256 and ES256 with a JWKS in production.
"""

import asyncio
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol, assert_never
from urllib.parse import urlsplit
from urllib.request import url2pathname

import jwt
import orjson

from api.problems import unauthorized
from domain.errors import Forbidden, GivewayError, NotFound
from settings import Settings

DEVELOPMENT_ALGORITHMS: Final = ("HS256",)
PRODUCTION_ALGORITHMS: Final = ("RS256", "ES256")
REQUIRED_CLAIMS: Final = ("exp", "aud", "iss", "sub", "tenant", "workspaces")
MIN_KEY_BYTES: Final = 32
MAX_TOKEN_CHARS: Final = 8192
MAX_WORKSPACES: Final = 1000
LEEWAY_SECONDS: Final = 10
JWKS_TIMEOUT_SECONDS: Final = 5
INT64: Final = 2**63 - 1
_DECIMAL: Final = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)


class SettingsRefused(GivewayError):
    """The process must not start with these settings."""

    code = "settings_refused"


class KeysUnavailable(GivewayError):
    """The JWKS can't be read now, so nobody can be told from an impostor; the same call is safe to repeat."""

    code = "keys_unavailable"
    http_status = 503
    retryable = True


class Role(StrEnum):
    """What a user may do, each including the ones before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    OPS = "ops"

    @property
    def rank(self) -> int:
        """Position in the order of power."""
        match self:
            case Role.VIEWER:
                return 0
            case Role.OPERATOR:
                return 1
            case Role.ADMIN:
                return 2
            case Role.OPS:
                return 3
            case _:
                assert_never(self)


@dataclass(frozen=True, slots=True)
class Principal:
    """A signed-in user of one tenant, and the workspaces that the token opens."""

    tenant_id: int
    workspace_ids: tuple[int, ...]
    user_id: int
    role: Role

    def require(self, role: Role) -> None:
        """Forbidden unless the user's role includes `role`."""
        if self.role.rank < role.rank:
            raise Forbidden(f"this needs the role {role.value}; yours is {self.role.value}")

    def require_workspace(self, workspace_id: int) -> None:
        """NotFound for a workspace that the token does not open."""
        if workspace_id not in self.workspace_ids:
            raise NotFound(f"no workspace {workspace_id}")


class KeySource(Protocol):
    """Finds the key for a token's header. Raises jwt.PyJWTError for none."""

    @property
    def algorithms(self) -> tuple[str, ...]: ...

    async def key_of(self, header: Mapping[str, Any]) -> Any: ...


class DevelopmentKey:
    """One shared secret; never in production."""

    algorithms = DEVELOPMENT_ALGORITHMS

    def __init__(self, key: str) -> None:
        self._key = key

    async def key_of(self, header: Mapping[str, Any]) -> Any:
        return self._key


class JwksFile:
    """A JWKS in a local file, read anew when it has changed."""

    algorithms = PRODUCTION_ALGORITHMS

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[int, jwt.PyJWKSet] | None = None

    async def key_of(self, header: Mapping[str, Any]) -> Any:
        return _find_key(await asyncio.to_thread(self._load), header)

    def _load(self) -> jwt.PyJWKSet:
        try:
            changed = self._path.stat().st_mtime_ns
            if self._read is None or self._read[0] != changed:
                self._read = (changed, jwt.PyJWKSet.from_dict(orjson.loads(self._path.read_bytes())))
        except (OSError, ValueError) as error:
            raise KeysUnavailable(f"the JWKS file cannot be read: {type(error).__name__}") from error
        return self._read[1]


class JwksUrl:
    """A JWKS behind HTTPS, cached for 5 minutes; an unknown kid asks again at most every 30 s."""

    algorithms = PRODUCTION_ALGORITHMS

    def __init__(self, url: str) -> None:
        self._client = jwt.PyJWKClient(url, timeout=JWKS_TIMEOUT_SECONDS)

    async def key_of(self, header: Mapping[str, Any]) -> Any:
        try:
            return await asyncio.to_thread(self._client.get_signing_key, str(header.get("kid")))
        except jwt.PyJWKClientConnectionError as error:
            raise KeysUnavailable("the identity provider's keys cannot be read; try again") from error


def _find_key(keys: jwt.PyJWKSet, header: Mapping[str, Any]) -> jwt.PyJWK:
    for key in keys.keys:
        if key.key_id is not None and key.key_id == header.get("kid") and key.algorithm_name in PRODUCTION_ALGORITHMS:
            return key
    raise jwt.InvalidKeyError("no such kid")


def key_source(settings: Settings) -> KeySource:
    """The keys that the settings allow. SettingsRefused: a development key in production, or the other way round."""
    key, jwks = settings.jwt_dev_key.get_secret_value(), settings.jwks_url
    match settings.environment:
        case "production":
            return _production_keys(key, jwks)
        case "development":
            return _development_key(key, jwks)
        case other:
            raise SettingsRefused(f"ENVIRONMENT is development or production, not {other!r}")


def _production_keys(key: str, jwks: str) -> KeySource:
    if key:
        raise SettingsRefused("production does not start with JWT_DEV_KEY set; unset it")
    parts = urlsplit(jwks)
    if parts.scheme == "file":
        return JwksFile(Path(url2pathname(parts.path)))
    if parts.scheme in ("https", "http") and parts.netloc:
        return JwksUrl(jwks)
    raise SettingsRefused("production needs JWKS_URL: an https:// or file:// address of a JSON Web Key Set")


def _development_key(key: str, jwks: str) -> KeySource:
    if jwks:
        raise SettingsRefused("JWKS_URL is for production; set ENVIRONMENT=production or unset it")
    if len(key.encode()) < MIN_KEY_BYTES:
        raise SettingsRefused(f"development needs JWT_DEV_KEY of at least {MIN_KEY_BYTES} bytes")
    return DevelopmentKey(key)


class TokenVerifier:
    """Turns a bearer token into a principal, or raises Unauthorized whatever is wrong with it."""

    def __init__(self, settings: Settings) -> None:
        self._keys = key_source(settings)
        self._audience, self._issuer = settings.jwt_audience, settings.jwt_issuer

    async def verify(self, token: str) -> Principal:
        """Raises Unauthorized, or KeysUnavailable (503) when the keys can't be read."""
        if not token or len(token) > MAX_TOKEN_CHARS:
            raise unauthorized("missing or too long")
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in self._keys.algorithms:
                raise unauthorized("algorithm not allowed")
            return principal_of(self._decode(token, await self._keys.key_of(header)))
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise unauthorized(type(error).__name__) from None

    def _decode(self, token: str, key: Any) -> dict[str, Any]:
        return jwt.decode(
            token,
            key,
            algorithms=list(self._keys.algorithms),
            audience=self._audience,
            issuer=self._issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": list(REQUIRED_CLAIMS)},
        )


def principal_of(claims: Mapping[str, Any]) -> Principal:
    """The principal that verified claims name. ValueError for claims of a wrong form; no role means viewer."""
    subject, workspaces = claims["sub"], claims["workspaces"]
    if not isinstance(subject, str) or not _DECIMAL.fullmatch(subject):
        raise ValueError("sub is not a decimal user id")
    if not isinstance(workspaces, list) or len(workspaces) > MAX_WORKSPACES:
        raise ValueError("workspaces is not a list of ids")
    return Principal(
        tenant_id=_id(claims["tenant"]),
        workspace_ids=tuple(sorted({_id(item) for item in workspaces})),
        user_id=_id(int(subject)),
        role=Role(claims.get("role", Role.VIEWER)),
    )


def _id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= INT64:
        raise ValueError("not an id")
    return value


def issue_development_token(
    settings: Settings,
    tenant_id: int,
    workspaces: Collection[int],
    user_id: int = 1,
    role: Role | str = Role.OPERATOR,
    ttl: int = 8 * 3600,
) -> str:
    """A token signed with the development key, valid for `ttl` seconds. SettingsRefused outside development."""
    if settings.environment != "development":
        raise SettingsRefused("tokens are issued here in development only; ask your identity provider")
    key_source(settings)
    now = int(time.time())
    claims = {
        "iss": settings.jwt_issuer,
        "aud": settings.jwt_audience,
        "iat": now,
        "exp": now + ttl,
        "sub": str(user_id),
        "tenant": tenant_id,
        "workspaces": sorted(workspaces),
        "role": Role(role).value,
    }
    return jwt.encode(claims, settings.jwt_dev_key.get_secret_value(), algorithm=DEVELOPMENT_ALGORITHMS[0])
