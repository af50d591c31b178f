"""The only module that talks to CUPTI: through cupti-python, and for whole buffers through the same library.

cupti-python switches kinds and calls on and names them. It hands records over one Python object at a time,
which costs about a microsecond a record on a thread that competes with the recorded program for the
interpreter; so buffers are taken whole through `ctypes` from the library that cupti-python loaded.

The loaded library decides the layout of the records, not the Python package. Another package (PyTorch's
wheel, for one) may bring another one, so the one that fits best is loaded here by its path, before anything
else can, and the one in use is asked for its version.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from overlane_collect.errors import MachineError, NoGpuError

__all__ = ["Cupti", "choose_library", "driver_cuda_version", "find_library", "needed_calls"]

LIBRARY_VARIABLE = "OVERLANE_LIBCUPTI"
"""Environment variable that names another libcupti to load."""

_SUCCESS = 0
_NO_MORE_RECORDS = 12  # CUPTI_ERROR_MAX_LIMIT_REACHED
_OTHER_CLIENT = 39  # CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
_NO_RIGHTS = {35, 40}  # CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, and the same on a virtual device
_ZEROED_BUFFERS = 5  # CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER: cleared by us, not in a launch
_SYSTEM_THREAD_IDS = 1  # CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM: as threading.get_native_id gives them
_CUSTOM_EXTERNAL = 3  # CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0

_MANAGED_COUNTERS = (1, 2, 3, 4)  # bytes to the device, to the host, page faults of the CPU, of the GPU
_ONE_DEVICE = 1  # CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE

_REQUESTED = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_COMPLETED = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)
_SUBSCRIBED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)

# Calls that start, order or hold device work. Asking for every call slowed a small PyTorch training loop by
# 20 to 50 %: it makes twenty calls of no consequence (cudaGetDevice, cudaStreamIsCapturing) per kernel.
_NEEDED_CALLS = re.compile(
    r"^cu(da)?("
    r"Launch|GraphLaunch|GraphInstantiate|GraphExecDestroy|Memcpy|Memset|MemPrefetch|"
    r"(Device|Ctx|Stream|Event|Thread|ExecutionCtx)Synchronize|Event(Record|Query)|StreamQuery|StreamWait|"
    r"StreamWriteValue|StreamBatchMemOp|StreamAddCallback|(Ctx|GreenCtx|ExecutionCtx)(Record|Wait)Event|"
    r"Malloc|Free|HostAlloc|HostRegister|HostUnregister|MemAlloc|MemFree|MemHost|MemCreate|MemRelease|MemMap|"
    r"MemUnmap|ModuleLoad|ModuleUnload|LibraryLoad|LibraryUnload|(Green)?Ctx(Create|Destroy)|"
    r"ExecutionCtxDestroy|Stream(Create|Destroy)|(Ctx|Device|Thread)SetLimit|"
    r"DevicePrimaryCtx(Retain|Release|Reset)"
    r")"
)


def needed_calls(names: Iterable[str]) -> list[str]:
    """Return those of the names of API calls that start, order or hold device work."""
    return [name for name in names if _NEEDED_CALLS.match(name)]


def driver_cuda_version() -> int:
    """Return the CUDA version of the driver, as in 13000; 0 without a driver. Starts nothing."""
    version = ctypes.c_int()
    try:
        status = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return int(version.value) if status == _SUCCESS else 0


def find_library(*, newest: bool = False) -> Path | None:
    """Return the libcupti to load of those that are installed, or None when there is none.

    By default the newest that is not newer than the driver. A newer one works too, but with launch stamps it
    holds every record back until the recording ends (13.4 on a driver of CUDA 13.0: the stamp of submission
    never comes, so no record counts as complete).

    Args:
        newest: Return the newest, whatever the driver is.

    Raises:
        NoGpuError: `OVERLANE_LIBCUPTI` names a file that is not there.
    """
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise NoGpuError(f"{LIBRARY_VARIABLE} names {named}, which is not there; correct or unset it")
        return Path(named)
    return choose_library(_installed(), 0 if newest else driver_cuda_version())


def _installed() -> list[tuple[str, Path]]:
    """Return version and path of each libcupti that Python packages or CUDA toolkits brought."""
    found = []
    for distribution in importlib.metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower()
        if name == "nvidia-cuda-cupti" or re.fullmatch(r"nvidia-cuda-cupti-cu\d+", name):
            found += [
                (distribution.version, Path(str(distribution.locate_file(file))))
                for file in distribution.files or ()
                if re.fullmatch(r"libcupti\.so\.\d+", file.name)
            ]
    for toolkit in Path("/usr/local").glob("cuda-*.*"):
        for library in toolkit.glob("targets/*/lib/libcupti.so.*"):
            if re.fullmatch(r"libcupti\.so\.\d+", library.name):
                found.append((toolkit.name.removeprefix("cuda-"), library))
    return found


def choose_library(found: Iterable[tuple[str, Path]], driver_version: int) -> Path | None:
    """Return the newest library that fits the driver, else the newest, or None without any.

    Args:
        found: Versions, as in `13.4.92`, and the path of their library.
        driver_version: CUDA version of the driver, as in 13000; 0 when any will do.
    """
    there = [
        (tuple(int(part) for part in re.findall(r"\d+", v)), path) for v, path in found if path.is_file()
    ]
    most = (driver_version // 1000, driver_version % 1000 // 10)
    fitting = [entry for entry in there if not driver_version or entry[0][:2] <= most]
    return max(fitting or there)[1] if there else None


class Cupti:
    """CUPTI as loaded into this process.

    Attributes:
        version: What the loaded library says, as in 130401.
        path: The loaded library.
        package_version: Version of cupti-python.

        fits_driver: The library is not newer than the driver, so launch stamps hold no record back.

    Args:
        newest: Load the newest library that is installed, whatever the driver is.

    Raises:
        NoGpuError: cupti-python, libcupti or the driver is missing, or another tool uses CUPTI already.
    """

    def __init__(self, *, newest: bool = False) -> None:
        # A library that the program loaded stays the only one: cupti-python would use it in any case.
        path = None if _mapped_library() else find_library(newest=newest)
        if path is not None:
            try:
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            except OSError as error:
                raise NoGpuError(
                    f"libcupti does not load: {error}; "
                    "reinstall it with pip install --force-reinstall nvidia-cuda-cupti"
                ) from error
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NoGpuError(
                f"there is no NVIDIA driver here ({error}); record on a machine with an NVIDIA GPU"
            ) from error
        try:
            cupti = importlib.import_module("cupti.cupti")  # loads CUDA: only when recording
        except ImportError as error:
            raise NoGpuError(
                f"cupti-python is missing ({error}); install it with pip install 'overlane[cuda]'"
            ) from error
        self._cupti: Any = cupti
        self.package_version = importlib.metadata.version("cupti-python")
        self._call("load", cupti.get_timestamp)  # makes cupti-python resolve its library
        self.path = _mapped_library()
        if self.path is None:
            raise NoGpuError(
                "cupti-python loaded no libcupti; reinstall it with pip install 'overlane[cuda]'"
            )
        self._library = ctypes.CDLL(self.path)
        self._quick = ctypes.PyDLL(self.path)  # keeps the interpreter's lock: for calls of a microsecond
        version = ctypes.c_uint32()
        self._check(self._library.cuptiGetVersion(ctypes.byref(version)), "cuptiGetVersion")
        self.version = int(version.value)
        self.fits_driver = self.version // 100 <= driver_cuda_version() // 10
        self._stamp = ctypes.c_uint64()
        self._subscriber: Any = None
        self._kept: list[Any] = []  # callbacks that CUPTI may call until the process ends

    def subscribe(self, called: Callable[[Any, int, int, int], None] | None = None) -> None:
        """Become this process's client of CUPTI.

        Args:
            called: Gets nothing, domain, number and data's address of each callback that is enabled.

        Raises:
            NoGpuError: Another tool is, or this user has no right to.
        """
        callback = _SUBSCRIBED(called or (lambda *_: None))
        handle = ctypes.c_void_p()
        self._check(self._library.cuptiSubscribe(ctypes.byref(handle), callback, None), "cuptiSubscribe")
        self._kept += [callback, handle]
        self._subscriber = handle

    def enable_callback(self, domain: int, number: int, *, enable: bool) -> bool:
        """Switch one callback on or off; returns whether the library knows it."""
        status = self._library.cuptiEnableCallback(
            ctypes.c_uint32(enable), self._subscriber, ctypes.c_int(domain), ctypes.c_uint32(number)
        )
        return int(status) == _SUCCESS

    def graph_node_id(self, node: int) -> int:
        """Return CUPTI's number of a node of a graph; 0 where it has none."""
        number = ctypes.c_uint64()
        self._quick.cuptiGetGraphNodeId(ctypes.c_void_p(node), ctypes.byref(number))
        return int(number.value)

    def graph_id(self, graph: int) -> int:
        """Return CUPTI's number of a graph; 0 where it has none."""
        number = ctypes.c_uint32()
        self._quick.cuptiGetGraphId(ctypes.c_void_p(graph), ctypes.byref(number))
        return int(number.value)

    def register(
        self, requested: Callable[[], tuple[int, int]], completed: Callable[[int, int], None]
    ) -> None:
        """Say where buffers come from and go to.

        Args:
            requested: Returns address and bytes of a cleared buffer; called in the middle of launches.
            completed: Gets the buffer's address and its valid bytes; called on CUPTI's or a flushing thread.
        """

        def on_requested(buffer: Any, size: Any, most: Any) -> None:
            buffer[0], size[0] = requested()
            most[0] = 0  # as many records as fit

        def on_completed(_context: int, _stream: int, address: int, _size: int, valid: int) -> None:
            completed(address, valid)

        kept = (_REQUESTED(on_requested), _COMPLETED(on_completed))
        self._kept += kept
        zeroed, size = ctypes.c_uint8(1), ctypes.c_size_t(1)
        self._library.cuptiActivitySetAttribute(_ZEROED_BUFFERS, ctypes.byref(size), ctypes.byref(zeroed))
        self._check(self._library.cuptiActivityRegisterCallbacks(*kept), "cuptiActivityRegisterCallbacks")

    def configure(self, *, launch_stamps: bool) -> dict[str, str]:
        """Ask for stamps of launches, events and failed calls, and for system thread ids; before CUDA starts.

        Args:
            launch_stamps: Whether kernels are to carry when they were queued and submitted.

        Returns:
            What was refused, with the reason.
        """
        wishes = {
            "launch_stamps": lambda: self._cupti.activity_enable_latency_timestamps(int(launch_stamps)),
            "all_sync_records": lambda: self._cupti.activity_enable_all_sync_records(1),
            "event_timestamps": lambda: self._cupti.activity_enable_cuda_event_device_timestamps(1),
            "system_thread_ids": lambda: self._cupti.set_thread_id_type(_SYSTEM_THREAD_IDS),
        }
        return {name: reason for name, wish in wishes.items() if (reason := self._refusal(wish))}

    def configure_managed_memory(self) -> str:
        """Ask for the counters of managed memory; returns why not, or an empty string."""
        configurations = (ctypes.c_uint32 * (4 * len(_MANAGED_COUNTERS)))()
        for place, counter in enumerate(_MANAGED_COUNTERS):
            configurations[4 * place : 4 * place + 4] = [_ONE_DEVICE, counter, 0, 1]
        status = self._library.cuptiActivityConfigureUnifiedMemoryCounter(
            configurations, ctypes.c_uint32(len(_MANAGED_COUNTERS))
        )
        return "" if status == _SUCCESS else self._name(status)

    def enable(self, kind: int) -> str:
        """Record a kind from now on; returns why not, or an empty string."""
        return self._refusal(lambda: self._cupti.activity_enable(kind))

    def disable(self, kind: int) -> str:
        """Record a kind no longer; returns why not, or an empty string."""
        return self._refusal(lambda: self._cupti.activity_disable(kind))

    def call_names(self, api: str) -> dict[int, str]:
        """Return the calls of an API by their number.

        Args:
            api: `runtime` or `driver`.
        """
        enum = self._cupti.RuntimeApiTraceCbid if api == "runtime" else self._cupti.DriverApiTraceCbid
        return {
            int(member): name
            for name, member in enum.__members__.items()
            if name.startswith("cu") and int(member) > 0
        }

    def enable_call(self, api: str, number: int, *, enable: bool = True) -> str:
        """Record one call of an API, or no longer; returns why not, or an empty string."""
        switch = (
            self._cupti.activity_enable_runtime_api
            if api == "runtime"
            else self._cupti.activity_enable_driver_api
        )
        return self._refusal(lambda: switch(number, int(enable)))

    def flush(self, *, force: bool) -> None:
        """Hand over the buffers whose records are complete, or with `force` all; lets other threads run."""
        self._check(self._library.cuptiActivityFlushAll(ctypes.c_uint32(int(force))), "cuptiActivityFlushAll")

    def timestamp(self) -> int:
        """Return CUPTI's clock in ns."""
        self._quick.cuptiGetTimestamp(ctypes.byref(self._stamp))
        return int(self._stamp.value)

    def dropped(self) -> int:
        """Return how many records were dropped since the last call."""
        count = ctypes.c_size_t()
        self._quick.cuptiActivityGetNumDroppedRecords(None, ctypes.c_uint32(0), ctypes.byref(count))
        return int(count.value)

    def record_bytes(self, address: int, valid: int, offset: int) -> int:
        """Return the length of the record at an offset of a buffer, as the library walks it.

        Args:
            address: The buffer.
            valid: Its valid bytes.
            offset: Where the record starts.
        """
        record = ctypes.c_void_p(address + offset)
        status = self._quick.cuptiActivityGetNextRecord(
            ctypes.c_void_p(address), ctypes.c_size_t(valid), ctypes.byref(record)
        )
        if status == _NO_MORE_RECORDS:
            return valid - offset
        self._check(status, "cuptiActivityGetNextRecord")
        return int(record.value or 0) - address - offset

    def per_thread_stream(self) -> tuple[int, int] | None:
        """Return (context, stream) ids of this thread's per-thread default stream, if any."""
        context = ctypes.c_void_p()
        driver = ctypes.CDLL("libcuda.so.1")
        if driver.cuCtxGetCurrent(ctypes.byref(context)) != _SUCCESS or not context.value:
            return None
        try:
            stream = self._cupti.get_stream_id_ex(context.value, 0, 1)
            return int(self._cupti.get_context_id(context.value)), int(stream)
        except self._cupti.cuptiError:
            return None

    def context_id(self, context: int) -> int:
        """Return CUPTI's number of a context."""
        return int(self._cupti.get_context_id(context))

    def stream_id(self, context: int, stream: int) -> int:
        """Return CUPTI's number of a stream of a context."""
        return int(self._cupti.get_stream_id_ex(context, stream, 0))

    def push_external(self, number: int) -> None:
        """Mark what this thread starts from now on with a number of our own."""
        status = self._quick.cuptiActivityPushExternalCorrelationId(_CUSTOM_EXTERNAL, ctypes.c_uint64(number))
        self._check(status, "cuptiActivityPushExternalCorrelationId")

    def pop_external(self) -> None:
        """End the mark that `push_external` set."""
        self._quick.cuptiActivityPopExternalCorrelationId(_CUSTOM_EXTERNAL, None)

    def _refusal(self, wish: Callable[[], Any]) -> str:
        try:
            wish()
        except (self._cupti.cuptiError, RuntimeError) as error:
            return str(error)
        return ""

    def _call(self, what: str, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except (self._cupti.cuptiError, RuntimeError) as error:
            raise NoGpuError(
                f"CUPTI does not {what}: {error}; check the NVIDIA driver and cupti-python"
            ) from error

    def _name(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._quick.cuptiGetResultString(status, ctypes.byref(text))
        return (text.value or b"").decode() or f"error {status}"

    def _check(self, status: int, call: str) -> None:
        if status == _SUCCESS:
            return
        name = self._name(status)
        if status == _OTHER_CLIENT:
            raise NoGpuError(
                f"another tool in this process uses CUPTI already ({call}: {name}); "
                "end PyTorch's profiler, Nsight or whatever else profiles it, and record again"
            )
        if status in _NO_RIGHTS:
            raise NoGpuError(
                f"this user may not profile the GPU ({call}: {name}); run as root, or let the administrator "
                "load the driver with NVreg_RestrictProfilingToAdminUsers=0"
            )
        raise MachineError(f"{call} failed: {name}; check that the driver and libcupti fit together")


def _mapped_library() -> str | None:
    """Return the path of the libcupti that this process has loaded, if it has."""
    with Path("/proc/self/maps").open(encoding="utf-8") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if re.search(r"/libcupti\.so[.\d]*$", path):
                return path
    return None
