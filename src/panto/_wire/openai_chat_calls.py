"""Which tool call each fragment of a chat stream belongs to, and what the calls are made of.

Law: fragments are matched by index, then by id, then by order, whatever of these a host leaves out, repeats or empties;
a call is final at the end of the stream only, never because the text so far happens to parse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from panto._wire.assembly import Assembly, Draft
from panto._wire.openai_chat_chunk import CallDelta, read_json
from panto._wire.surrogates import REPLACEMENT, split_pair, well_formed
from panto.conversation import ContentBlockType

_PLACEHOLDER: Final = "{}"


class OpenCall:
    """A call that is being written. `waiting` are argument fragments that may not be shown yet."""

    __slots__ = ("begun", "carry", "draft", "id", "name", "number", "waiting")

    def __init__(self, draft: Draft, number: int) -> None:
        self.draft = draft
        self.number = number
        self.id = ""
        self.name = ""
        self.waiting: list[str] = []
        self.begun = False  # arguments were told, be they empty
        self.carry = ""  # half a surrogate pair at their end

    @property
    def arguments(self) -> str:
        """The JSON text as far as it has come."""
        return "".join(self.draft.parts) + "".join(self.waiting)


class Calls:
    """The calls of one message, in order of start.

    `named` turns a name on the wire into the tool's own; `before` is called before a call is begun.
    """

    __slots__ = ("_assembly", "_before", "_by_id", "_by_index", "_ids", "_named", "open")

    def __init__(self, assembly: Assembly, named: Callable[[str], str], before: Callable[[], None]) -> None:
        self._assembly = assembly
        self._before = before
        self._named = named
        self._by_id: dict[str, OpenCall] = {}  # the last one begun of each id
        self._by_index: dict[int, OpenCall] = {}
        self._ids: set[str] = set()
        self.open: list[OpenCall] = []

    def take(self, delta: CallDelta, touched: list[OpenCall]) -> OpenCall | None:
        """Read one fragment; `touched` are the calls that had one in the same event already.

        Returns the call, or `None` where the fragment says nothing.
        """
        index = delta.index if delta.index is not None and delta.index >= 0 else None
        id = delta.id or ""
        name = (delta.function.name or "") if delta.function is not None else ""
        arguments = (delta.function.arguments or "") if delta.function is not None else ""
        told = delta.function is not None and delta.function.arguments is not None
        call = self._find(index, id, name, arguments)
        if call is not None and self._is_another(call, id, name, arguments, touched):
            call = None
        elif call is not None and index is None and not id and name and told and call.begun and name != call.name:
            call = None  # nothing but the name tells two calls without arguments apart
        if call is None:
            if not (id or name or arguments):
                return None
            self._before()
            call = OpenCall(self._assembly.start(ContentBlockType.TOOL_USE), len(self.open))
            self.open.append(call)
        if index is not None:
            self._by_index[index] = call
        touched.append(call)
        call.begun = call.begun or told
        if id and not call.id:
            call.id = well_formed(id)
            if (other := self._by_id.get(call.id)) is None or other.number < call.number:
                self._by_id[call.id] = call
        if name and not call.draft.told:
            self._add_name(call, well_formed(name))
        if arguments:
            self._add_arguments(call, arguments)
        return call

    def _find(self, index: int | None, id: str, name: str, arguments: str) -> OpenCall | None:
        """The call that the fragment may belong to."""
        if index is not None and (call := self._by_index.get(index)) is not None:
            return call
        if id and (index is None or not name) and (call := self._by_id.get(id)) is not None:
            return call
        if not self.open or (index is not None and (id or name)):
            return None
        last = self.open[-1]
        if not id or not last.id or (arguments and not name):
            return last
        return None

    def _is_another(self, call: OpenCall, id: str, name: str, arguments: str, touched: list[OpenCall]) -> bool:
        """Whether the fragment begins a new call although it stands where `call` does."""
        if id and call.id and id != call.id:
            # Some hosts make up a new id for every fragment; those have arguments and no name.
            return bool(name or not arguments)
        if not name or (id and id == call.id):
            return False
        if call in touched:
            return True
        last = call.waiting or call.draft.parts
        if not last or not call.name:
            return False  # the name may come in pieces, or last
        if name != call.name:
            return True
        if not arguments.lstrip().startswith("{") or last[-1].rstrip()[-1:] not in ("", "}"):
            return False  # told without looking at all of the arguments
        before = call.arguments
        return before.strip() != _PLACEHOLDER and is_object(before)

    def _add_name(self, call: OpenCall, name: str) -> None:
        if name.startswith(call.name):  # the first piece, the same again, or all of it so far
            call.name = name
        else:
            call.name += name
        if call.waiting and call.waiting != [_PLACEHOLDER]:
            self._flush(call)

    def _add_arguments(self, call: OpenCall, arguments: str) -> None:
        draft = call.draft
        if call.carry or not arguments.isascii():
            arguments, call.carry = split_pair(call.carry + arguments)
            if not arguments:
                return
        if draft.told and not call.waiting:
            self._assembly.delta(draft, arguments)
            return
        first = not call.waiting and not draft.parts
        if not first and call.waiting == [_PLACEHOLDER] and arguments.lstrip().startswith("{"):
            call.waiting.clear()  # it was only a placeholder
            first = True
        call.waiting.append(_PLACEHOLDER if first and arguments.strip() == _PLACEHOLDER else arguments)
        if not call.name:
            return
        self._tell(call)
        if call.waiting != [_PLACEHOLDER]:
            self._flush(call)

    def _tell(self, call: OpenCall) -> None:
        draft = call.draft
        if not draft.told:
            draft.name = self._named(call.name)
            draft.id = call.id if call.id not in self._ids else ""  # two calls with one id: the second gets its own
            self._assembly.details(draft)
            self._ids.add(draft.id)

    def _flush(self, call: OpenCall) -> None:
        self._tell(call)
        for arguments in call.waiting:
            self._assembly.delta(call.draft, arguments)
        call.waiting.clear()

    def complete(self) -> None:
        """The stream is over: every call is whole."""
        for call in self.open:
            if call.carry:
                call.waiting.append(REPLACEMENT)
            self._flush(call)
            self._assembly.complete(call.draft)


def is_object(text: str) -> bool:
    """Whether the text is the JSON of an object."""
    try:
        return isinstance(read_json(text.encode("utf-8", "replace")), dict)
    except ValueError:
        return False
