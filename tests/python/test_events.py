"""Event files."""

import numpy as np
import pytest

import tilesim


@pytest.fixture(scope="module")
def path(traces, tmp_path_factory):
    path = tmp_path_factory.mktemp("events") / "run.tsev"
    tilesim.run(traces / "add_f32_ragged", events=path)
    return path


def test_events(path, traces):
    events = list(tilesim.events(path))
    statistics = tilesim.run(traces / "add_f32_ragged").statistics
    assert [event.seq for event in events] == list(range(len(events)))
    assert events[0].kind == "launch"
    stores = [event for event in events if event.op == "st.global"]
    assert len(stores) == statistics.ops["st.global"] > 0
    assert all(event.target_space == "global" and event.file == "kernels.py" for event in stores)
    assert sum(event.bytes for event in stores) == 100 * 99 * 4


def test_table_is_the_same(path):
    table, events = tilesim.event_table(path), list(tilesim.events(path))
    assert len(table) == len(events)
    for name in table.dtype.names:
        np.testing.assert_array_equal(table[name], np.array([getattr(event, name) for event in events]))


def test_boxes(traces, tmp_path):
    tilesim.run(traces / "gemm_multicast", events=tmp_path / "run.tsev")
    copies = [event for event in tilesim.events(tmp_path / "run.tsev") if event.kind == "copy"]
    boxes = [event for event in copies if event.op == "tma.load.multicast"]
    assert {event.box_extent for event in boxes} == {(64, 64)}
    assert boxes[0].box_tensor_extent == (512, 256) and boxes[0].box_stride_bytes == (2, 1024)
    assert {(event.block, event.target_block) for event in boxes if event.block == 2} == {(2, 2), (2, 3)}


def test_reader_may_stop_early(path):
    iterator = tilesim.events(path)
    assert next(iterator).seq == 0
    iterator.close()


def test_damaged_files(path, tmp_path):
    short = tmp_path / "short.tsev"
    short.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(tilesim.InputError):
        list(tilesim.events(short))
    with pytest.raises(tilesim.Error):
        tilesim.event_table(tmp_path / "nothing.tsev")
