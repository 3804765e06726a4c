"""What a store promises to keep, each promise a check.

Law: a check sees a store through the protocol alone, reads through another opening of the same data where there is
one, and names what differed. The first line of its docstring is the promise.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import time
from typing import cast

from panto.conversation import Conversation, Message, MessageRole, TextualBlock, ToolResultBlock
from panto.errors import SessionError
from panto.session import PersistentMessage, Session

from ._store_records import BAGS, ONE, OTHER, answer, everything, record, said, summary, system
from ._store_stage import Check, Stage, loaded, offer, same, same_messages, value

__all__ = ["KEEPING", "KEPT_NOTHING"]

QUICK = 0.05
"""Seconds within which `create` must be able to return: it waits for nothing."""


async def create_touches_nothing_and_cannot_fail(stage: Stage) -> None:
    """`create` gives a session with a new id, at once, and nothing is kept before the first append."""
    store = await stage.fresh()
    times: list[float] = []
    made: list[Session] = []
    for _ in range(5):
        began = time.perf_counter()
        session: object = store.create()
        times.append(time.perf_counter() - began)
        if inspect.iscoroutine(session):
            session.close()
        assert isinstance(session, Session), f"create gave a {type(session).__name__}, not a Session"
        assert session.store is store, "the session's store is another one"
        made.append(session)
    assert min(times) < QUICK, f"create took {min(times):.3f} s; it must wait for nothing"
    same("the number of different ids", len({session.info.id for session in made}), 5)
    other = await stage.again(store)
    same("the list after create alone", list(await value(other.list())), [])
    same("latest after create alone", await value(other.latest()), None)
    for session in made:
        same("load of a session that was only created", await value(other.load(session.info.id)), None)
        same("resolve of a session that was only created", await value(other.resolve(session.info.id)), None)


# ---------------------------------------------------------------- keeping


async def messages_come_back_whole_and_in_order(stage: Stage) -> None:
    """What was appended loads: all of it, in order, once, however it was cut into appends."""
    store = await stage.fresh()
    session, talk, wanted = store.create(), Conversation(), list[Message]()
    for at, size in enumerate((1, 1, 2, 5, 1, 3)):
        batch: list[Message] = []
        for n in range(size):
            make = answer if (len(wanted) + n) % 2 else said
            batch.append(make(f"{at}.{n}", f"text {at}.{n}"))
        await offer(store, session.info.id, *batch, talk=talk)
        wanted += batch
    same_messages(await loaded(await stage.again(store), session.info.id), wanted)
    same_messages(await loaded(store, session.info.id), wanted)


async def every_field_comes_back(stage: Stage) -> None:
    """Every block and every field comes back, also what the store does not know: opaque blocks, details, odd words."""
    store = await stage.fresh()
    session = store.create()
    await offer(store, session.info.id, *everything())
    same_messages(await loaded(await stage.again(store), session.info.id), everything())


async def any_text_can_be_kept(stage: Stage) -> None:
    """No text makes a session unusable: NUL, control characters, any script, lone surrogates (kept, or as U+FFFD)."""
    store = await stage.fresh()
    session = store.create()
    plain = "🦊 č 日本 \u2028\u2029\x85 \x00\x01\x1f\x7f \\u0000 ' \" % $1 {} </script>\r\n\ufeff\uffff"
    broken = "caf\udce9 \ud83d."
    results = Message(MessageRole.USER, [ToolResultBlock("c", (), details={"k": plain})], id="2")
    await offer(store, session.info.id, said("0", plain), answer("1", plain * 3000), results, said("3", broken))
    other = await stage.again(store)
    found = await loaded(other, session.info.id)
    same_messages(Conversation(messages=found.messages[:3]), [said("0", plain), answer("1", plain * 3000), results])
    text = found.messages[3].text
    assert text in (broken, "caf\ufffd \ufffd."), f"lone surrogates came back as {text!a}"
    same("the number of sessions listed", len(list(await value(other.list()))), 1)


async def a_message_offered_again_is_kept_once(stage: Stage) -> None:
    """A message whose id is there already is not kept twice, so that what failed may be offered again."""
    store = await stage.fresh()
    session, talk = store.create(), Conversation()
    first, second, third = said("a", "one"), answer("b", "two"), said("c", "three")
    await offer(store, session.info.id, first, second, talk=talk)
    await offer(store, session.info.id, first, second, third, talk=talk)
    await offer(store, session.info.id, third, talk=talk)
    same_messages(await loaded(await stage.again(store), session.info.id), [first, second, third])


async def the_bag_of_a_message_comes_back_byte_for_byte(stage: Stage) -> None:
    """`Message.metadata` is never parsed and comes back byte for byte; `None` stays `None`."""
    store = await stage.fresh()
    session = store.create()
    bags = [*BAGS, None]
    messages = [answer(f"m{at}", "x", metadata=bag) for at, bag in enumerate(bags)]
    await offer(store, session.info.id, *messages)
    found = await loaded(await stage.again(store), session.info.id)
    for bag, message in zip(bags, found.messages):
        same("the bag of a message", message.metadata, bag)


async def the_bag_of_a_conversation_comes_back_byte_for_byte(stage: Stage) -> None:
    """`Conversation.metadata` as it is at the first append comes back byte for byte; a later one is not stored."""
    store = await stage.fresh()
    for bag in (*BAGS, None):
        session, talk = store.create(), Conversation(bag)
        await offer(store, session.info.id, said("a", "x"), talk=talk)
        talk.metadata = '{"later":true}'
        await offer(store, session.info.id, answer("b", "y"), talk=talk)
        same("the bag of a conversation", (await loaded(await stage.again(store), session.info.id)).metadata, bag)


async def what_is_kept_is_a_copy(stage: Stage) -> None:
    """Nothing live is kept or given out: later surgery on either side changes nothing that is stored."""
    store = await stage.fresh()
    session, talk = store.create(), Conversation("bag")
    details = {"list": ["kept"]}
    results = Message(MessageRole.USER, [ToolResultBlock("c", (), details=cast("None", details))], id="r")
    question, reply = said("q", "kept"), answer("a", "kept")
    await offer(store, session.info.id, question, reply, results, talk=talk)
    question.content[0] = TextualBlock("surgery")
    reply.content.append(TextualBlock("surgery"))
    reply.metadata = "surgery"
    details["list"].append("surgery")
    talk.messages.clear()
    kept = Message(MessageRole.USER, [ToolResultBlock("c", (), details={"list": ["kept"]})], id="r")
    wanted = [said("q", "kept"), answer("a", "kept"), kept]
    found = await loaded(store, session.info.id)
    same_messages(found, wanted)
    found.messages[0].content[0] = TextualBlock("surgery")
    found.messages.pop()
    found.metadata = "surgery"
    twice = await loaded(store, session.info.id)
    same_messages(twice, wanted)
    same("the bag after a loaded copy was changed", twice.metadata, "bag")


async def sessions_are_not_mixed(stage: Stage) -> None:
    """What is appended to one session is in that session and in no other."""
    store = await stage.fresh()
    one, two = store.create(), store.create()
    for at in range(4):
        await offer(store, one.info.id, said(f"q{at}", f"one {at}"), answer(f"a{at}", f"one {at}"))
        await offer(store, two.info.id, said(f"q{at}", f"two {at}"), answer(f"a{at}", f"two {at}", OTHER))
    other = await stage.again(store)
    for session, name in ((one, "one"), (two, "two")):
        found = await loaded(other, session.info.id)
        texts = [message.text for message in found.messages]
        same(f"the texts of session {name}", texts, [f"{name} {at}" for at in range(4) for _ in "qa"])
    models = {info.id: info.model for info in await value(other.list())}
    same("the models listed", models, {one.info.id: ONE.model, two.info.id: OTHER.model})


async def a_compaction_replays(stage: Stage) -> None:
    """A summary replaces the first so many messages but system ones when the session is loaded, again and again."""
    store = await stage.fresh()
    session = store.create()
    history = [system("s1", "S1"), said("u1", "1"), answer("a1", "1")]
    history += [system("s2", "S2"), said("u2", "2"), answer("a2", "2")]
    await offer(store, session.info.id, *history)
    first = summary("c1", "so far", 3)
    await offer(store, session.info.id, first)
    wanted = [history[0], history[3], first, history[5]]
    same_messages(await loaded(await stage.again(store), session.info.id), wanted)
    more, second = [said("u3", "3"), answer("a3", "3")], summary("c2", "further", 2)
    await offer(store, session.info.id, *more, second)
    wanted = [history[0], history[3], second, *more]
    same_messages(await loaded(await stage.again(store), session.info.id), wanted)
    by_hand = summary("c3", "by hand", 0)
    await offer(store, session.info.id, by_hand)
    same_messages(await loaded(await stage.again(store), session.info.id), [*wanted, by_hand])


async def appends_at_once_lose_nothing(stage: Stage) -> None:
    """Appends at the same time, from threads or tasks, are all kept, each writer's own in order."""
    store = await stage.fresh()
    session, talk = store.create(), Conversation()
    await offer(store, session.info.id, said("q", "x"), answer("a", "y"), talk=talk)

    def batch(writer: int, at: int) -> list[PersistentMessage]:
        return [record(said(f"{writer}.{at}", "x"), talk)]

    if inspect.iscoroutinefunction(store.append_messages):

        async def write(writer: int) -> None:
            for at in range(10):
                await value(store.append_messages(session.info.id, batch(writer, at)))

        await asyncio.gather(*(write(writer) for writer in range(4)))
    else:
        failed: list[BaseException] = []

        def write_in_thread(writer: int) -> None:
            try:
                for at in range(10):
                    store.append_messages(session.info.id, batch(writer, at))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=write_in_thread, args=(writer,)) for writer in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, f"an append from a thread failed: {failed[0]!r}"
    ids = [message.id or "" for message in (await loaded(await stage.again(store), session.info.id)).messages[2:]]
    same("the ids kept", sorted(ids), sorted(f"{writer}.{at}" for writer in range(4) for at in range(10)))
    for writer in range(4):
        own = [id for id in ids if id.startswith(f"{writer}.")]
        same(f"the order of writer {writer}", own, [f"{writer}.{at}" for at in range(10)])


async def nothing_kept_is_nothing_given(stage: Stage) -> None:
    """A store that keeps nothing takes every append and gives nothing back."""
    store = await stage.fresh()
    session = store.create()
    await offer(store, session.info.id, *everything())
    same("list", list(await value(store.list())), [])
    same("latest", await value(store.latest()), None)
    same("resolve", await value(store.resolve(session.info.id)), None)
    same("load", await value(store.load(session.info.id)), None)
    with contextlib.suppress(SessionError):
        same("resolve of nothing", await value(store.resolve("")), None)


KEEPING: tuple[Check, ...] = (
    create_touches_nothing_and_cannot_fail,
    messages_come_back_whole_and_in_order,
    a_message_offered_again_is_kept_once,
    every_field_comes_back,
    any_text_can_be_kept,
    the_bag_of_a_message_comes_back_byte_for_byte,
    the_bag_of_a_conversation_comes_back_byte_for_byte,
    what_is_kept_is_a_copy,
    sessions_are_not_mixed,
    a_compaction_replays,
    appends_at_once_lose_nothing,
)
KEPT_NOTHING: tuple[Check, ...] = (create_touches_nothing_and_cannot_fail, nothing_kept_is_nothing_given)
"""The promises of a store that keeps nothing on purpose."""
