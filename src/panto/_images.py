"""Images, made fit when they enter a history: upright, small enough, of the type that they say.

Law: whatever the bytes are, what comes back can be sent, to any provider that has eyes and however long the
conversation becomes: an image, a document as it was, or a text that says why there is none. Nothing here raises.

Pillow is imported when the first image comes; it opens an image by the format that its bytes say, never by guessing.
"""

from __future__ import annotations

import base64
import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .conversation import ContentBlock, MediaBlock, MediaPart, Message, TextPart, TextualBlock
from .rules.media import HEAD, IMAGES, PDF, bare_type, base64_length, image_size, kind_of
from .tools import ResultPart, ToolCallResult

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

__all__ = ["has_media", "prepare", "prepare_message", "prepare_result"]

MAX_BASE64: Final = 5_000_000
"""The base64 text of an image, in characters, so that each provider takes it: Anthropic's "5 MB" is the smallest limit
and counts the encoded text (https://docs.anthropic.com/en/docs/build-with-claude/vision, read 2026-12-01)."""

MAX_DOCUMENT_BASE64: Final = 30_000_000
"""The same of a document: a request to Anthropic, whole, may be 32 MB
(https://docs.anthropic.com/en/docs/build-with-claude/pdf-support, read 2026-12-01)."""

MAX_PIXELS: Final = 100_000_000
"""More is not decoded: a file of a few kilobytes can announce billions of pixels. 100 million are about 400 MB."""

MAX_SIDE: Final = 8_000
"""More than this Anthropic refuses whatever the config says (same page)."""

_SOUND: Final = frozenset({"audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3"})
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9.+_-]{0,60}/[a-z0-9][a-z0-9.+_-]{0,60}")


def prepare(part: MediaPart, max_side: int, max_bytes: int = MAX_BASE64) -> MediaPart | TextPart:
    """`part` as it can be sent; a text in its place where it cannot.

    part: its media type is a claim; that of the result is what its bytes are.
    max_side: pixels. An image whose longer side is longer is shrunk to it, in proportion; none is enlarged.
    max_bytes: characters of the image as base64. Where it has more it is encoded anew, as JPEG if nothing in it is
        transparent, then with smaller sides.

    An image that fits, stands upright and can be decoded comes back byte for byte. One that is encoded anew has no
    metadata: no place, no camera, no orientation. An animated GIF becomes its first frame, since not every provider
    takes more ("non-animated GIF": https://platform.openai.com/docs/guides/images-vision, 2025).

    >>> prepare(MediaPart("image/png", b"no picture"), 1568).text
    '[an image could not be read: its 10 bytes are no PNG, JPEG, GIF or WebP]'
    """
    data = bytes(part.data)
    kind = kind_of(data[:HEAD], part.media_type)
    claim = bare_type(part.media_type)
    if not data:
        return TextPart(f"[an empty attachment ({_shown(claim)}) was left out]")
    if kind in IMAGES:
        return _image(data, kind, max(1, min(max_side, MAX_SIDE)), max_bytes)
    if kind is None:
        if claim == PDF:
            return TextPart(f"[a document could not be read: its {len(data)} bytes are no PDF]")
        return TextPart(f"[an image could not be read: its {len(data)} bytes are no PNG, JPEG, GIF or WebP]")
    return _document(part, data, kind)


def _document(part: MediaPart, data: bytes, kind: str) -> MediaPart | TextPart:
    """What is no image: as declared where a wire knows how to send it, as text if it is text, else a word about it."""
    if base64_length(len(data)) > MAX_DOCUMENT_BASE64:
        return TextPart(f"[an attachment ({_shown(kind)}) was left out: its {len(data)} bytes are too many to be sent]")
    if kind == PDF:
        return part if part.media_type == PDF else MediaPart(PDF, data)
    if _TYPE.fullmatch(kind):
        if kind.startswith("text/") or kind in _SOUND:
            return part
        if _is_text(data):
            return MediaPart("text/plain", data)
    return TextPart(f"[an attachment ({_shown(kind)}, {len(data)} bytes) was left out: no model can read it]")


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _shown(kind: str) -> str:
    return kind if _TYPE.fullmatch(kind) else "of no known type"


# ---------------------------------------------------------------- where images enter a history


def prepare_message(message: Message, max_side: int) -> None:
    """Prepare the media of a message that is about to join a history; the message is changed."""
    if any(isinstance(block, MediaBlock) for block in message.content):
        message.content = [
            _block(block, max_side) if isinstance(block, MediaBlock) else block for block in message.content
        ]


def _block(block: MediaBlock, max_side: int) -> ContentBlock:
    made = prepare(MediaPart(block.media_type, base64.b64decode(block.data)), max_side)
    if isinstance(made, TextPart):
        return TextualBlock(made.text)
    return MediaBlock(made.media_type, base64.b64encode(made.data).decode("ascii"))


def prepare_result(result: ToolCallResult, max_side: int) -> ToolCallResult:
    """A tool's result with its media prepared; the very same where it has none."""
    if not has_media(result):
        return result
    parts: list[ResultPart] = [
        prepare(part, max_side) if isinstance(part, MediaPart) else part for part in result.parts
    ]
    return ToolCallResult(tuple(parts), result.is_error, result.details)


