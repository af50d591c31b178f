"""The journal: what was written is read, and damage is found exactly where it is."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlane_collect import journal as journal_module
from overlane_collect.activities import Kind, pack_records
from overlane_collect.errors import CollectError, MachineError
from overlane_collect.journal import FACT, RECORDS, JournalReader, JournalWriter

STREAMS = [{"context_id": 1, "stream_id": number} for number in range(3)]


def written(path):
    writer = JournalWriter(path)
    writer.fact("run", command="x y")
    writer.records(Kind.STREAM, pack_records(Kind.STREAM, STREAMS))
    writer.fact("end")
    writer.close()
    return path.read_bytes()


def read(path):
    reader = JournalReader(path)
    return list(reader), reader.damage


def test_frames_come_back_in_order(tmp_path):
    written(tmp_path / "a.journal")
    frames, damage = read(tmp_path / "a.journal")
    assert [frame.frame_type for frame in frames] == [FACT, RECORDS, FACT]
    assert frames[0].fact() == {"fact": "run", "command": "x y"}
    kind, record_bytes, data = frames[1].records()
    assert (kind, record_bytes) == (Kind.STREAM, 24)
    assert bytes(data) == pack_records(Kind.STREAM, STREAMS).tobytes()
    assert damage is None


@settings(deadline=None, max_examples=60)
@given(cut=st.integers(min_value=19, max_value=240))
def test_a_cut_journal_gives_its_whole_frames(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "a.journal"
    data = written(path)
    borders = [19]  # the head; then each frame's 20 bytes and payload
    while borders[-1] < len(data):
        length = int.from_bytes(data[borders[-1] + 8 : borders[-1] + 16], "little")
        borders.append(borders[-1] + 20 + length)
    assert borders[-1] == len(data)
    cut = min(cut, len(data))
    path.write_bytes(data[:cut])
    frames, damage = read(path)
    assert len(frames) == sum(border <= cut for border in borders[1:])
    assert (damage is None) == (cut in borders)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_flipped_byte_ends_the_reading_at_its_frame(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("flip") / "a.journal"
    whole = bytearray(written(path))
    place = data.draw(st.integers(19, len(whole) - 1))
    if place in range(23, 27):
        return  # the type of a frame is not covered; see the next test
    whole[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(whole)
    frames, damage = read(path)
    kinds = [frame.frame_type for frame in frames]
    assert damage is not None or kinds != [FACT, RECORDS, FACT]


def test_a_frame_of_an_unknown_type_is_passed_over_by_its_reader(tmp_path):
    whole = bytearray(written(tmp_path / "a.journal"))
    whole[23] = 9
    (tmp_path / "a.journal").write_bytes(whole)
    frames, damage = read(tmp_path / "a.journal")
    assert [frame.frame_type for frame in frames] == [9, RECORDS, FACT]
    assert damage is None


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"overlane journal 9\n"])
def test_what_is_no_journal_is_refused_in_one_sentence(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(CollectError, match="is not a journal of this version"):
        JournalReader(tmp_path / "a")


def test_a_journal_that_is_there_is_never_overwritten(tmp_path):
    written(tmp_path / "a.journal")
    with pytest.raises(CollectError, match="overlane recover"):
        JournalWriter(tmp_path / "a.journal")


def test_a_full_disk_is_one_sentence_with_the_way_out(tmp_path, monkeypatch):
    writer = JournalWriter(tmp_path / "a.journal")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal_module.os, "writev", full)
    with pytest.raises(MachineError, match="No space left on device; free some space") as error:
        writer.fact("run")
    assert error.value.exit_code == 4


def test_a_write_that_the_system_cuts_short_is_finished(tmp_path, monkeypatch):
    writer = JournalWriter(tmp_path / "a.journal")
    real = journal_module.os.write
    monkeypatch.setattr(
        journal_module.os, "writev", lambda fd, parts: real(fd, b"".join(bytes(p) for p in parts)[:7])
    )
    writer.fact("run", text="x" * 100)
    writer.close()
    frames, damage = read(tmp_path / "a.journal")
    assert damage is None
    assert frames[0].fact()["text"] == "x" * 100


def test_structured_records_survive_as_they_were(tmp_path):
    records = pack_records(Kind.CONCURRENT_KERNEL, [{"start": 5, "end": 9, "grid": (1, 2, 3)}])
    writer = JournalWriter(tmp_path / "a.journal")
    writer.records(Kind.CONCURRENT_KERNEL, records)
    writer.close()
    _, record_bytes, data = read(tmp_path / "a.journal")[0][0].records()
    again = np.frombuffer(data, records.dtype)
    assert record_bytes == 248
    assert json.dumps(again["grid"][0].tolist()) == "[1, 2, 3]"
