"""Dependencies that say who calls and what they may reach."""

from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.auth import Principal, Role
from api.problems import unauthorized
from api.state import State
from store.catalog import Reach

bearer = HTTPBearer(auto_error=False, bearerFormat="JWT", scheme_name="userToken", description="A user's JWT")


async def signed_in(
    state: State, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Principal:
    """The caller; Unauthorized without an acceptable bearer token."""
    if credentials is None:
        raise unauthorized("no bearer token")
    return await state.verifier.verify(credentials.credentials)


async def operator(principal: Annotated[Principal, Depends(signed_in)]) -> Principal:
    """The caller, who may change things; Forbidden for viewers."""
    principal.require(Role.OPERATOR)
    return principal


async def ops(principal: Annotated[Principal, Depends(signed_in)]) -> Principal:
    """The caller, who operates the installation; Forbidden for everybody else, a tenant's admin included."""
    principal.require(Role.OPS)
    return principal


SignedIn = Annotated[Principal, Depends(signed_in)]
Operator = Annotated[Principal, Depends(operator)]
Ops = Annotated[Principal, Depends(ops)]


def reach_of(principal: Principal) -> Reach:
    """What the caller's token opens, for the store."""
    return Reach(principal.tenant_id, principal.workspace_ids)
