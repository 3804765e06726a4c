"""`panto sessions`: what was said, and when.

Law: sessions are read through the store's own interface; what is read of them is shown to nobody but the user, and
neutralised where a terminal shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

import panto

from ..failures import CommandError, Exit
from ..options import debug_option, json_option, set_up, store_option
from ..paths import sessions_directory
from ..resume import find_session, open_store
from ..table import cut, one_line, table, when
from ..terminal import Console

__all__ = ["Hit", "SessionDump", "command"]

_SETTINGS = {"help_option_names": ["-h", "--help"]}


class Hit(msgspec.Struct, frozen=True):
    """One message that has the words looked for, as `panto sessions search --json` has it."""

    session: str
    message: int
    role: panto.MessageRole
    text: str


class SessionDump(msgspec.Struct, frozen=True):
    """A whole session, as `panto sessions show --json` has it."""

    info: panto.SessionInfo
    messages: list[panto.Message]


@click.group(name="sessions", invoke_without_command=True, context_settings=_SETTINGS)
@store_option
@json_option
@debug_option
@click.pass_context
def command(ctx: click.Context, store: str | None, as_json: bool, debug: bool) -> Exit:
    """List, show, search and delete saved sessions. Without a command: list."""
    ctx.meta.update(store=store, json=as_json, debug=debug)
    if ctx.invoked_subcommand is None:
        return _list(ctx, None, False, False)
    return Exit.OK


@command.command(name="list")
@store_option
@json_option
@debug_option
@click.pass_context
def list_command(ctx: click.Context, store: str | None, as_json: bool, debug: bool) -> Exit:
    """List the sessions, the one used last first."""
    return _list(ctx, store, as_json, debug)


def _list(ctx: click.Context, store: str | None, as_json: bool, debug: bool) -> Exit:
    console, sessions, _, as_json = _open(ctx, store, as_json, debug)
    infos = sessions.list()
    if as_json:
        console.write(msgspec.json.format(msgspec.json.encode(infos), indent=2).decode() + "\n")
        return Exit.OK
    if not infos:
        console.note('There is no session yet. A question makes one: panto "question"')
        return Exit.OK
    short = short_ids([info.id for info in infos])
    rows = [
        (short[info.id], when(info.modified), info.model or "", str(info.message_count), info.last_user_message)
        for info in infos
    ]
    console.write(
        table(
            ("ID", "USED", "MODEL", "MESSAGES", "LAST QUESTION"), rows, console.width, flexible=(2, 4), drop=(3, 2, 1)
        )
    )
    return Exit.OK


@command.command(name="show")
@click.argument("id")
@store_option
@json_option
@debug_option
@click.pass_context
def show_command(ctx: click.Context, id: str, store: str | None, as_json: bool, debug: bool) -> Exit:
    """Show a session; the beginning of its ID is enough."""
    console, sessions, _, as_json = _open(ctx, store, as_json, debug)
    session = find_session(sessions, id)
    messages = _messages(session)
    if as_json:
        dump = SessionDump(session.info, messages)
        console.write(msgspec.json.format(msgspec.json.encode(dump), indent=2).decode() + "\n")
        return Exit.OK
    info = session.info
    console.write(f"{info.id}  {when(info.created)}  {info.model or ''}\n")
    for message in messages:
        console.write(f"\n{message.role.value}:\n")
        for text in _texts(message):
            console.write(text if text.endswith("\n") else f"{text}\n")
    return Exit.OK


@command.command(name="search")
@click.argument("text", nargs=-1, required=True)
@store_option
@json_option
@debug_option
@click.pass_context
def search_command(ctx: click.Context, text: tuple[str, ...], store: str | None, as_json: bool, debug: bool) -> Exit:
    """Find the messages that have TEXT.

    Upper and lower case are the same. The session used last comes first.
    """
    console, sessions, _, as_json = _open(ctx, store, as_json, debug)
    wanted = " ".join(text).casefold()
    if not wanted.strip():
        raise CommandError("there is nothing to look for: the text is empty")
    infos = sessions.list()
    short = short_ids([info.id for info in infos])
    hits = 0
    for info in infos:
        for hit in _hits(sessions, info, wanted):
            hits += 1
            if as_json:
                console.write(msgspec.json.encode(hit).decode() + "\n")
            else:
                console.write(f"{short[hit.session]}  {hit.role.value}: {_around(hit.text, wanted)}\n")
    if not hits:
        console.note("No session has these words.")
        return Exit.FAILED
    return Exit.OK


@command.command(name="delete")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@store_option
@debug_option
@click.pass_context
def delete_command(ctx: click.Context, ids: tuple[str, ...], yes: bool, store: str | None, debug: bool) -> Exit:
    """Delete sessions for good. Asks first; where nobody can be asked, only --yes deletes."""
    console, sessions, _, _ = _open(ctx, store, False, debug)
    found = [find_session(sessions, id) for id in ids]  # all of them are known before the first is gone
    for session in found:
        info = session.info
        said = cut(one_line(info.last_user_message), 40)
        what = f"{info.id} ({info.message_count} messages, {when(info.modified)}: {said})"
        if not yes:
            if not console.can_ask:
                raise CommandError("deleting asks first, and nobody is here to ask; --yes deletes without")
            try:
                answer = console.ask(f"Delete session {what}? [y/N] ")
            except EOFError:
                answer = ""
            if answer.casefold() not in ("y", "yes"):
                console.note("kept")
                continue
        sessions.delete(info.id)
        console.note(f"deleted {info.id}")
    return Exit.OK


def short_ids(ids: Sequence[str], least: int = 8) -> dict[str, str]:
    """The shortest beginnings, all of one length, by which these ids can be told apart."""
    length = least
    while len({id[:length] for id in ids}) < len(set(ids)):
        length += 1
    return {id: id[:length].rstrip("-") if length <= least else id[:length] for id in ids}


def _open(
    ctx: click.Context, store: str | None, as_json: bool, debug: bool
) -> tuple[Console, panto.FileSystemJSONLStore, Path, bool]:
    """Options stand before or after the command's name."""
    console: Console = ctx.obj
    catalogue = set_up(console, debug or bool(ctx.meta["debug"]))
    directory = sessions_directory(store or ctx.meta["store"], catalogue.file.folder)
    return console, open_store(directory), directory, as_json or bool(ctx.meta["json"])


