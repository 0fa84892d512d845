import io
import os

from pruner.display import PlainDisplay
from pruner.stream import LastingStream


def test_a_closed_pipe_ends_the_output_and_nothing_else():
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as pipe:
        stream = LastingStream(pipe)
        assert stream.write("lost") == 4
        stream.flush()
        stream.write("more")
        stream.flush()
        pipe.flush()  # as Python does when it exits: what was buffered has somewhere to go
    assert not stream.isatty()


def test_a_display_outlives_its_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as pipe:
        display = PlainDisplay(pipe)
        display.message("one")
        display.message("two")
        display.finish(None, "three")


def test_characters_that_the_encoding_lacks_are_escaped():
    raw = io.BytesIO()
    stream = LastingStream(io.TextIOWrapper(raw, encoding="ascii"))
    stream.write("caf\u00e9 \u2026")
    stream.flush()
    assert raw.getvalue() == b"caf\\xe9 \\u2026"


def test_text_passes_as_it_is():
    out = io.StringIO()
    LastingStream(out).write("caf\u00e9\n")
    assert out.getvalue() == "caf\u00e9\n"
