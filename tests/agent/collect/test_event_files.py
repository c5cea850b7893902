from __future__ import annotations

import math
import random
import struct

import pytest

from headway_agent.collect.event_files import RECORD_BYTES_MAX, EventFile
from tests.agent.collect.records import event, field, record, scalar, tensor_scalar, varint

VERSION = record(b"\x09" + struct.pack("<d", 1.0) + b"\x1a\x0dbrain.Event:2")


def read(data: bytes) -> list[tuple[str, float, int | None]]:
    return [(name, value, step) for name, value, step, _, _ in EventFile().feed(data)]


def test_plain_scalars_are_read_with_their_step_and_time():
    file = EventFile()
    data = VERSION + scalar("loss", 0.5, 0, 10.0) + scalar("loss", 0.25, 1, 11.0)
    assert file.feed(data) == [
        ("loss", 0.5, 0, 10.0, len(data) - len(scalar("loss", 1, 1))),
        ("loss", 0.25, 1, 11.0, len(data)),
    ]
    assert file.offset == len(data)


@pytest.mark.parametrize("step", [1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 10**12, -1, -(10**12)])
def test_steps_of_any_length_are_read(step):
    data = scalar("a", 1.5, 5) + scalar("a", 2.5, step) + scalar("a", 3.5, step)
    assert read(data) == [("a", 1.5, 5), ("a", 2.5, step), ("a", 3.5, step)]


def test_what_is_no_number_is_a_value_too():
    values = [
        value for _, value, _ in read(scalar("a", math.nan, 1) + scalar("a", math.inf, 2) + scalar("a", -math.inf, 3))
    ]
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf]


TENSORS = {
    "float values": (field(5, struct.pack("<f", 1.5)), 1, 1.5),
    "one float value": (b"\x2d" + struct.pack("<f", 1.5), 1, 1.5),
    "double values": (field(6, struct.pack("<d", 1.5)), 2, 1.5),
    "float content": (field(4, struct.pack("<f", 1.5)), 1, 1.5),
    "double content": (field(4, struct.pack("<d", 1.5)), 2, 1.5),
    "whole values": (field(10, varint(-3)), 9, -3.0),
    "a whole value": (b"\x38" + varint(7), 3, 7.0),
    "half content": (field(4, struct.pack("<e", 1.5)), 19, 1.5),
    "half values": (field(13, varint(0x3E00)), 19, 1.5),
    "other half values": (field(13, varint(0x3FC0)), 14, 1.5),
    "other half content": (field(4, b"\xc0\x3f"), 14, 1.5),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_a_tensor_of_one_number_is_a_scalar(kind):
    tensor, dtype, value = TENSORS[kind]
    assert read(tensor_scalar("a", b"\x08" + varint(dtype) + b"\x12\x00" + tensor, 3)) == [("a", value, 3)]


def test_what_kind_a_tag_has_is_told_once():
    tensor = b"\x08\x01\x12\x00" + field(5, struct.pack("<f", 1.5))
    data = tensor_scalar("a", tensor, 1) + tensor_scalar("a", tensor, 2, plugin="")
    assert read(data) == [("a", 1.5, 1), ("a", 1.5, 2)]


def test_images_texts_histograms_and_tensors_of_many_numbers_are_no_scalars():
    many = b"\x08\x01" + field(5, struct.pack("<3f", 1, 2, 3))
    texts = b"\x08\x07" + field(8, b"words")
    histogram = event(field(1, field(1, b"h") + field(5, b"\x09" + bytes(8))), 1, 1.0)
    data = tensor_scalar("m", many, 1) + tensor_scalar("t", texts, 1, "text") + histogram + scalar("a", 1, 1)
    assert read(data) == [("a", 1.0, 1)]


def test_several_scalars_may_share_an_event():
    values = b"".join(field(1, field(1, tag) + b"\x15" + struct.pack("<f", 2)) for tag in (b"a", b"b"))
    assert read(event(values, 4, 1.0)) == [("a", 2.0, 4), ("b", 2.0, 4)]


def test_hyperparameters_are_read():
    pairs = {
        "lr": b"\x11" + struct.pack("<d", 0.1),
        "optimizer": field(3, b"adam"),
        "amp": b"\x20\x01",
    }
    session = b"".join(field(1, field(1, name.encode()) + field(2, value)) for name, value in pairs.items())
    about = field(1, field(1, b"hparams") + field(2, field(3, session)))
    file = EventFile()
    assert not file.feed(event(field(1, field(1, b"_hparams_/session_start_info") + field(9, about)), 0, 1.0))
    assert file.params == {"lr": 0.1, "optimizer": "adam", "amp": True}


def test_wherever_a_file_is_cut_it_goes_on_from_there():
    data = VERSION + b"".join(scalar(f"tag {step % 3}", step, step * 50) for step in range(40))
    whole = EventFile().feed(data)
    chance = random.Random(7)
    for _ in range(50):
        file, points, end = EventFile(), [], 0
        while end < len(data):
            end = min(len(data), end + chance.randrange(1, 200))
            points += file.feed(data[file.offset : end])
        assert points == whole


def test_each_point_tells_where_to_go_on_behind_it():
    data = VERSION + b"".join(scalar("loss", step, step) for step in range(5))
    whole = EventFile().feed(data)
    for number, point in enumerate(whole):
        assert EventFile(point[4]).feed(data[point[4] :]) == whole[number + 1 :]


def test_a_damaged_event_is_passed_over():
    bad = bytearray(scalar("loss", 2, 2))
    bad[12 + 1 + 8 + 2 :] = b"\xff" * (len(bad) - 23)
    file = EventFile()
    assert [point[2] for point in file.feed(scalar("loss", 1, 1) + bytes(bad) + scalar("loss", 3, 3))] == [1, 3]
    assert file.damaged_bytes == len(bad)


def test_behind_a_damaged_head_the_next_whole_record_is_found():
    bad = bytearray(scalar("loss", 2, 2))
    bad[8] ^= 0xFF
    file = EventFile()
    assert [point[2] for point in file.feed(scalar("loss", 1, 1) + bytes(bad) + scalar("loss", 3, 3))] == [1, 3]
    assert file.damaged_bytes == len(bad)


def test_a_tail_of_zeros_waits():
    file = EventFile()
    whole = scalar("loss", 1, 1)
    assert len(file.feed(whole + bytes(100))) == 1
    assert file.offset == len(whole)


def test_a_large_record_is_passed_over_unread():
    large = event(field(1, field(1, b"image") + field(4, bytes(RECORD_BYTES_MAX + 1))), 1, 1.0)
    data = large + scalar("loss", 1, 1)
    file = EventFile()
    assert not file.feed(data[:1000])
    assert file.offset == len(large)
    assert [point[0] for point in file.feed(data[file.offset :])] == ["loss"]


def test_whatever_the_bytes_are_nothing_but_points_comes_out():
    chance = random.Random(3)
    data = VERSION + b"".join(scalar("loss", step, step) for step in range(30))
    for _ in range(300):
        hurt = bytearray(data)
        for _ in range(chance.randrange(1, 8)):
            hurt[chance.randrange(len(hurt))] = chance.randrange(256)
        file = EventFile()
        assert len(file.feed(bytes(hurt))) <= 31
        assert file.offset <= len(hurt) + (1 << 40) + 16
    for _ in range(300):
        EventFile().feed(record(chance.randbytes(chance.randrange(60))))
