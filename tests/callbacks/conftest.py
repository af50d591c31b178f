"""A dashboard without a browser: a store over small traces, a test client, callbacks by their outputs."""

from __future__ import annotations

import json
import re

import pytest

from overlane.cache import TraceCache
from overlane.tables import table_from_columns
from overlane.ui.server import create_app
from overlane.ui.store import TraceStore
from overlane_collect.model import Capability, Header, IntegrityCheck
from overlane_collect.writer import write_trace

WAIT_S = 60  # a limit, not an expectation: compiling takes seconds on the first run


def write_small(path, *, producer="a test"):
    """Write a trace of one GPU whose numbers are easy to reckon.

    Times in ns: kernel `add` [1000, 3000) on stream 7, copy H2D [2000, 5000) on stream 13, kernel `mul`
    [6000, 7000) on stream 7. So the window is [1000, 7000): compute busy 3000, copies 3000, both 1000, idle
    1000, exposed copy 2000.
    """
    ops = {
        "device_id": [0, 0, 0],
        "context_id": [1, 1, 1],
        "stream_id": [7, 13, 7],
        "engine": ["compute", "copy_h2d", "compute"],
        "kind": ["kernel", "memcpy", "kernel"],
        "name": ["add(float*)", "Memcpy HtoD", "<b>mul</b>"],
        "start_ns": [1000, 2000, 6000],
        "end_ns": [3000, 5000, 7000],
        "correlation_id": [11, 12, 13],
        "external_id": [5, None, None],
        "bytes": [None, 6000, None],
        "grid": [[64, 1, 1], None, [1, 1, 1]],
    }
    calls = {
        "api": ["runtime", "runtime"],
        "thread_id": [1, 1],
        "name": ["cudaLaunchKernel", "cudaMemcpyAsync"],
        "start_ns": [0, 500],
        "end_ns": [400, 900],
        "correlation_id": [11, 12],
    }
    ranges = {
        "thread_id": [1],
        "track": ["operator"],
        "name": ["aten::add"],
        "start_ns": [0],
        "end_ns": [950],
        "nesting_level": [0],
        "external_id": [5],
    }
    tables = {
        "ops": table_from_columns("ops", ops),
        "api_calls": table_from_columns("api_calls", calls),
        "ranges": table_from_columns("ranges", ranges),
        "streams": table_from_columns(
            "streams",
            {
                "device_id": [0, 0],
                "context_id": [1, 1],
                "stream_id": [7, 13],
                "stream_kind": ["blocking", None],
            },
        ),
        "devices": table_from_columns("devices", {"device_id": [0], "name": ["Test GPU"], "sm_count": [132]}),
        "attributes": table_from_columns(
            "attributes",
            {"table": ["ops"], "row_id": [0], "template": ['{"occupancy": #}'], "integers": [[50]]},
        ),
    }
    header = Header(
        format="overlane",
        producer=producer,
        driver_version="580.1",
        capabilities={
            "launch_times": Capability(True, "every kernel has its launch"),
            "sync_ids": Capability(False, "the profiler recorded none"),
        },
        integrity=(
            IntegrityCheck("launches", "warning", 1, "one operation has no launch"),
            IntegrityCheck("order", "ok", 0, "every end follows its start"),
            IntegrityCheck("bytes", "ok", 0, "every copy says its bytes"),
        ),
    )
    write_trace(path, header, tables)


def write_host_only(path):
    """Write a trace of one range and nothing on a GPU."""
    ranges = {
        "thread_id": [1],
        "track": ["annotation"],
        "name": ["only the host"],
        "start_ns": [0],
        "end_ns": [100],
        "nesting_level": [0],
    }
    write_trace(path, Header(format="overlane"), {"ranges": table_from_columns("ranges", ranges)})


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return TraceCache(tmp_path_factory.mktemp("cache"))


def write_folder(folder):
    """Write named traces and a library beside a file that lies outside it."""
    library = folder / "library"
    library.mkdir()
    write_small(folder / "small.overlane")
    write_host_only(folder / "host.overlane")
    (folder / "broken.overlane").write_bytes(b"PK\x03\x04 cut")
    write_small(library / "second.overlane", producer="another test")
    (library / "link.overlane").symlink_to(folder / "small.overlane")
    return folder


