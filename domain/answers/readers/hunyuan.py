"""Tencent Hunyuan's own API, in Tencent Cloud's capitals; whole and streamed."""

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import node_at, nodes_at, source, text_at, words
from domain.answers.readers.base import Reader, join_pieces, last_finish, last_list, last_text, nested


def _matches(document: Document) -> bool:
    return any(isinstance(event.get("Choices"), list) for event in nested(document.events, "Response"))


def _read(document: Document) -> Draft:
    events = nested(document.events, "Response")
    choices = [choice for event in events for choice in nodes_at(event, "Choices")[:1]]
    said = [node_at(choice, key) for choice in choices for key in ("Message", "Delta")]
    found = last_list(nodes_at(event, "SearchInfo", "SearchResults") for event in events)
    return Draft(
        wire="hunyuan.native",
        text=join_pieces([text_at(message, "Content") for message in said]),
        citations=tuple(source(page, url="Url", title="Title") for page in found),
        model=last_text(events, "Model"),
        finish_reason=last_finish(choices, "FinishReason"),
        request_id=last_text(events, "RequestId") or last_text(events, "Id"),
        tool_calls=any(nodes_at(message, "ToolCalls") for message in said),
    )


READER = Reader("hunyuan.native", _matches, _read, words("Choices Response"))
