"""The right reader is found by content; what nobody reads is named."""

import os
import subprocess
import sys

import pytest

from overlane.errors import OverlaneError, TraceUnreadableError
from overlane.readers import open_trace
from overlane.readers.base import Head
from overlane.readers.registry import READERS, Registry


class Fake:
    name = "fake"
    description = "A reader for tests."

    def sniff(self, head: Head) -> bool:
        return head.head.startswith(b"FAKE")

    def read(self, path, progress=None):
        raise NotImplementedError


def test_readers_are_asked_by_content_not_by_name(tmp_path):
    path = tmp_path / "anything.txt"
    path.write_bytes(b"FAKE!")
    fake = Fake()
    assert Registry([*READERS, fake]).find(path) is fake
    path.write_bytes(b'  [{"ph": "X"}]')
    assert Registry().find(path).name == "kineto"


def test_readers_have_names_and_unknown_names_list_them():
    assert [reader.name for reader in Registry()] == ["overlane", "kineto"]
    assert all(reader.description.endswith(".") for reader in READERS)
    assert Registry().get("kineto") is READERS[1]
    with pytest.raises(OverlaneError, match="known: overlane, kineto"):
        Registry().get("nothing")


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.sqlite", b"SQLite format 3\x00" + bytes(100), "SQLite"),
        ("a.nsys-rep", b"\x00\x01\x02", "Nsight Systems"),
        ("a.ncu-rep", b"\x00\x01\x02", "Nsight Compute"),
        ("a.xplane.pb", b"\x0a\x05\x00", "XPlane"),
        ("a.pftrace", b"\x0a\x05\x00", "Perfetto"),
        ("a.zip", b"PK\x03\x04" + bytes(30), "ZIP"),
        ("a.csv", b'"Kind","Agent"\n"x","y"\n', "CSV"),
        ("a.bin", bytes(range(200)), "no known format"),
    ],
)
def test_what_nobody_reads_is_named(tmp_path, name, content, word):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TraceUnreadableError, match=word):
        Registry().find(path)


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(TraceUnreadableError, match="there is no file"):
        Registry().find(tmp_path / "missing.json")
    with pytest.raises(TraceUnreadableError, match="name of the trace is empty"):
        open_trace("")
    with pytest.raises(TraceUnreadableError, match="is a folder"):
        Registry().find(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(TraceUnreadableError, match="no plain file"):
        Registry().find(pipe)


def test_a_file_without_permission_is_refused(tmp_path):
    path = tmp_path / "secret.json"
    path.write_text("[]")
    path.chmod(0)
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from overlane.errors import TraceUnreadableError\n"
        "from overlane.readers.base import Head\n"
        "folder = os.open(sys.argv[1], os.O_RDONLY)\n"  # the folders above may be closed to the other user
        "if os.getuid() == 0:\n"
        "    os.fchdir(folder)\n"
        "    os.setgid(65534); os.setuid(65534)\n"
        "else:\n"
        "    os.fchdir(folder)\n"
        "try:\n"
        "    Head.of(Path('secret.json'))\n"
        "except TraceUnreadableError as error:\n"
        "    print(error)\n"
    )
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "may not be read" in done.stdout, done.stderr


def test_importing_the_registry_loads_no_compiler():
    code = (
        "import overlane.readers.registry, sys\n"
        "print([m for m in ('numba', 'pandas', 'dash') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_reading_a_trace_loads_no_pandas(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(
        '[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"device":0,"a":[1]}}]'
    )
    code = "import overlane, sys; overlane.open_trace(sys.argv[1]); print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
