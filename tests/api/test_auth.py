"""Forged, foreign and worn-out tokens are 401; a process does not start with the wrong kind of key."""

import base64
import hashlib
import hmac
import json
import logging
import time
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from api.auth import KeysUnavailable, Role, SettingsRefused, TokenVerifier, issue_development_token, key_source
from domain.errors import Unauthorized
from settings import Settings
from tests.api.conftest import DEVELOPMENT_KEY, Caller, problem_of
from tests.support.world import World

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
STRANGER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def claims(**changes: Any) -> dict[str, Any]:
    made = {
        "iss": "giveway-dev",
        "aud": "giveway",
        "exp": int(time.time()) + 600,
        "sub": "7",
        "tenant": 1,
        "workspaces": [1],
        "role": "admin",
        **changes,
    }
    return {name: value for name, value in made.items() if value is not ...}


def signed(key: Any = DEVELOPMENT_KEY, algorithm: str = "HS256", kid: str | None = None, **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, algorithm=algorithm, headers={"kid": kid} if kid else None)


def assembled(header: dict[str, Any], payload: str | None = None, signature: bytes = b"") -> str:
    """A token put together by hand, for what a library refuses to sign."""
    parts = [json.dumps(header).encode(), (payload or json.dumps(claims())).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def hand_signed(payload: str) -> str:
    """Signed with the development key, whatever the payload."""
    return jwt.api_jws.encode(payload.encode(), DEVELOPMENT_KEY, algorithm="HS256")


@pytest.fixture
def production(tmp_path: Path) -> Settings:
    keys = [
        {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA_KEY.public_key())), "kid": "r", "alg": "RS256"},
        {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(EC_KEY.public_key())), "kid": "e", "alg": "ES256"},
        {"kty": "oct", "kid": "o", "alg": "HS256", "k": base64.urlsafe_b64encode(b"k" * 32).decode()},
    ]
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": keys}))
    return Settings(_env_file=None, environment="production", jwt_dev_key="", jwks_url=path.as_uri())


FORGED = {
    "alg none": assembled({"alg": "none", "typ": "JWT"}),
    "alg nOnE": assembled({"alg": "nOnE", "typ": "JWT"}),
    "no alg": assembled({"typ": "JWT"}),
    "alg is a list": assembled({"alg": ["HS256"]}),
    "another key": signed("another key of forty bytes or even more!"),
    "empty signature": signed().rpartition(".")[0] + ".",
    "changed payload": ".".join([signed().split(".")[0], signed(tenant=2).split(".")[1], signed().split(".")[2]]),
    "HS512": signed(DEVELOPMENT_KEY * 2, algorithm="HS512"),
    "RS256 in development": signed(STRANGER, "RS256"),
    "expired": signed(exp=int(time.time()) - 60),
    "not yet valid": signed(nbf=int(time.time()) + 600),
    "wrong audience": signed(aud="somebody"),
    "wrong issuer": signed(iss="somebody"),
    "no exp": signed(exp=...),
    "no aud": signed(aud=...),
    "no iss": signed(iss=...),
    "no sub": signed(sub=...),
    "no tenant": signed(tenant=...),
    "no workspaces": signed(workspaces=...),
    "sub is a name": signed(sub="root"),
    "sub is negative": signed(sub="-7"),
    "sub is too large": signed(sub="9" * 19),
    "sub in other digits": signed(sub="٧"),
    "tenant is text": signed(tenant="1"),
    "tenant is true": signed(tenant=True),
    "tenant is a fraction": signed(tenant=1.5),
    "tenant is too large": signed(tenant=2**63),
    "workspaces is text": signed(workspaces="1"),
    "workspaces of text": signed(workspaces=["1"]),
    "too many workspaces": signed(workspaces=list(range(1, 1002))),
    "unknown role": signed(role="root"),
    "role is a list": signed(role=["admin"]),
    "exp is text": hand_signed(json.dumps(claims(exp="soon"))),
    "exp is infinite": hand_signed(json.dumps(claims()).replace(str(claims()["exp"]), "1e999")),
    "claims are a list": hand_signed("[]"),
    "claims are nested": hand_signed("[" * 3000 + "]" * 3000),
    "kid is a list": assembled({"alg": "HS256", "kid": ["x"]}),
    "critical header": assembled({"alg": "HS256", "crit": ["x"], "x": 1}),
    "garbage": "garbage",
    "two dots": "..",
    "NUL": "a.b.c\x00".replace("\x00", "%00"),
    "oversized": "x" * 100_000,
}


@pytest.mark.parametrize("name", FORGED)
async def test_a_forged_or_worn_out_token_is_401(http: httpx.AsyncClient, name: str) -> None:
    response = await http.get("/api/tenant/monitoring/brands", headers={"Authorization": f"Bearer {FORGED[name]}"})
    problem = problem_of(response, 401)
    assert problem["code"] == "unauthorized"
    assert response.headers["www-authenticate"] == "Bearer"
    assert FORGED[name] not in response.text


