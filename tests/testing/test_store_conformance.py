"""The conformance kit: finds every broken store, and passes those that keep their promises."""

import asyncio
import itertools

import pytest
from tests.stores.broken import BROKEN, MORE_BROKEN, Asynchronous, RemembersOnly

from panto.stores import FileSystemJSONLStore, MemoryStore, NullStore
from panto.testing import check_store, check_store_async, store_checks

ALL = {**BROKEN, **MORE_BROKEN}


@pytest.mark.parametrize("store", ALL, ids=lambda store: store.__name__)
def test_each_broken_store_fails_the_promise_it_breaks_and_is_told_which(store):
    [check] = [check for check in store_checks() if check.name == ALL[store]]
    with pytest.raises(AssertionError) as told:
        check(store)
    assert str(told.value).startswith(f"{check.name}: {check.promise}\n")
    with pytest.raises(AssertionError):
        check_store(store)


@pytest.mark.parametrize("store", BROKEN, ids=lambda store: store.__name__)
def test_each_broken_store_fails_behind_coroutines_too(store):
    [check] = [check for check in store_checks() if check.name == BROKEN[store]]
    with pytest.raises(AssertionError, match=check.name):
        check(lambda: Asynchronous(store()))


def test_a_store_that_only_remembers_is_found_by_opening_it_anew():
    check_store(RemembersOnly)
    with pytest.raises(AssertionError, match="messages_come_back_whole"):
        check_store(RemembersOnly, reopen=RemembersOnly.reopened)


@pytest.mark.parametrize("check", store_checks(), ids=str)
def test_the_memory_store_keeps_its_promises(check):
    check(MemoryStore)


@pytest.mark.parametrize("fsync", [True, False], ids=["fsync", "no fsync"])
@pytest.mark.parametrize("check", store_checks(), ids=str)
def test_the_jsonl_store_keeps_its_promises(check, fsync, tmp_path):
    numbers = itertools.count()
    check(
        lambda: FileSystemJSONLStore(tmp_path / str(next(numbers)), fsync=fsync),
        reopen=lambda store: FileSystemJSONLStore(store.directory),
    )


@pytest.mark.parametrize("check", store_checks(), ids=str)
def test_an_async_store_is_tried_by_the_same_checks(check):
    check(Asynchronous)


def test_the_null_store_keeps_the_promises_of_one_that_keeps_nothing():
    check_store(NullStore, keeps=False)
    with pytest.raises(AssertionError, match="load gave NoneType"):
        check_store(NullStore)
    with pytest.raises(AssertionError, match="nothing_kept_is_nothing_given"):
        check_store(MemoryStore, keeps=False)


def test_inside_an_event_loop_the_kit_is_awaited_and_stores_are_closed():
    made = []

    async def make():
        made.append(Asynchronous())
        return made[-1]

    asyncio.run(check_store_async(make))
    assert len(made) == len(store_checks())
    assert all(store.closed for store in made)
    check_store(make)


def test_a_store_with_a_close_is_closed_also_when_it_fails():
    closed = []

    class Closing(MemoryStore):
        def close(self):
            closed.append(self)

    check_store(Closing)
    assert len(closed) == len(store_checks())


def test_exempt_leaves_out_what_is_named_and_knows_the_names():
    names = [check.name for check in store_checks()]
    assert [check.name for check in store_checks(exempt=names[1:3])] == [names[0], *names[3:]]
    with pytest.raises(ValueError, match="no such promise: colour"):
        store_checks(exempt=["colour"])


def test_every_promise_is_a_sentence():
    assert all(check.promise.endswith(".") for check in store_checks())


def test_a_sync_method_that_waits_for_a_loop_is_told_in_words():
    class Waits(MemoryStore):
        def load(self, id):
            async def later():
                await asyncio.sleep(0)

            return later()

    with pytest.raises(TypeError, match="coroutine functions"):
        store_checks()[0](Waits)
