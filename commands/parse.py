"""`giveway parse`: what recorded answers say, without a server (3-results §3.3)."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from commands.common import console

if TYPE_CHECKING:
    from commands.parse_report import Report
    from domain.parsing.names import BrandName
    from domain.readings import Subject

PLATFORMS: Final = (
    *("openai", "google", "anthropic", "perplexity", "xai", "qwen", "openrouter", "deepseek", "doubao", "ernie"),
    *("groq", "zhipu", "bedrock", "cohere", "hunyuan", "kimi", "exports"),
    # Other names that installations give to platforms, or to the product of one.
    *("azure", "baidu", "chatgpt", "claude", "copilot", "exa", "gemini", "grok", "linkup", "metaso", "minimax"),
    *("mistral", "moonshot", "ollama", "spark", "stepfun", "tavily", "vertex", "you", "yuanbao"),
)

# What the object store takes at most (bytes); a longer file is no answer.
MAX_BYTES: Final = 4 * 1024 * 1024

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Bodies as they came; - reads standard input.")]
Many = list[str] | None


def parse(
    files: Files,
    platform: Annotated[str | None, typer.Option(help="Whose answers they are; else recognised from content.")] = None,
    brand: Annotated[str | None, typer.Option(help="The brand to look for.")] = None,
    alias: Annotated[Many, typer.Option(help="Another name of the brand; may be repeated.")] = None,
    domain: Annotated[Many, typer.Option(help="A site of the brand's; may be repeated.")] = None,
    competitor: Annotated[Many, typer.Option(help="A competitor; may be repeated.")] = None,
    competitor_alias: Annotated[
        Many, typer.Option(metavar="NAME=ALIAS", help="Another name of a competitor; may be repeated.")
    ] = None,
    competitor_domain: Annotated[Many, typer.Option(help="A site of a competitor's; may be repeated.")] = None,
    question: Annotated[
        str | None, typer.Option(help="The question: where an answer repeats it, nothing counts.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON array, an object a file, and nothing else.")] = False,
) -> None:
    """Read answers of AI platforms: text, sources, mentions. Exit code 1 when not one of the files could be read."""
    if platform is not None and platform not in PLATFORMS:
        raise typer.BadParameter(f"there is no platform {platform!r}; known: {', '.join(PLATFORMS)}")
    subject = _subject(brand, alias, domain, competitor, competitor_alias, competitor_domain, question)
    reports = [_report(file, subject, platform) for file in files]
    _complain(reports)
    if json:
        _print_array(reports)
    else:
        from commands.parse_view import show

        show(console, reports)
    raise typer.Exit(0 if any(report.was_read for report in reports) else 1)


def _subject(
    brand: str | None,
    aliases: Many,
    domains: Many,
    competitors: Many,
    competitor_aliases: Many,
    competitor_domains: Many,
    question: str | None,
) -> "Subject":
    from domain.readings import Subject

    if aliases and not brand:
        raise typer.BadParameter("--alias is another name of --brand: say that too")
    return Subject(
        names=(*_brand(brand, aliases), *_rivals(competitors or [], competitor_aliases or [])),
        own_domains=_sound(domains),
        competitor_domains=_sound(competitor_domains),
        question=None if question is None else _utf8(question),
    )


def _brand(name: str | None, aliases: Many) -> "list[BrandName]":
    from domain.parsing.names import BrandName

    return [] if name is None else [BrandName("brand", "brand", _name(name), _sound(aliases))]


def _rivals(names: list[str], aliases: list[str]) -> "list[BrandName]":
    from domain.parsing.names import BrandName

    known: dict[str, list[str]] = {_name(name): [] for name in names}
    for entry in aliases:
        name, equals, alias = _utf8(entry).partition("=")
        if not equals or name.strip() not in known:
            raise typer.BadParameter(f"--competitor-alias {entry!r} is not NAME=ALIAS with the NAME of a --competitor")
        known[name.strip()].append(_name(alias))
    return [BrandName(f"competitor:{name}", "competitor", name, tuple(given)) for name, given in known.items()]


def _sound(words: Many) -> tuple[str, ...]:
    return tuple(_name(word) for word in words or ())


def _name(text: str) -> str:
    name = _utf8(text).strip()
    if not name:
        raise typer.BadParameter("a name has at least one character")
    return name


def _utf8(argument: str) -> str:
    """An argument as text: bytes that are no UTF-8 come as lone surrogates, which no output can carry."""
    return os.fsencode(argument).decode("utf-8", "replace")


def _report(file: str, subject: "Subject", platform: str | None) -> "Report":
    from commands.parse_report import report_of, unread
    from domain.readings import read_for

    try:
        body = _read(file)
    except OSError as error:
        return unread(_utf8(file), platform, error.strerror or type(error).__name__)
    if len(body) > MAX_BYTES:
        return unread(_utf8(file), platform, f"larger than {MAX_BYTES} bytes, which no answer is")
    return report_of(_utf8(file), platform, read_for(body, subject, platform=platform), subject)


def _read(file: str) -> bytes:
    """At most one byte more than is taken, so that an endless file ends."""
    if file == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with open(file, "rb") as opened:
        return opened.read(MAX_BYTES + 1)


def _complain(reports: "list[Report]") -> None:
    shown = Console(stderr=True, highlight=False, soft_wrap=True)
    for report in reports:
        if not report.was_read:
            shown.print(f"skipped {report.shown['file']}: {report.shown['error']}", markup=False)


def _print_array(reports: "list[Report]") -> None:
    import orjson

    typer.echo(orjson.dumps([report.shown for report in reports]).decode())