def has_media(result: ToolCallResult) -> bool:
    """Whether there is anything to prepare."""
    return any(isinstance(part, MediaPart) for part in result.parts)


# ---------------------------------------------------------------- one image


def _image(data: bytes, kind: str, max_side: int, max_bytes: int) -> MediaPart | TextPart:
    if (size := image_size(data)) is not None and size[0] * size[1] > MAX_PIXELS:
        return _too_many(size)
    try:
        image = _opened(data, kind)
        if image.width * image.height > MAX_PIXELS:
            return _too_many(image.size)
        within = max(image.size) <= max_side
        animated = kind == "image/gif" and _is_animated(image)
        if not within:
            width, height = _within(image.size, max_side)
            image.draft(None, (2 * width, 2 * height))  # a JPEG is decoded at a half, a quarter, an eighth
        image.load()  # what is broken is found here, not by the provider
        turn = _turn(image)
        if within and not animated and turn is None and base64_length(len(data)) <= max_bytes:
            return MediaPart(kind, data)
        made = _encoded(_plain(image), turn, kind, max_side, max_bytes)
    except Exception:
        name = kind.removeprefix("image/").upper()
        return TextPart(f"[an image could not be read: the {len(data)} bytes of its {name} are broken or cut off]")
    if made is None:
        return TextPart(f"[an image was left out: it cannot be made as small as {max_bytes} bytes]")
    return made


def _too_many(size: tuple[int, int]) -> TextPart:
    most = MAX_PIXELS // 1_000_000
    return TextPart(f"[an image was left out: {size[0]} x {size[1]} pixels are more than {most} million]")


_WARNINGS = threading.Lock()


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep Pillow's words about odd metadata off the terminal.

    Filters belong to the whole process: hence the lock, and nothing long in here.
    """
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _opened(data: bytes, kind: str) -> ImageFile:
    """The image, its header read. By its own class: `Image.open` would guess, and warn of many pixels by itself."""
    from PIL import GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

    classes: dict[str, type[ImageFile]] = {
        "image/png": PngImagePlugin.PngImageFile,
        "image/jpeg": JpegImagePlugin.JpegImageFile,
        "image/gif": GifImagePlugin.GifImageFile,
        "image/webp": WebPImagePlugin.WebPImageFile,
    }
    with _quietly():
        return classes[kind](io.BytesIO(data))


def _is_animated(image: ImageFile) -> bool:
    with _quietly():
        try:
            return bool(getattr(image, "is_animated", False))
        except Exception:
            return True  # whatever follows the first frame is broken, and goes as well


_TRANSPOSE: Final = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
"""What each EXIF orientation needs to stand upright, as `PIL.Image.Transpose`."""


def _turn(image: ImageFile) -> int | None:
    """The turn that an image needs to stand upright; `None` for none."""
    with _quietly():
        try:
            return _TRANSPOSE.get(image.getexif().get(0x0112, 1))
        except Exception:
            return None  # broken metadata are no reason to lose a picture


def _plain(image: Image) -> Image:
    """As grey, colour, or colour with transparency, eight bits each; without metadata."""
    if image.mode.startswith("I") or image.mode == "F":
        made = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    elif image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        made = image.convert("RGBA")
        if made.getchannel("A").getextrema()[0] == 255:
            made = made.convert("RGB")
    else:
        made = image.convert("L" if image.mode in ("1", "L") else "RGB")
    made.info = {}
    return made


def _encoded(image: Image, turn: int | None, kind: str, max_side: int, max_bytes: int) -> MediaPart | None:
    """The image within both limits, upright; `None` where no size will do."""
    from PIL.Image import Resampling, Transpose

    side = min(max_side, max(image.size))
    while True:
        if (size := _within(image.size, side)) != image.size:
            image = image.resize(size, Resampling.LANCZOS)
        if turn is not None:
            image, turn = image.transpose(Transpose(turn)), None
        for made, data in _ways(image, kind):
            if base64_length(len(data)) <= max_bytes:
                return MediaPart(made, data)
        if side == 1:
            return None
        side = max(1, side * 3 // 4)


def _within(size: tuple[int, int], side: int) -> tuple[int, int]:
    """The size in proportion, its longer side no longer than `side`, its shorter at least one pixel."""
    longer = max(size)
    if longer <= side:
        return size
    width, height = (max(1, (length * side + longer // 2) // longer) for length in size)
    return width, height


def _ways(image: Image, kind: str) -> Iterator[tuple[str, bytes]]:
    """The encodings to try, best first. What is transparent is kept so, or laid on white."""
    if image.mode == "RGBA" or kind in ("image/png", "image/gif"):
        yield "image/png", _saved(image, "PNG")
    if image.mode == "RGBA":
        from PIL import Image as pillow

        paper = pillow.new("RGB", image.size, "white")
        paper.paste(image, mask=image.getchannel("A"))
        image = paper
    for quality in (85, 60):
        yield "image/jpeg", _saved(image, "JPEG", quality)


def _saved(image: Image, name: str, quality: int = 0) -> bytes:
    file = io.BytesIO()
    image.save(file, name, quality=quality) if quality else image.save(file, name)
    return file.getvalue()