async def test_every_tenant_route_needs_a_token(http: httpx.AsyncClient) -> None:
    for headers in ({}, {"Authorization": "Basic dTpw"}, {"Authorization": "Bearer"}, {"Authorization": "Bearer  "}):
        problem_of(await http.get("/api/tenant/monitoring/brands", headers=headers), 401)
        problem_of(await http.post("/api/desktop/clients", json={}, headers=headers), 401)


async def test_in_production_the_keys_of_the_jwks_sign_and_nothing_else(production: Settings) -> None:
    verifier = TokenVerifier(production)
    pem = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert (await verifier.verify(signed(RSA_KEY, "RS256", "r"))).role is Role.ADMIN
    assert (await verifier.verify(signed(EC_KEY, "ES256", "e"))).user_id == 7
    swapped = jwt.api_jws.encode(json.dumps(claims()).encode(), b"k" * 32, algorithm="HS256", headers={"kid": "o"})
    unsigned = {"alg": "HS256", "kid": "r"}
    forged = {
        "signed with the public key": assembled(unsigned, signature=_hmac(unsigned, pem)),
        "symmetric key of the JWKS": swapped,
        "development key": signed(),
        "none": assembled({"alg": "none", "kid": "r"}),
        "stranger's key": signed(STRANGER, "RS256", "r"),
        "unknown kid": signed(RSA_KEY, "RS256", "x"),
        "no kid": signed(RSA_KEY, "RS256"),
        "kid is a path": signed(RSA_KEY, "RS256", "../../../../dev/null"),
        "kid is SQL": signed(RSA_KEY, "RS256", "r' or '1'='1"),
        "kid of the other key": signed(RSA_KEY, "RS256", "e"),
        "other algorithm of the family": signed(RSA_KEY, "RS512", "r"),
        "own key in the header": jwt.encode(
            claims(),
            STRANGER,
            algorithm="RS256",
            headers={"kid": "x", "jku": "https://evil.example/keys", "jwk": {"kty": "RSA"}},
        ),
    }
    taken = [name for name, token in forged.items() if await accepts(verifier, token)]
    assert taken == []


async def accepts(verifier: TokenVerifier, token: str) -> bool:
    try:
        await verifier.verify(token)
    except Unauthorized:
        return False
    return True


def _hmac(header: dict[str, Any], key: bytes) -> bytes:
    return hmac.new(key, assembled(header).rpartition(".")[0].encode(), hashlib.sha256).digest()


async def test_keys_that_cannot_be_read_are_503_not_401(production: Settings) -> None:
    gone = production.model_copy(update={"jwks_url": "file:///nowhere/jwks.json"})
    with pytest.raises(KeysUnavailable):
        await TokenVerifier(gone).verify(signed(RSA_KEY, "RS256", "r"))
    away = production.model_copy(update={"jwks_url": "http://127.0.0.1:1/jwks.json"})
    with pytest.raises(KeysUnavailable):
        await TokenVerifier(away).verify(signed(RSA_KEY, "RS256", "r"))


@pytest.mark.parametrize(
    "given",
    [
        {"environment": "production", "jwt_dev_key": DEVELOPMENT_KEY, "jwks_url": "https://idp.example/jwks"},
        {"environment": "production", "jwt_dev_key": "", "jwks_url": ""},
        {"environment": "production", "jwt_dev_key": "", "jwks_url": "ftp://idp.example/jwks"},
        {"environment": "development", "jwt_dev_key": "", "jwks_url": ""},
        {"environment": "development", "jwt_dev_key": "short", "jwks_url": ""},
        {"environment": "development", "jwt_dev_key": DEVELOPMENT_KEY, "jwks_url": "https://idp.example/jwks"},
        {"environment": "staging", "jwt_dev_key": DEVELOPMENT_KEY, "jwks_url": ""},
    ],
)
def test_a_process_does_not_start_with_the_wrong_kind_of_key(given: dict[str, str]) -> None:
    with pytest.raises(SettingsRefused):
        key_source(Settings(_env_file=None, **given))  # type: ignore[arg-type]


def test_no_token_is_issued_in_production(production: Settings) -> None:
    with pytest.raises(SettingsRefused):
        issue_development_token(production, 1, [1])


async def test_a_token_in_the_url_is_refused_and_in_no_log(
    call: Caller, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "a-token-that-must-not-be-seen"
    for name in ("token", "access_token", "Access_Token", "%74oken", "jwt"):
        response = await call("GET", f"/api/tenant/monitoring/brands?{name}={secret}")
        assert problem_of(response, 400)["code"] == "token_in_query"
        assert secret not in response.text
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("httpx")]
    assert any("/api/tenant/monitoring/brands" in line for line in ours)
    assert all(secret not in line for line in ours)
