"""The only module that talks to cuda-python: the driver calls that workloads make, each checked at the call.

Device work that is started here carries a number of its own (an external correlation id) and the memory that
it is declared to read and write, so that a trace joins the two without guessing.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from overlane_collect._cuda_parts import (
    BLOCK_WORDS,
    LEGACY,
    PER_THREAD,
    Buffer,
    Event,
    Kernel,
    Log,
    Observer,
    Span,
    Stream,
    packed,
)
from overlane_collect.errors import MachineError, NoGpuError

__all__ = [
    "BLOCK_WORDS",
    "LEGACY",
    "PER_THREAD",
    "Buffer",
    "DriverError",
    "Event",
    "Gpu",
    "Kernel",
    "Log",
    "Observer",
    "Span",
    "Stream",
    "packed",
]

_NO_GPU = {
    "CUDA_ERROR_NO_DEVICE",
    "CUDA_ERROR_NOT_INITIALIZED",
    "CUDA_ERROR_STUB_LIBRARY",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "CUDA_ERROR_SYSTEM_NOT_READY",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
}
_HOST_ALLOC_MAPPED = 2
_WAIT_GREATER_OR_EQUAL = 0
_STREAM_NON_BLOCKING = 1
_MEMORY_NAMES = {"pinned", "pageable"}


class DriverError(MachineError):
    """A call of the driver failed; the message has the driver's own name for it.

    Attributes:
        code: That name.
    """

    code = ""


class Gpu:
    """One device with its primary context, made current on this thread.

    Args:
        device: Ordinal of the device.
        log: Gets marks and accesses.
        numbered_from: Number before the first mark; apart for each device of one log.

    Raises:
        NoGpuError: There is no usable device, driver or cuda-python.
    """

    def __init__(self, device: int, log: Log, *, numbered_from: int = 0) -> None:
        try:
            self._driver: Any = importlib.import_module("cuda.bindings.driver")
            self._nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
        except ImportError as error:
            raise NoGpuError(
                f"cuda-python is missing ({error}); install it with pip install 'overlane[cuda]'"
            ) from error
        self.log = log
        self.observer: Observer | None = None
        self._number = numbered_from
        self._lock = threading.Lock()
        self._kept: list[Any] = []
        self.facts: dict[str, Any] = {}
        self.host_kinds: dict[int, tuple[int, str]] = {}  # address of host memory to its bytes and kind
        try:
            self.call("cuInit", 0)
        except RuntimeError as error:  # cuda-python finds no driver library
            raise NoGpuError(
                f"there is no NVIDIA driver here ({error}); run on a machine with an NVIDIA GPU"
            ) from error
        self.device = self.call("cuDeviceGet", device)
        self.context = self.call("cuDevicePrimaryCtxRetain", self.device)
        self.call("cuCtxSetCurrent", self.context)
        least, greatest = self.call("cuCtxGetStreamPriorityRange")
        self.least_priority, self.greatest_priority = int(least), int(greatest)

    @property
    def driver(self) -> Any:
        """cuda-python's driver module, for its constants."""
        return self._driver

    def call(self, name: str, *arguments: Any, what: str = "") -> Any:
        """Make a driver call, and return what it gives besides its status.

        Args:
            name: The call.
            arguments: Its arguments.
            what: The operation that it belongs to, for the error's sentence.

        Raises:
            NoGpuError: The driver says that there is no usable GPU.
            DriverError: It failed.
        """
        began = self.observer.now() if self.observer is not None else 0
        status, *values = getattr(self._driver, name)(*arguments)
        given = values[0] if len(values) == 1 else tuple(values) or None
        if self.observer is not None:
            self.observer.called(name, arguments, given, began, int(status))
        if int(status) != 0:
            code = status.name
            place = f" ({what})" if what else ""
            if code in _NO_GPU:
                raise NoGpuError(f"{name}{place} failed: {code}; check nvidia-smi and the driver")
            error = DriverError(f"{name}{place} failed: {code}; the result cannot be used")
            error.code = code
            raise error
        return given

    def attribute(self, name: str) -> int:
        """Return an attribute of the device, as in `MULTIPROCESSOR_COUNT`."""
        full = getattr(self._driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", full, self.device))

    def compile(self, source: str, *names: str, lazy: bool = False) -> dict[str, Kernel]:
        """Compile CUDA C++ for this device, load it into the current context, and return its kernels.

        Args:
            source: Source with `extern "C"` kernels.
            names: Kernels.
            lazy: Leave the loading of each kernel to its first launch, which then waits for running kernels.

        Raises:
            DriverError: It does not compile; the message holds the compiler's log.
        """
        cubin = self.build(source)
        self.facts["kernel_sha256"] = hashlib.sha256(source.encode()).hexdigest()
        self.facts["nvrtc_version"] = "{}.{}".format(*self._nvrtc_call("nvrtcVersion"))
        if lazy:
            return self._not_loaded(cubin, names)
        module = self.call("cuModuleLoadData", cubin, what="loading the kernels")
        self._kept += [module, cubin]
        kernels = {}
        for name in names:
            function = self.call("cuModuleGetFunction", module, name.encode(), what=name)
            self.call("cuFuncLoad", function, what=name)
            kernels[name] = Kernel(function, name)
        return kernels

    def _not_loaded(self, cubin: bytes, names: Sequence[str]) -> dict[str, Kernel]:
        """Return kernels that nothing has loaded: asking a module for its function would load it already."""
        library = self.call("cuLibraryLoadData", cubin, [], [], 0, [], [], 0, what="loading the kernels")
        self._kept += [library, cubin]
        handles = {name: self.call("cuLibraryGetKernel", library, name.encode(), what=name) for name in names}
        return {name: Kernel(self._driver.CUfunction(int(kernel)), name) for name, kernel in handles.items()}

    def stream(
        self, name: str, *, blocking: bool = False, priority: int = 0, partition: Any = None
    ) -> Stream:
        """Make a stream.

        Args:
            name: What the trace calls it.
            blocking: Whether it waits for the legacy default stream.
            priority: Lower is more urgent.
            partition: Green context that it belongs to.
        """
        flags = 0 if blocking else _STREAM_NON_BLOCKING
        if partition is not None:
            handle = self.call("cuGreenCtxStreamCreate", partition, flags, priority, what=name)
        else:
            handle = self.call("cuStreamCreateWithPriority", flags, priority, what=name)
        self._kept.append(handle)
        self.log.name_stream(self.context_of(partition), int(handle), name)
        return Stream(int(handle), name)

    def enter(self, context: Any) -> None:
        """Make another context current; streams, memory and kernels made from now on are its."""
        self.context = context
        self.call("cuCtxSetCurrent", context)
        if self.observer is not None:
            self.observer.entered(self)

    def activate(self) -> None:
        """Make this device's context current, where a program uses several."""
        self.enter(self.context)

    def context_of(self, partition: Any) -> int:
        """Return the context of a green context, or the device's primary one for None."""
        return int(self.context if partition is None else self.call("cuCtxFromGreenCtx", partition))

    def event(self, *, timing: bool = True) -> Event:
        """Make an event."""
        return Event(self.call("cuEventCreate", 0 if timing else 2))

    def allocate(self, length: int) -> Buffer:
        """Allocate device memory."""
        return Buffer(int(self.call("cuMemAlloc", length, what=f"{length} bytes")), length, "device")

    def host_memory(self, length: int, kind: str) -> Buffer:
        """Allocate host memory with all its pages touched.

        Args:
            length: Bytes.
            kind: `pinned` or `pageable`.
        """
        assert kind in _MEMORY_NAMES  # noqa: S101 - parameters are checked before
        if kind == "pageable":
            array = np.zeros(length, np.uint8)
            array.fill(1)  # zeroed memory has no pages yet
            self.host_kinds[array.ctypes.data] = (length, kind)
            return Buffer(array.ctypes.data, length, kind, array)
        address = int(self.call("cuMemHostAlloc", length, _HOST_ALLOC_MAPPED, what=f"{length} bytes"))
        array = np.ctypeslib.as_array((ctypes.c_uint8 * length).from_address(address))
        array.fill(1)
        self.host_kinds[address] = (length, kind)
        return Buffer(address, length, kind, array)

    def free(self, buffer: Buffer) -> None:
        """Free memory of `allocate` or pinned memory; both wait for running work."""
        if buffer.kind == "device":
            self.call("cuMemFree", buffer.address, what="freeing a buffer")
        elif buffer.kind == "pinned":
            self.call("cuMemFreeHost", buffer.address, what="freeing pinned memory")

    def free_async(self, buffer: Buffer, stream: Stream) -> None:
        """Free device memory in the order of a stream."""
        self.call("cuMemFreeAsync", buffer.address, stream.handle, what=stream.name)

    def allocate_async(self, length: int, stream: Stream) -> Buffer:
        """Allocate device memory in the order of a stream."""
        return Buffer(int(self.call("cuMemAllocAsync", length, stream.handle)), length, "device")

    def copy_up(self, target: Span, source: Span, stream: Stream) -> None:
        """Copy from the host to the device."""
        arguments = (target.address, source.address, source.bytes, stream.handle)
        self.start("cuMemcpyHtoDAsync", arguments, "copy to the device", [source], [target])

    def copy_down(self, target: Span, source: Span, stream: Stream) -> None:
        """Copy from the device to the host."""
        arguments = (target.address, source.address, source.bytes, stream.handle)
        self.start("cuMemcpyDtoHAsync", arguments, "copy to the host", [source], [target])

    def fill(self, target: Span, value: int, stream: Stream) -> None:
        """Set bytes of the device."""
        arguments = (target.address, value, target.bytes, stream.handle)
        self.start("cuMemsetD8Async", arguments, "memset", (), [target])

    def launch(
        self,
        kernel: Kernel,
        grid: int,
        block: int,
        stream: Stream,
        arguments: Sequence[tuple[Any, Any]],
        *,
        reads: Sequence[Span] = (),
        writes: Sequence[Span] = (),
        cooperative: bool = False,
    ) -> int:
        """Launch a kernel, and return the number that marks it.

        Args:
            kernel: Kernel.
            grid: Blocks.
            block: Threads of a block.
            stream: Stream.
            arguments: Value and ctypes type of each parameter.
            reads: Memory that it reads.
            writes: Memory that it writes.
            cooperative: Launch it so that all its blocks run at once.
        """
        call = "cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel"
        last = () if cooperative else (0,)
        sizes = (grid, 1, 1, block, 1, 1, 0)
        given = (kernel.handle, *sizes, stream.handle, packed(arguments), *last)
        return self.start(call, given, kernel.name, reads, writes)

    def read_blocks(self, number: int, buffer: Buffer, count: int) -> npt.NDArray[np.uint64]:
        """Fetch what a stamped kernel logged, once all work has ended, and return it, shape (count, 3).

        Args:
            number: The launch's number.
            buffer: Device memory that it logged into.
            count: Its blocks.
        """
        words = np.zeros((count, BLOCK_WORDS), np.uint64)
        self.call("cuMemcpyDtoH", words.ctypes.data, buffer.address, words.nbytes, what="block log")
        self.log.blocks(number, words)
        return words

    def record(self, event: Event, stream: Stream) -> None:
        """Record an event into a stream."""
        self.call("cuEventRecord", event.handle, stream.handle, what=stream.name)

    def wait(self, stream: Stream, event: Event) -> None:
        """Let a stream wait for the event's latest record."""
        self.call("cuStreamWaitEvent", stream.handle, event.handle, 0, what=stream.name)

    def wait_value(self, stream: Stream, flag: Buffer, value: int) -> None:
        """Hold a stream until the flag, pinned host memory, is at least a value."""
        self.call(
            "cuStreamWaitValue32",
            stream.handle,
            flag.address,
            value,
            _WAIT_GREATER_OR_EQUAL,
            what=stream.name,
        )

    def synchronize(self, stream: Stream | None = None, event: Event | None = None) -> None:
        """Wait for a stream, an event, or everything."""
        if stream is not None:
            self.call("cuStreamSynchronize", stream.handle, what=stream.name)
        elif event is not None:
            self.call("cuEventSynchronize", event.handle)
        else:
            self.call("cuCtxSynchronize", what="all work")

    def elapsed_us(self, begin: Event, end: Event) -> float:
        """Return the microseconds between two events of one stream."""
        return float(self.call("cuEventElapsedTime", begin.handle, end.handle)) * 1e3

    def start(
        self, name: str, arguments: Sequence[Any], what: str, reads: Sequence[Span], writes: Sequence[Span]
    ) -> int:
        """Make a call that starts device work, marked with a number, and declare its accesses.

        Args:
            name: The call.
            arguments: Its arguments.
            what: The operation, for the error's sentence.
            reads: Memory that the work reads.
            writes: Memory that it writes.

        Returns:
            The number that marks it.
        """
        with self._lock:
            self._number += 1
            number = self._number
        self.log.mark(number)
        if self.observer is not None:
            self.observer.before(name, arguments, what)
        try:
            self.call(name, *arguments, what=what)
        finally:
            if self.observer is not None:
                self.observer.after()
            self.log.mark(None)
        for mode, spans in (("read", reads), ("write", writes)):
            for span in spans:
                self.log.access(number, mode, span)
        return number

    def _nvrtc_call(self, name: str, *arguments: Any) -> Any:
        status, *values = getattr(self._nvrtc, name)(*arguments)
        if int(status) != 0:
            raise DriverError(f"{name} failed: {status.name}; the kernels cannot be compiled")
        return values[0] if len(values) == 1 else tuple(values)

    def build(self, source: str) -> bytes:
        """Compile CUDA C++ for this device, and return the binary.

        Raises:
            DriverError: It does not compile; the message holds the compiler's log.
        """
        numbers = (self.attribute(f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
        architecture = "sm_{}{}".format(*numbers)
        program = self._nvrtc_call("nvrtcCreateProgram", source.encode(), b"workload.cu", 0, [], [])
        options = [f"--gpu-architecture={architecture}".encode()]
        status = self._nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
        if int(status) != 0:
            log = b" " * self._nvrtc_call("nvrtcGetProgramLogSize", program)
            self._nvrtc.nvrtcGetProgramLog(program, log)
            raise DriverError(f"the kernels do not compile: {log.decode().strip()}")
        cubin: bytes = b" " * self._nvrtc_call("nvrtcGetCUBINSize", program)
        self._nvrtc_call("nvrtcGetCUBIN", program, cubin)
        return cubin
