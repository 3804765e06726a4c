"""Which session a question belongs to, and which model goes on with it.

Law: a session is never guessed at. `-r` takes a unique prefix, `-c` the one used last; the model is the one alias that
speaks with the identity the session used last, and where there is none, or more than one, somebody chooses.
"""

from __future__ import annotations

from pathlib import Path

import panto

from .aliases import Alias, Catalogue
from .failures import CommandError, Exit
from .table import cut, one_line, when
from .terminal import Console

__all__ = ["find_session", "latest_session", "open_store", "pick_alias"]


def open_store(directory: Path) -> panto.FileSystemJSONLStore:
    """The store of the sessions in `directory`."""
    return panto.FileSystemJSONLStore(directory)


def find_session(store: panto.FileSystemJSONLStore, prefix: str) -> panto.Session:
    """The session whose id begins with `prefix`.

    Raises `CommandError` when there is none, or more than one.
    """
    try:
        session = store.resolve(prefix)
    except panto.AmbiguousSession as error:
        raise CommandError(_ambiguous(store, prefix, error)) from None
    if session is None:
        raise CommandError(f"there is no session {prefix!r}; `panto sessions` lists them")
    return session


def latest_session(store: panto.FileSystemJSONLStore) -> panto.Session:
    """The session used last."""
    session = store.latest()
    if session is None:
        raise CommandError("there is no session to go on with yet; ask a question without -c first")
    return session


def _ambiguous(store: panto.FileSystemJSONLStore, prefix: str, error: panto.AmbiguousSession) -> str:
    """What to say when a prefix fits several sessions."""
    fitting = [info for info in store.list() if info.id in error.candidates]
    lines = [f"{prefix!r} fits {len(error.candidates)} sessions; write more of the id:"]
    for info in fitting[:10]:
        lines.append(f"  {info.id}  {when(info.modified)}  {cut(one_line(info.last_user_message), 24)}")
    return "\n".join(lines)


def pick_alias(catalogue: Catalogue, info: panto.SessionInfo, wanted: str | None, console: Console) -> Alias:
    """The alias that goes on with a session: the one asked for, the one that fits, or the one somebody chooses."""
    if wanted is not None:
        return catalogue.choose(wanted)
    if info.identity is None:
        return catalogue.choose(None)
    found = catalogue.match(info)
    if len(found) == 1:
        alias = catalogue.choose(found[0])
        console.note(f"going on with session {info.id[:13]}: {alias.name} ({alias.model})")
        return alias
    was = f"{info.model} at {info.base_url}"
    if found:
        what = f"the session was with {was}, and these aliases are that: {', '.join(found)}"
    else:
        what = f"the session was with {was}, and no alias is that now"
    offer = found or list(catalogue.aliases)
    if not console.can_ask:
        raise CommandError(f"{what}. Say which model goes on with it: -m {offer[0]}, for instance")
    console.note(what)
    for number, name in enumerate(offer, 1):
        console.note(f"  {number}  {name} ({catalogue.choose(name).model})")
    try:
        answer = console.ask("Which one goes on? ")
    except EOFError:
        raise CommandError("no model was chosen", Exit.USAGE) from None
    if answer.isdigit() and 1 <= int(answer) <= len(offer):
        answer = offer[int(answer) - 1]
    return catalogue.choose(answer)
