"""What a store promises to whoever chooses a session, each promise a check.

Law: as in `_store_keeps`; no check here needs more of a record than `SessionInfo` tells.
"""

from __future__ import annotations

from datetime import datetime

from panto.conversation import Conversation
from panto.errors import AmbiguousSession, SessionError
from panto.session import Session, SessionInfo

from ._store_records import OTHER, answer, said, system
from ._store_stage import Check, Stage, loaded, offer, same, same_messages, tick, value

__all__ = ["CHOOSING"]

NO_IDS = ("", " ", "*", "../x", "%", "/etc/passwd", "..", "a b", "\x00", "-")
"""What can be the beginning of no id."""


async def a_session_without_an_answer_is_not_listed(stage: Stage) -> None:
    """Before its first answer a session is in no list; what was appended until then comes with the answer."""
    store = await stage.fresh()
    session, talk = store.create(), Conversation("bag")
    prompt, question = system("s", "S"), said("q", "kept until the answer")
    await offer(store, session.info.id, prompt, question, talk=talk)
    same("the list", list(await value(store.list())), [])
    same("latest", await value(store.latest()), None)
    reply = answer("a", "late")
    await offer(store, session.info.id, reply, talk=talk)
    other = await stage.again(store)
    same("the ids listed", [info.id for info in await value(other.list())], [session.info.id])
    same_messages(await loaded(other, session.info.id), [prompt, question, reply])


async def the_list_tells_what_choosing_needs(stage: Stage) -> None:
    """`SessionInfo`: times in ISO 8601 with a zone, count, last words of the user, the identity used last."""
    store = await stage.fresh()
    session, talk = store.create(), Conversation()
    await offer(store, session.info.id, said("q", "first words"), answer("a", "y"), talk=talk)
    tick()
    await offer(store, session.info.id, said("r", "last words " + "w" * 9000), answer("b", "z", OTHER), talk=talk)
    await offer(store, session.info.id, system("s", "S"), talk=talk)
    other = await stage.again(store)
    listed = list(await value(other.list()))
    same("the number of sessions listed", len(listed), 1)
    resolved = await value(other.resolve(session.info.id))
    assert resolved is not None, "resolve does not find what is listed"
    for info in (listed[0], resolved.info):
        assert type(info) is SessionInfo, f"the list holds a {type(info).__name__}"
        same("id", info.id, session.info.id)
        same("message_count", info.message_count, 5)
        same("identity, which a system message does not change", info.identity, OTHER)
        assert info.last_user_message.startswith("last words w"), (
            f"last_user_message is {info.last_user_message[:60]!r}"
        )
        created, modified = datetime.fromisoformat(info.created), datetime.fromisoformat(info.modified)
        assert created.tzinfo is not None, f"created has no zone: {info.created}"
        assert modified.tzinfo is not None, f"modified has no zone: {info.modified}"
        assert created <= modified, f"created {info.created} is after modified {info.modified}"


async def the_latest_is_the_one_with_the_newest_message(stage: Stage) -> None:
    """`latest` and the order of `list` go by the last message, not by creation or id."""
    store = await stage.fresh()
    one, two, three = store.create(), store.create(), store.create()
    for session in (one, three, two):
        await offer(store, session.info.id, said("q", "x"), answer("a", "y"))
        tick()
    await offer(store, one.info.id, said("r", "again"))
    other = await stage.again(store)
    wanted = [one.info.id, two.info.id, three.info.id]
    same("the order of the list", [info.id for info in await value(other.list())], wanted)
    latest = await value(other.latest())
    assert isinstance(latest, Session), f"latest gave {latest!r}"
    same("latest", latest.info.id, one.info.id)
    same("the number of its messages", len((await loaded(other, latest.info.id)).messages), 3)


async def a_session_resolves_by_a_beginning_that_fits_no_other(stage: Stage) -> None:
    """`resolve` takes a full id or a unique beginning, in either case, with or without hyphens; else it says so."""
    store = await stage.fresh()
    ids: list[str] = []
    for _ in range(20):
        session = store.create()
        await offer(store, session.info.id, said("q", "x"), answer("a", "y"))
        ids.append(session.info.id)
    other = await stage.again(store)
    for id in ids[:5]:
        unique = next(n for n in range(1, len(id) + 1) if sum(each.startswith(id[:n]) for each in ids) == 1)
        for text in (id, id.upper(), id.replace("-", ""), id[:unique], id[: unique + 1].upper()):
            try:
                found = await value(other.resolve(text))
            except SessionError as error:
                raise AssertionError(f"resolve({text!r}) names one session of {len(ids)} and failed: {error}") from None
            same(f"resolve({text!r})", found and found.info.id, id)
    for length in range(1, len(ids[0])):
        fitting = [id for id in ids if id.startswith(ids[0][:length])]
        if len(fitting) > 1:
            text = ids[0][:length]
            try:
                found = await value(other.resolve(text))
            except AmbiguousSession as error:
                same(f"the candidates of {text!r}", sorted(error.candidates), sorted(fitting))
            else:
                raise AssertionError(f"{text!r} fits {len(fitting)} sessions, and resolve gave {found!r}")
    absent = store.create().info.id
    same("resolve of an id that is not there", await value(other.resolve(absent)), None)
    same("load of an id that is not there", await value(other.load(absent)), None)
    for text in NO_IDS:
        found, refused = None, False
        try:
            found = await value(other.resolve(text))
        except SessionError as error:
            refused = not isinstance(error, AmbiguousSession)
        assert refused, f"{text!r} can be no id; resolve must raise SessionError, and gave {found!r} or took it for one"


CHOOSING: tuple[Check, ...] = (
    a_session_without_an_answer_is_not_listed,
    the_list_tells_what_choosing_needs,
    the_latest_is_the_one_with_the_newest_message,
    a_session_resolves_by_a_beginning_that_fits_no_other,
)
