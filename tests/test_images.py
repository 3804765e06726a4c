"""Images that enter a history never make a session unusable: field cases IM-01 to IM-07, and what else may come."""

from __future__ import annotations

import base64
import io
import random
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

import panto
from panto import MediaBlock, MediaPart, StoredMediaPart, TextPart
from panto._images import MAX_BASE64, prepare
from panto.rules.media import image_size
from panto.testing import RecordedRequest, call, record, replay, say

from .faces import Face
from .stage import Stage, results

SIDE = 1568

both_wires = pytest.mark.parametrize("style", ["openai_chat", "anthropic_messages"])


def encoded(image: Image.Image, name: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, name, **options)
    return file.getvalue()


def picture(width: int, height: int, name: str = "PNG", mode: str = "RGB", **options: Any) -> bytes:
    return encoded(Image.new(mode, (width, height)), name, **options)


def noise(width: int, height: int, mode: str = "RGB") -> bytes:
    data = random.Random(1).randbytes(width * height * len(mode))
    return encoded(Image.frombytes(mode, (width, height), data), "PNG", compress_level=1)


def png_header(width: int, height: int) -> bytes:
    """A PNG that announces a size, with next to no data."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 9)) + chunk(b"IEND", b"")


def fit(data: bytes, claim: str = "image/png", side: int = SIDE, **more: int) -> tuple[str, Image.Image]:
    """The prepared image, which is one: its media type, and it decoded."""
    made = prepare(MediaPart(claim, data), side, **more)
    assert isinstance(made, MediaPart), made
    image = Image.open(io.BytesIO(made.data))
    assert Image.MIME[str(image.format)] == made.media_type
    image.load()
    return made.media_type, image


def note(data: bytes, claim: str = "image/png") -> str:
    made = prepare(MediaPart(claim, data), SIDE)
    assert isinstance(made, TextPart), made
    return made.text


def sent(request: RecordedRequest) -> Iterator[tuple[str, bytes]]:
    """The images of a request as they went over the wire: the media type that it says, and the bytes."""

    def walk(value: Any) -> Iterator[tuple[str, bytes]]:
        match value:
            case {"type": "image_url", "image_url": {"url": url}}:
                head, _, data = url.partition(";base64,")
                yield head.removeprefix("data:"), base64.b64decode(data)
            case {"type": "image", "source": {"media_type": kind, "data": data}}:
                yield kind, base64.b64decode(data)
            case dict():
                for item in value.values():
                    yield from walk(item)
            case list():
                for item in value:
                    yield from walk(item)

    yield from walk(request.body["messages"])


def both_ways(face: Face, style: str, data: bytes, claim: str) -> tuple[RecordedRequest, panto.Conversation]:
    """A run in which the user and a tool both show the same picture: its last request, and the history."""
    stage = Stage(face, "memory")
    tool = stage.tool("look", lambda arguments: ["here", MediaPart(claim, data)])
    agent, provider = stage.agent([call("look"), say("I see")], tool, style=style)
    ran = stage.run(agent, panto.UserMessage("What is it?", [MediaPart(claim, data)]))
    assert ran.error is None
    assert agent.conversation.problems(agent.conversation.messages[-1].identity) == []
    return provider.requests[-1], agent.conversation


def upright(image: Image.Image) -> bool:
    """Whether the dark corner is where `letter` has it: at the top left."""
    grey = image.convert("L")
    width, height = grey.size
    at = [(width // 8, height // 8), (width * 7 // 8, height // 8), (width // 8, height * 7 // 8)]
    corners = [grey.getpixel(place) for place in [*at, (width * 7 // 8, height * 7 // 8)]]
    return corners[0] < 100 and min(corners[1:]) > 150  # type: ignore[operator, type-var]


# ---------------------------------------------------------------- the field cases


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_im_01_the_limit_counts_the_base64_text(mode: str) -> None:
    data = noise(1200, 1300 if mode == "RGB" else 1000, mode)
    assert 3_750_000 < len(data) < 5_000_000
    made = prepare(MediaPart("image/png", data), SIDE)
    assert isinstance(made, MediaPart)
    assert made.media_type == "image/jpeg"
    assert len(base64.b64encode(made.data)) <= MAX_BASE64
    assert image_size(made.data) == image_size(data)


def test_im_01_what_jpeg_does_not_make_small_enough_gets_smaller_sides() -> None:
    _, image = fit(noise(600, 300), max_bytes=20_000)
    assert 20 < image.width < 600
    assert abs(image.width / image.height - 2) < 0.1
    impossible = prepare(MediaPart("image/png", noise(600, 300)), SIDE, max_bytes=10)
    assert isinstance(impossible, TextPart)
    assert "cannot be made as small" in impossible.text


@both_wires
def test_im_01_a_run_goes_on_with_the_smaller_image(face: Face, style: str) -> None:
    request, _ = both_ways(face, style, noise(1200, 1300), "image/png")
    assert [kind for kind, _ in sent(request)] == ["image/jpeg", "image/jpeg"]
    assert all(len(base64.b64encode(data)) <= MAX_BASE64 for _, data in sent(request))


CLAIMS = [
    ("JPEG", "image/png", "image/jpeg"),
    ("GIF", "image/png", "image/gif"),
    ("JPEG", "image/jpg", "image/jpeg"),
    ("PNG", "image/png; charset=binary", "image/png"),
    ("WEBP", "IMAGE/WEBP", "image/webp"),
    ("PNG", "application/octet-stream", "image/png"),
    ("PNG", "", "image/png"),
]


@pytest.mark.parametrize(("name", "claim", "kind"), CLAIMS)
def test_im_02_the_media_type_is_what_the_bytes_are(name: str, claim: str, kind: str) -> None:
    data = picture(30, 20, name)
    assert prepare(MediaPart(claim, data), SIDE) == MediaPart(kind, data)
    assert fit(picture(300, 200, name), claim, side=100)[1].size == (100, 67)  # `fit` compares type and bytes


@both_wires
@pytest.mark.parametrize(("name", "claim", "kind"), CLAIMS[:4])
def test_im_02_each_wire_says_what_the_bytes_are(face: Face, style: str, name: str, claim: str, kind: str) -> None:
    data = picture(30, 20, name)
    request, _ = both_ways(face, style, data, claim)
    assert list(sent(request)) == [(kind, data)] * 2


@both_wires
@pytest.mark.parametrize(("name", "claim", "kind"), CLAIMS[:4])
def test_im_02_so_does_a_history_made_by_hand(face: Face, style: str, name: str, claim: str, kind: str) -> None:
    stage = Stage(face, "memory")
    talk = panto.Conversation()
    data = picture(30, 20, name)
    talk.add_user_message("see", [MediaPart(claim, data)])
    agent, provider = stage.agent([say("ok")], style=style, conversation=talk)
    assert stage.run(agent, None).error is None
    assert list(sent(provider.requests[0])) == [(kind, data)]
    assert [problem.rule for problem in talk.problems()] == ["media_type"]


def modes() -> Iterator[tuple[str, bytes, Any]]:
    """4000 pixels wide, with a light and a dark half; and what is in the middle of the light half afterwards."""
    size = (4000, 400)
    for mode, light, dark in (
        ("RGBA", (250, 250, 250, 255), (0, 0, 0, 0)),
        ("LA", (250, 255), (0, 0)),
        ("1", 1, 0),
        ("L", 250, 0),
        ("I;16", 64_000, 0),
    ):
        image = Image.new(mode, size, light)
        image.paste(dark, (0, 0, 2000, 400))
        yield mode, encoded(image, "PNG"), 250
    palette = Image.new("P", size, 1)
    palette.putpalette([0, 0, 0, 250, 250, 250])
    palette.paste(0, (0, 0, 2000, 400))
    yield "P", encoded(palette, "PNG"), 250
    yield "P with transparency", encoded(palette, "PNG", transparency=0), 250
    yield "P with bytes of transparency", encoded(palette, "PNG", transparency=b"\0\xff"), 250
    yield "RGB with a transparent colour", encoded(palette.convert("RGB"), "PNG", transparency=(0, 0, 0)), 250
    cmyk = Image.new("CMYK", size, (5, 5, 5, 0))
    cmyk.paste((255, 255, 255, 255), (0, 0, 2000, 400))
    yield "CMYK", encoded(cmyk, "JPEG"), 250
    yield "GIF", encoded(palette, "GIF", transparency=0), 250


@pytest.mark.parametrize(("name", "data", "light"), list(modes()), ids=[name for name, _, _ in modes()])
@pytest.mark.parametrize("limit", [MAX_BASE64, 1_200], ids=["within bytes", "over bytes"])
def test_im_03_every_mode_is_shrunk_and_nothing_turns_black(name: str, data: bytes, light: int, limit: int) -> None:
    _, image = fit(data, max_bytes=limit)
    assert limit < MAX_BASE64 or image.size == (1568, 157)
    see_through = "transp" in name or name in ("RGBA", "LA", "GIF")
    assert image.mode == ("RGBA" if see_through and image.format == "PNG" else image.mode)
    colour = image.convert("RGBA")
    right, left = (colour.getpixel((colour.width * part // 4, colour.height // 2)) for part in (3, 1))
    assert isinstance(right, tuple)
    assert isinstance(left, tuple)
    assert all(abs(channel - light) < 8 for channel in right[:3])
    if see_through:
        assert left[3] == 0 or min(left[:3]) > 245  # transparent still, or on white
    else:
        assert max(left[:3]) < 8


def test_im_03_transparent_noise_is_laid_on_white_when_png_is_too_large() -> None:
    image = Image.frombytes("RGBA", (300, 300), random.Random(2).randbytes(360_000))
    image.paste((0, 0, 0, 0), (0, 0, 300, 150))
    kind, made = fit(encoded(image, "PNG"), max_bytes=100_000)
    assert kind == "image/jpeg"
    pixel = made.convert("RGB").getpixel((made.width // 2, made.height // 4))
    assert isinstance(pixel, tuple)
    assert min(pixel) > 245


@both_wires
def test_im_04_no_image_is_too_large_when_the_conversation_has_grown(face: Face, style: str) -> None:
    stage = Stage(face, "memory")
    sizes = [(2400, 600), *[(40, 30)] * 20]
    left = [MediaPart("image/png", picture(*size)) for size in sizes]
    tool = stage.tool("look", lambda arguments: left.pop(0))
    agent, provider = stage.agent([*[call("look")] * 21, say("done")], tool, style=style)
    assert stage.run(agent).error is None
    images = list(sent(provider.requests[-1]))
    assert len(images) == 21
    assert image_size(images[0][1]) == (1568, 392)
    assert agent.conversation.problems(agent.conversation.messages[-1].identity) == []


@both_wires
def test_im_04_a_history_made_by_hand_is_looked_at_when_the_request_is_built(face: Face, style: str) -> None:
    """On Messages 21 images lower the limit for each of them; when they are few again, so is what is left out."""
    messages = style == "anthropic_messages"
    stage = Stage(face, "memory")
    talk = panto.Conversation()
    talk.add_user_message("see", [MediaPart("image/png", picture(2400, 600))])
    talk.add_assistant_message("I see")
    talk.add_user_message("see", [MediaPart("image/png", picture(9000, 10))])
    talk.add_assistant_message("I see")
    agent, provider = stage.agent([say("ok")] * 3, style=style, conversation=talk)
    assert stage.run(agent).error is None
    assert [image_size(data) for _, data in sent(provider.requests[0])] == (
        [(2400, 600)] if messages else [(2400, 600), (9000, 10)]
    )
    identity = talk.messages[-1].identity
    assert [(p.rule, p.message) for p in talk.problems(identity)] == ([("image_too_large", 2)] if messages else [])
    few = len(talk.messages)
    talk.add_user_message("see", [MediaPart("image/png", picture(40, 30))] * 20)
    assert stage.run(agent, None).error is None
    assert len(list(sent(provider.requests[1]))) == (20 if messages else 22)
    assert "larger than this provider takes" in str(provider.requests[1].body) or not messages
    found = [(p.rule, p.message) for p in talk.problems(identity)]
    assert found == ([("image_too_large", 0), ("image_too_large", 2)] if messages else [])
    del talk.messages[few:]
    talk.add_user_message("and now?")
    assert stage.run(agent, None).error is None
    assert len(list(sent(provider.requests[2]))) == (1 if messages else 2)


def test_im_04_a_resumed_history_with_too_many_bytes_or_no_image_is_sent_with_words_instead(face: Face) -> None:
    stage = Stage(face, "memory")
    large = b"\x89PNG\r\n\x1a\n" + bytes(4_000_000)
    shown = (StoredMediaPart("image/png", base64.b64encode(large).decode()),)
    talk = panto.Conversation()
    talk.add_user_message("see", [MediaPart("image/svg+xml", b"<svg/>"), MediaPart("application/pdf", b"none")])
    talk.add_assistant_message([panto.ToolUseBlock("c1", "look", "{}")])
    talk.messages.append(panto.Message(panto.MessageRole.USER, [panto.ToolResultBlock("c1", shown)]))
    agent, provider = stage.agent([say("ok")], style="anthropic_messages", conversation=talk)
    assert stage.run(agent, "and?").error is None
    assert list(sent(provider.requests[0])) == []
    body = str(provider.requests[0].body)
    assert body.count("of no kind that can be read") == 2
    assert body.count("larger than this provider takes") == 1
    assert talk.messages[2].content == [panto.ToolResultBlock("c1", shown)]


@pytest.mark.parametrize(
    ("size", "wanted"), [((12000, 40), (1568, 5)), ((40, 12000), (5, 1568)), ((12000, 1), (1568, 1))]
)
def test_im_05_few_bytes_and_many_pixels_are_shrunk_in_proportion(
    size: tuple[int, int], wanted: tuple[int, int]
) -> None:
    assert fit(picture(*size))[1].size == wanted


@pytest.mark.parametrize("size", [(1, 1), (1568, 1568), (1568, 3)])
def test_im_05_no_image_is_enlarged_or_touched_without_need(size: tuple[int, int]) -> None:
    part = MediaPart("image/png", picture(*size))
    assert prepare(part, SIDE) == part


@both_wires
def test_im_05_a_long_screenshot_goes_through_a_run(face: Face, style: str) -> None:
    request, talk = both_ways(face, style, picture(10_000, 800), "image/png")
    assert [image_size(data) for _, data in sent(request)] == [(1568, 125)] * 2
    [result] = results(talk)
    assert isinstance(result.parts[0], TextPart)
    assert isinstance(result.parts[1], StoredMediaPart)


BOMBS = [
    png_header(60_000, 60_000),
    png_header(15_000, 15_000),
    b"GIF89a" + struct.pack("<HH", 65_535, 65_535) + picture(2, 2, "GIF")[10:],
    b"RIFF\x2a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff\x3f\0" * 2 + b"VP8L" + bytes(12),
]


@pytest.mark.parametrize("data", BOMBS, ids=["3600 million", "225 million", "gif", "webp"])
def test_im_06_a_decompression_bomb_becomes_a_note_before_it_is_decoded(data: bytes) -> None:
    limit = Image.MAX_IMAGE_PIXELS
    assert "more than 100 million" in note(data)
    assert limit == Image.MAX_IMAGE_PIXELS


def test_im_06_pillow_does_not_warn_of_what_is_below_our_limit_and_above_its_own() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(picture(9_500, 9_500, mode="L"))[1].size == (SIDE, SIDE)


def test_im_06_nothing_reaches_the_terminal() -> None:
    code = (
        "import base64, sys; from panto._images import prepare; from panto import MediaPart\n"
        "for line in sys.stdin: print(type(prepare(MediaPart('image/png', base64.b64decode(line)), 1568)).__name__)"
    )
    torn = Image.Exif()
    torn[0x0112], torn[0x010F] = 6, "maker" * 30
    broken = picture(30, 20, "JPEG", exif=torn.tobytes()[:-100])
    given = "\n".join(base64.b64encode(data).decode() for data in [*BOMBS, broken])
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["TextPart"] * 4 + ["MediaPart"]
    assert done.stderr == ""


@both_wires
@pytest.mark.parametrize("data", [BOMBS[0], b"no picture", picture(400, 300, "JPEG")[:-300]])
def test_im_06_a_run_goes_on_with_words_in_place_of_what_cannot_be_shown(face: Face, style: str, data: bytes) -> None:
    request, talk = both_ways(face, style, data, "image/png")
    assert list(sent(request)) == []
    [result] = results(talk)
    assert result.text.startswith("here[an image ")
    assert not result.is_error


def letter(orientation: int, size: tuple[int, int] = (4000, 3000)) -> bytes:
    """A photo of a dark corner at the top left, stored as a camera held in that way would store it."""
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).rectangle((0, 0, size[0] // 3, size[1] // 3), fill="black")
    back = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    if orientation in back:
        image = image.transpose(back[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif.get_ifd(0x8825)[1] = "N"  # GPS
    return encoded(image, "JPEG", exif=exif, comment=b"private")


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("size", [(4000, 3000), (400, 300)], ids=["large", "small"])
def test_im_07_a_photo_stands_upright_and_tells_nothing_private(orientation: int, size: tuple[int, int]) -> None:
    data = letter(orientation, size)
    kind, image = fit(data, "image/jpeg")
    assert kind == "image/jpeg"
    assert image.size == ((1568, 1176) if size[0] > SIDE else size)
    assert upright(image)
    assert image.getexif().get(0x0112, 1) == 1
    if orientation != 1 or size[0] > SIDE:
        assert dict(image.getexif()) == {}
        assert "comment" not in image.info


@both_wires
def test_im_07_a_photo_held_sideways_goes_through_a_run(face: Face, style: str) -> None:
    request, _ = both_ways(face, style, letter(6), "image/jpeg")
    for _, data in sent(request):
        assert upright(Image.open(io.BytesIO(data)))


# ---------------------------------------------------------------- what else may come


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([picture(9, 5, name) for name in ("PNG", "JPEG", "GIF", "WEBP")] + [b"", b"%PDF-1.4"]),
    st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=6)), max_size=6),
    st.text(max_size=20) | st.sampled_from(["image/png", "application/pdf", "text/plain"]),
    st.integers(1, 8),
)
def test_no_bytes_whatever_raise(data: bytes, changes: list[tuple[int, bytes]], claim: str, side: int) -> None:
    for at, piece in changes:
        data = data[:at] + piece + data[at + len(piece) :]
    made = prepare(MediaPart(claim, data), side)
    if isinstance(made, MediaPart) and made.media_type.startswith("image/"):
        size = image_size(made.data)
        assert size is None or max(size) <= side
    assert prepare(made, side) == made if isinstance(made, MediaPart) else made.text.startswith("[")


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=60), st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF0000WEBP", b""])
)
def test_no_header_whatever_raises(data: bytes, head: bytes) -> None:
    image_size(head + data)
    prepare(MediaPart("image/png", head + data), SIDE)


def test_an_animated_gif_becomes_its_first_frame() -> None:
    frames = [Image.new("RGB", (3000, 20), colour) for colour in ("red", "blue")]
    for side in (SIDE, 4000):
        _, image = fit(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]), side=side)
        assert getattr(image, "n_frames", 1) == 1
        assert image.width == min(side, 3000)
        assert image.convert("RGB").getpixel((5, 5)) == (255, 0, 0)


@pytest.mark.parametrize(
    ("claim", "data", "kind"),
    [
        ("application/pdf", b"%PDF-1.4 ...", "application/pdf"),
        ("application/octet-stream", b"%PDF-1.4 ...", "application/pdf"),
        ("application/pdf", b"\r\n%PDF-1.4 ...", "application/pdf"),
        ("text/csv; charset=utf-8", b"a,b", "text/csv; charset=utf-8"),
        ("audio/wav", b"RIFF\0\0\0\0WAVE", "audio/wav"),
        ("application/json", b"{}", "text/plain"),
    ],
)
def test_a_document_is_kept_where_a_wire_knows_how_to_send_it(claim: str, data: bytes, kind: str) -> None:
    assert prepare(MediaPart(claim, data), SIDE) == MediaPart(kind, data)


@pytest.mark.parametrize(
    ("claim", "data", "words"),
    [
        ("application/zip", b"PK\x03\x04\xff", "application/zip, 5 bytes"),
        ("\ud800\n" * 50, b"\xff", "of no known type"),
        ("application/pdf", b"none", "no PDF"),
        ("image/svg+xml", b"<svg/>", "no PNG, JPEG, GIF or WebP"),
        ("image/png", b"", "empty"),
    ],
)
def test_what_no_model_can_read_becomes_words_about_it(claim: str, data: bytes, words: str) -> None:
    assert words in note(data, claim)


def test_what_a_hook_puts_in_place_of_a_result_is_prepared_too(face: Face) -> None:
    stage = Stage(face, "memory")
    shown = panto.ToolCallResult((MediaPart("image/jpg", picture(2000, 20)),))
    hooks = panto.Hooks(after_tool_call=lambda call, result: shown)
    agent, provider = stage.agent([call("look"), say("ok")], stage.tool("look", lambda arguments: "no"), hooks=hooks)
    with record(agent) as journal:
        ran = stage.run(agent)
    assert [(kind, image_size(data)) for kind, data in sent(provider.requests[-1])] == [("image/png", (1568, 16))]
    again, _ = stage.agent([], stage.tool("look", lambda arguments: "no"), hooks=hooks)
    assert replay(journal, again).events == ran.events


@both_wires
def test_a_run_with_images_replays_from_its_journal(face: Face, style: str) -> None:
    stage = Stage(face, "memory")
    part = MediaPart("image/png", picture(2000, 20, "JPEG"))
    agent, _ = stage.agent([call("look"), say("ok")], stage.tool("look", lambda arguments: part), style=style)
    with record(agent) as journal:
        ran = stage.run(agent, panto.UserMessage("see", [part]))
    again, _ = stage.agent([], stage.tool("look", lambda arguments: "never run"), style=style)
    done = replay(journal, again)
    assert done.events == ran.events
    assert done.conversation == agent.conversation
    [said] = [block for block in done.conversation.messages[0].content if isinstance(block, MediaBlock)]
    assert image_size(base64.b64decode(said.data)) == (1568, 16)


def test_the_configured_side_holds_for_the_user_and_for_tools(face: Face) -> None:
    stage = Stage(face, "memory")
    part = MediaPart("image/png", picture(300, 30))
    tool = stage.tool("look", lambda arguments: part)
    agent, provider = stage.agent([call("look"), say("ok")], tool, max_image_side=100)
    stage.run(agent, panto.UserMessage("see", [part]))
    assert [image_size(data) for _, data in sent(provider.requests[-1])] == [(100, 10)] * 2


def test_many_threads_prepare_at_once_and_the_filters_of_warnings_stay() -> None:
    before = list(warnings.filters)
    data, made = letter(6), list[object]()
    threads = [
        threading.Thread(target=lambda: made.append(prepare(MediaPart("image/jpeg", data), 64))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(repr, made))) == 1
    assert len(made) == 8
    assert warnings.filters == before


@both_wires
def test_images_that_are_too_much_for_one_request_make_room_from_the_oldest_on(face: Face, style: str) -> None:
    """Each within its limit, all together over what a request may hold: 32 MB to Anthropic, 50 MB to OpenAI."""
    stage = Stage(face, "memory")
    limit = 24_000_000 if style == "anthropic_messages" else 40_000_000
    talk = panto.Conversation()
    agent, provider = stage.agent([say("ok")] * 5, style=style, conversation=talk)
    for _ in range(4):
        talk.add_user_message("see", [MediaPart("image/png", png_header(10, 10) + bytes(3_300_000))] * 3)
        assert stage.run(agent).error is None
    shown = [len(list(sent(request))) for request in provider.requests]
    assert shown == ([3, 3, 3, 3] if limit == 24_000_000 else [3, 6, 9, 6])
    found = [(problem.rule, problem.message) for problem in talk.problems(talk.messages[-1].identity)]
    assert [rule for rule, _ in found if rule != "same_role"] == ["too_many_media"] * (12 - shown[-1])
    fresh = panto.Conversation(messages=talk.messages[:-1])
    again, anew = stage.agent([say("ok")], style=style, conversation=fresh)
    assert stage.run(again, None).error is None
    assert anew.requests[0].body["messages"] == provider.requests[-1].body["messages"]