def _messages(session: panto.Session) -> list[panto.Message]:
    conversation = session.load()
    assert isinstance(conversation, panto.Conversation)  # of a store that is not async
    return conversation.messages


def _hits(store: panto.FileSystemJSONLStore, info: panto.SessionInfo, wanted: str) -> Iterator[Hit]:
    try:
        conversation = store.load(info.id)
    except panto.PantoError:
        return  # what cannot be read is told once, by the store
    for number, message in enumerate(conversation.messages if conversation is not None else ()):
        for text in _texts(message):
            if wanted in text.casefold():
                yield Hit(info.id, number, message.role, text)


def _texts(message: panto.Message) -> Iterator[str]:
    for block in message.content:
        match block:
            case panto.TextualBlock(text=text) | panto.SystemBlock(text=text):
                yield text
            case panto.CompactionSummaryBlock(text=text, replaced=replaced):
                yield f"[summary of {replaced} messages]\n{text}"
            case panto.ToolUseBlock(name=name, arguments=arguments):
                yield f"[calls {name} {arguments}]"
            case panto.ToolResultBlock(is_error=is_error) as result:
                yield f"[{'error' if is_error else 'result'}]\n{result.text}"
            case panto.MediaBlock(media_type=media_type):
                yield f"[{media_type}]"
            case panto.ThinkingBlock() | panto.OpaqueBlock():
                pass  # not said to the user; --json has it


def _around(text: str, wanted: str, side: int = 40) -> str:
    at = max(text.casefold().find(wanted), 0)
    begin, end = max(at - side, 0), at + len(wanted) + side
    return one_line(("…" if begin else "") + text[begin:end] + ("…" if end < len(text) else ""))
