"""What the data of images and documents are, told from their first bytes, and which of them a provider refuses.

Law: bytes are believed, claims are not; nothing here decodes a picture: a kind, a size and a length are all it takes.

Limits of Anthropic's Messages (https://docs.anthropic.com/en/docs/build-with-claude/vision, 2026-12): PNG, JPEG, GIF or
WebP; 5 MB an image, which counts the base64 text ("image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes"); 8,000
pixels a side, or 2,000 in a request of more than 20 images; 32 MB a request. OpenAI takes the same four formats, up to
20 MB an image and 50 MB a request (https://platform.openai.com/docs/guides/images-vision, 2025).
"""

from __future__ import annotations

import binascii
from typing import Final

import msgspec

from panto.config import APIStyle
from panto.conversation import MediaBlock, StoredMediaPart

__all__ = [
    "CROWD",
    "HEAD",
    "IMAGES",
    "PDF",
    "Album",
    "AlbumChanged",
    "MediaLimits",
    "bare_type",
    "base64_length",
    "broken_rule",
    "image_size",
    "is_image",
    "kind_of",
    "limits_of",
    "stored_kind",
]

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The formats that every provider with eyes reads."""

PDF: Final = "application/pdf"

HEAD: Final = 1024
"""How many bytes tell the kind: a PDF may begin with that much of something else."""

_SIGNATURES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)

CROWD: Final = 20
"""A request with more images than this is one of many images, for which the smaller side holds."""


class MediaLimits(msgspec.Struct, frozen=True):
    """What one wire takes: characters of base64 an image and a request, and pixels a side, alone and in a crowd.

    The total leaves room in the request for everything else.
    """

    base64: int
    total: int
    side: int | None = None
    crowded_side: int | None = None


_LIMITS: Final[dict[APIStyle, MediaLimits]] = {
    APIStyle.ANTHROPIC_MESSAGES: MediaLimits(5 * 1024 * 1024, 24_000_000, 8_000, 2_000),
    APIStyle.OPENAI_CHAT: MediaLimits(20 * 1024 * 1024, 40_000_000),
}

_NO_LIMITS: Final = MediaLimits(20 * 1024 * 1024, 40_000_000)


def limits_of(style: APIStyle) -> MediaLimits:
    """What images a wire takes."""
    return _LIMITS.get(style, _NO_LIMITS)


def base64_length(size: int) -> int:
    """How many characters `size` bytes are as base64."""
    return (size + 2) // 3 * 4


def bare_type(claim: str) -> str:
    """A media type in lower case, without parameters.

    >>> bare_type("Image/PNG; charset=binary")
    'image/png'
    """
    return claim.partition(";")[0].strip().lower()


def kind_of(head: bytes, claim: str) -> str | None:
    """The media type that the first `HEAD` bytes tell, else the claimed one; `None` for an image or PDF that is none.

    >>> kind_of(b"GIF89a...", "image/png"), kind_of(b"hello", "text/plain"), kind_of(b"hello", "image/png")
    ('image/gif', 'text/plain', None)
    """
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            return kind
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    claimed = bare_type(claim)
    if claimed == PDF:
        return PDF if b"%PDF-" in head[:HEAD] else None
    return None if claimed.startswith("image/") else claimed


def is_image(media: MediaBlock | StoredMediaPart) -> bool:
    """Whether its data are an image of one of the four formats."""
    return stored_kind(media) in IMAGES


def stored_kind(media: MediaBlock | StoredMediaPart) -> str | None:
    """`kind_of` what a history holds."""
    return kind_of(_begin(media.data, HEAD if bare_type(media.media_type) == PDF else 24), media.media_type)


def broken_rule(
    media: MediaBlock | StoredMediaPart, limits: MediaLimits | None, *, crowded: bool = False
) -> str | None:
    """The rule that sound base64 breaks: `unreadable_media`, `image_too_large`, `media_type`, or none.

    limits: of the wire it goes to; `None` tells only what holds everywhere. crowded: whether more than `CROWD` images
    go with it.
    """
    kind = stored_kind(media)
    if kind is None:
        return "unreadable_media"
    if kind in IMAGES and limits is not None:
        if len(media.data) > limits.base64:
            return "image_too_large"
        most = limits.crowded_side if crowded else limits.side
        if most is not None and max(_stored_size(media.data) or (0,)) > most:
            return "image_too_large"
    return "media_type" if (kind in IMAGES or kind == PDF) and kind != media.media_type else None


class AlbumChanged(Exception):
    """What was judged before is judged otherwise now: begin anew, with the same album."""


class Album:
    """All media of one request, judged in their order: what is too large in a crowd, and what is too much in all.

    Where all together are over the total, the oldest are left out, down to half of it, so that this happens rarely; but
    those of the message that brings it about stay as far as they can.
    What it has found holds on, so that the same history is always judged the same, however it grew.
    """

    def __init__(self, limits: MediaLimits) -> None:
        self._limits = limits
        self._crowded = False
        self._left_out = 0
        self.begin()

    def begin(self) -> None:
        """Start again at the first of the media."""
        self._seen = self._before = 0
        self._images = 0
        self._total = 0
        self._sizes: dict[int, int] = {}

    def turn(self) -> None:
        """What comes now is of the next message."""
        self._before = self._seen

    def judge(self, media: MediaBlock | StoredMediaPart) -> str | None:
        """The rule that the next one breaks. Raises `AlbumChanged`."""
        self._seen += 1
        if self._seen <= self._left_out:
            return "too_many_media"
        rule = broken_rule(media, self._limits, crowded=self._crowded)
        if rule in (None, "media_type"):
            self._sizes[self._seen] = len(media.data)
            self._total += len(media.data)
            self._images += is_image(media)
            if self._images > CROWD and not self._crowded and self._limits.side != self._limits.crowded_side:
                self._crowded = True
                raise AlbumChanged
            if self._total > self._limits.total and len(self._sizes) > 1:
                for at, size in list(self._sizes.items())[:-1]:
                    if self._total <= self._limits.total // (2 if at <= self._before else 1):
                        break
                    self._total, self._left_out = self._total - size, at
                raise AlbumChanged
        return rule


def _begin(data: str, size: int) -> bytes:
    try:
        return binascii.a2b_base64(data[: base64_length(size)])
    except ValueError:
        return b""


def _stored_size(data: str) -> tuple[int, int] | None:
    return image_size(_begin(data, 32)) or image_size(_begin(data, 256 * 1024))


# ---------------------------------------------------------------- width and height


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels, from the header of a PNG, JPEG, GIF or WebP; `None` where it does not say.

    >>> image_size(b"GIF89a" + bytes([44, 1, 200, 0]))
    (300, 200)
    """
    match kind_of(data[:24], ""):
        case "image/png" if len(data) >= 24:
            return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
        case "image/gif" if len(data) >= 10:
            return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
        case "image/webp" if len(data) >= 30:
            return _webp_size(data)
        case "image/jpeg":
            return _jpeg_size(data)
        case _:
            return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """By the first chunk: lossy, lossless, or extended (RFC 9649)."""
    match data[12:16]:
        case b"VP8 ":
            return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case _:
            return None


_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers of JPEG that have no length (ITU-T T.81, table B.1)."""

_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of JPEG that begin a frame, and tell its size."""


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(data):
        marker = data[at + 1]
        if data[at] != 0xFF or marker == 0xFF:
            at += 1
        elif marker in _ALONE:
            at += 2
        elif marker in _FRAMES:
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        elif marker == 0xDA:  # the picture itself
            return None
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None
