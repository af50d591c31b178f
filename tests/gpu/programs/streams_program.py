"""Every kind of stream, synchronization, copy and launch once, through the driver API."""

import ctypes
import json
import sys

import numpy as np
from cuda.bindings import driver as d
from cuda.bindings import nvrtc

SOURCE = rb"""
extern "C" __global__ void work(float* x, int turns) {
  float v = threadIdx.x;
  for (int i = 0; i < turns; i++) v = sqrtf(v + 1.0f);
  if (v < 0) x[0] = v;
}
"""


def check(result):
    if int(result[0]) != 0:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) == 2 else result[1:]


check(d.cuInit(0))
device = check(d.cuDeviceGet(0))
context = check(d.cuDevicePrimaryCtxRetain(device))
check(d.cuCtxSetCurrent(context))
program = check(nvrtc.nvrtcCreateProgram(SOURCE, b"k.cu", 0, [], []))
check(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"]))
cubin = b" " * check(nvrtc.nvrtcGetCUBINSize(program))
check(nvrtc.nvrtcGetCUBIN(program, cubin))
module = check(d.cuModuleLoadData(cubin))
work = check(d.cuModuleGetFunction(module, b"work"))
memory = check(d.cuMemAlloc(1 << 20))
pinned = check(d.cuMemHostAlloc(1 << 20, 2))
flag = ctypes.c_uint32.from_address(int(pinned))
pageable = np.ones(1 << 18, np.float32)


def launch(stream, turns=2000):
    arguments = ((int(memory), turns), (ctypes.c_void_p, ctypes.c_int))
    check(d.cuLaunchKernel(work, 4, 1, 1, 64, 1, 1, 0, stream, arguments, 0))


streams = {
    "legacy": d.CUstream(1),
    "per_thread": d.CUstream(2),
    "null": d.CUstream(0),
    "blocking": check(d.cuStreamCreate(0)),
    "nonblocking": check(d.cuStreamCreate(1)),
    "high": check(d.cuStreamCreateWithPriority(1, -5)),
}
resource = check(d.cuDeviceGetDevResource(device, d.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
groups, _, rest = check(d.cuDevSmResourceSplitByCount(1, resource, 0, 8))
green = check(
    d.cuGreenCtxCreate(
        check(d.cuDevResourceGenerateDesc([groups[0]], 1)),
        device,
        d.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM,
    )
)
streams["green"] = check(d.cuGreenCtxStreamCreate(green, 1, 0))
for stream in streams.values():
    launch(stream)
    check(d.cuCtxSynchronize())
event = check(d.cuEventCreate(0))
check(d.cuMemcpyHtoDAsync(memory, pinned, 1 << 20, streams["nonblocking"]))
launch(streams["nonblocking"], 20000)
check(d.cuEventRecord(event, streams["nonblocking"]))
check(d.cuStreamWaitEvent(streams["blocking"], event, 0))
launch(streams["blocking"])
d.cuEventQuery(event)
d.cuStreamQuery(streams["blocking"])
check(d.cuEventSynchronize(event))
check(d.cuEventQuery(event))
check(d.cuStreamSynchronize(streams["blocking"]))
check(d.cuMemcpyHtoD(memory, pageable.ctypes.data, 1 << 20))
check(d.cuMemcpyDtoH(pageable.ctypes.data, memory, 1 << 20))
other = check(d.cuMemAlloc(1 << 20))
check(d.cuMemcpyDtoDAsync(other, memory, 1 << 20, streams["nonblocking"]))
check(d.cuMemsetD8Async(other, 0, 1 << 20, streams["nonblocking"]))
flag.value = 0
check(d.cuStreamWaitValue32(streams["nonblocking"], pinned, 1, 0))
launch(streams["nonblocking"])
flag.value = 1
check(d.cuStreamSynchronize(streams["nonblocking"]))
pool = check(d.cuMemAllocAsync(1 << 16, streams["nonblocking"]))
check(d.cuMemFreeAsync(pool, streams["nonblocking"]))
check(d.cuStreamBeginCapture(streams["nonblocking"], d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
launch(streams["nonblocking"])
launch(streams["nonblocking"])
graph = check(d.cuStreamEndCapture(streams["nonblocking"]))
executable = check(d.cuGraphInstantiate(graph, 0))
for _ in range(2):
    check(d.cuGraphLaunch(executable, streams["nonblocking"]))
check(d.cuCtxSynchronize())
check(d.cuMemFree(other))
json.dump({name: int(stream) for name, stream in streams.items()}, sys.stdout)
