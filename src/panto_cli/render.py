"""A run as text: the answer on standard output while it comes, everything else as notes.

Law: what is on standard output is the text of the answer and nothing but it, ending with a newline; text is written
when it comes.
"""

from __future__ import annotations

import panto

from .terminal import Console

__all__ = ["TextRenderer"]


class TextRenderer:
    """Shows the events of a run as text."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._current: int | None = None
        self._waiting: dict[int, list[str]] = {}
        self._thinking = False
        self.stop_reason: panto.StopReason | None = None
        self.detail: str | None = None

    def show(self, event: panto.Event) -> None:
        """Show one event."""
        match event:
            case panto.ContentDelta(index=index, type=panto.ContentBlockType.TEXT, text=text):
                self._text(index, text)
            case panto.ContentDelta(type=panto.ContentBlockType.THINKING) if not self._thinking:
                self._thinking = True
                self._console.note("thinking ...")
            case panto.BlockComplete(index=index, block=panto.TextualBlock()):
                self._block_over(index)
            case panto.MessageComplete():
                self._message_over()
            case panto.ProviderRetry(info=info):
                self._retry(info)
            case panto.ToolDispatchStart(call=call):
                self._console.note(f"[{call.name}]")
            case panto.ToolProgress(call=call, text=text):
                self._console.note(f"[{call.name}] {text}")
            case panto.TurnComplete(stop_reason=reason, detail=detail):
                self.stop_reason, self.detail = reason, detail
            case _:
                pass  # the answer is told by its text; docs/command.md says what --json has beyond that

    def end(self) -> None:
        """The run is over, in whatever way."""
        self._message_over()

    def _text(self, index: int, text: str) -> None:
        # Blocks may be open side by side; a reader wants them one after the other.
        if self._current is None:
            self._current = index
        if index == self._current:
            self._console.write(text)
        else:
            self._waiting.setdefault(index, []).append(text)

    def _block_over(self, index: int) -> None:
        if index != self._current:
            return
        self._current = None
        for waiting in sorted(self._waiting):
            self._console.write("".join(self._waiting.pop(waiting)))

    def _message_over(self) -> None:
        for waiting in sorted(self._waiting):
            self._console.write("".join(self._waiting.pop(waiting)))
        self._current, self._thinking = None, False
        self._console.end_line()

    def _retry(self, info: panto.ProviderRetryInfo) -> None:
        void = ""
        if info.voided and self._console.wrote:
            self._waiting.clear()
            self._console.end_line()
            void = "the answer above was cut off and begins anew; "
        self._current, self._thinking = None, False
        self._console.note(
            f"{info.kind.value.replace('_', ' ')}: {info.message}; {void}"
            f"trying again in {info.delay:.1f} s ({info.attempt} of {info.limit})"
        )