def open_store(folder, cache):
    """Return a store with two good traces, a bad one and a library, once all named ones are settled."""
    paths = [folder / "small.overlane", folder / "broken.overlane", folder / "host.overlane"]
    store = TraceStore(paths, library=folder / "library", cache=cache)
    for listing in store.listings():
        if listing.is_named:
            settle(store, listing.trace_id)
    return store


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """Traces that no test changes, so that they are indexed once."""
    return write_folder(tmp_path_factory.mktemp("traces"))


@pytest.fixture
def folder(tmp_path):
    """Traces of one test's own, to be changed."""
    return write_folder(tmp_path)


@pytest.fixture
def store(shared_folder, cache):
    store = open_store(shared_folder, cache)
    yield store
    store.close()


@pytest.fixture
def own_store(folder, cache):
    """A store over the test's own folder."""
    store = open_store(folder, cache)
    yield store
    store.close()


def settle(store, trace_id):
    """Open a trace and wait until it is ready or failed."""
    store.request(trace_id)
    store._settled[trace_id].wait(WAIT_S)
    assert store.listing(trace_id).state in {"ready", "failed"}
    return store.listing(trace_id)


@pytest.fixture
def app(store):
    return create_app(store)


@pytest.fixture
def client(app):
    return app.server.test_client()


class Callbacks:
    """Calls an app's callbacks as the browser does: by posting to the update route."""

    def __init__(self, client):
        self.client = client
        self.known = client.get("/_dash-dependencies").json

    def call(self, output, *, first=None, **values):
        """Call the callback that has this output; `values` are `id__prop` with dashes as underscores.

        Args:
            first: Element of the first input, where several callbacks have the output.

        Returns:
            The answer's properties by `id.prop`, unchanged ones left out.
        """
        (found,) = [
            x
            for x in self.known
            if output in outputs_of(x["output"])
            and not x.get("clientside_function")
            and (x["inputs"][0]["id"] == first if first else f"{output}@" not in x["output"])
        ]

        def fill(parts):
            return [
                {
                    **part,
                    "value": values.get(
                        f"{part['id']}.{part['property']}".replace("-", "_").replace(".", "__")
                    ),
                }
                for part in parts
            ]

        names = outputs_of(found["output"])
        split = [dict(zip(("id", "property"), name.rsplit(".", 1), strict=True)) for name in names]
        body = {
            "output": found["output"],
            "outputs": split if found["output"].startswith("..") else split[0],
            "inputs": fill(found["inputs"]),
            "state": fill(found["state"]),
            "changedPropIds": [],
        }
        answer = self.client.post("/_dash-update-component", json=body)
        if answer.status_code == 204:
            return {}
        assert answer.status_code == 200, answer.text
        return {
            f"{element.split('@')[0]}.{name}": value
            for element, properties in (
                answer.json.get("response", {}) | answer.json.get("sideUpdate", {})
            ).items()
            for name, value in properties.items()
        }


def outputs_of(text):
    """Split the name of a callback's outputs into `id.prop`, without the marks of repeated ones."""
    parts = text.removeprefix("..").removesuffix("..").split("...")
    return [re.sub(r"@[0-9a-f]+$", "", part) for part in parts]


@pytest.fixture
def callbacks(client):
    return Callbacks(client)


def children_of(component):
    """Return what is in a component as JSON, also where it goes to the browser as data."""
    props = component.get("props", {})
    return json.loads(props["data-plain"]) if "data-plain" in props else props.get("children")


def text_of(component):
    """Return all text of a component as JSON, in order, joined by spaces."""
    if component is None:
        return ""
    if isinstance(component, str | int | float):
        return str(component)
    if isinstance(component, list):
        return " ".join(filter(None, map(text_of, component)))
    return text_of(children_of(component))


def links_of(component):
    """Return (text, address) of all links in a component as JSON."""
    text = json.dumps(component)
    found = []

    def walk(item):
        if isinstance(item, list):
            for each in item:
                walk(each)
        elif isinstance(item, dict):
            props = item.get("props", {})
            if "href" in props:
                found.append((text_of(children_of(item)), props["href"]))
            walk(children_of(item))

    walk(json.loads(text))
    return found


def words(component):
    """Return the text of a component with single plain spaces."""
    return " ".join(text_of(component).split())
