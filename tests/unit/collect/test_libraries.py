"""Which libcupti is loaded, and which calls are recorded."""

from pathlib import Path

import pytest

from overlane_collect import _cupti
from overlane_collect.errors import NoGpuError

VERSIONS = ("12.8.90", "13.0.85", "13.4.92", "13.10.1")


@pytest.mark.parametrize(
    ("driver", "version"),
    [
        (0, "13.10.1"),  # any will do: the newest, by number and not by text
        (13000, "13.0.85"),
        (13030, "13.0.85"),
        (13040, "13.4.92"),
        (13100, "13.10.1"),
        (12080, "12.8.90"),
        (12040, "13.10.1"),  # none fits: the newest
    ],
)
def test_the_newest_library_that_fits_the_driver_is_chosen(tmp_path, driver, version):
    paths = {name: tmp_path / name for name in VERSIONS}
    for path in paths.values():
        path.write_text("")
    assert _cupti.choose_library(paths.items(), driver) == paths[version]


def test_a_library_that_is_not_there_is_not_chosen(tmp_path):
    assert _cupti.choose_library([("13.4", tmp_path / "gone")], 13000) is None
    assert _cupti.choose_library([], 0) is None


def test_a_named_library_that_is_missing_is_an_error_of_its_own(monkeypatch):
    monkeypatch.setenv("OVERLANE_LIBCUPTI", "/nowhere/libcupti.so")
    with pytest.raises(NoGpuError, match="OVERLANE_LIBCUPTI names /nowhere/libcupti"):
        _cupti.find_library()
    monkeypatch.setenv("OVERLANE_LIBCUPTI", __file__)
    assert _cupti.find_library() == Path(__file__)


NEEDED = (
    "cudaLaunchKernel_v7000",
    "cudaLaunchKernelExC_ptsz_v11060",
    "cuLaunchKernelEx",
    "cudaMemcpyAsync_v3020",
    "cuMemsetD32Async",
    "cudaDeviceSynchronize_v3020",
    "cuCtxSynchronize_v2",
    "cudaEventRecordWithFlags_v11010",
    "cudaEventQuery_v3020",
    "cudaStreamQuery_v3020",
    "cuStreamWaitEvent_ptsz",
    "cuStreamWaitValue32_v2",
    "cudaGraphLaunch_v10000",
    "cuGraphInstantiate",
    "cudaMalloc_v3020",
    "cuMemFreeAsync",
    "cudaFreeHost_v3020",
    "cuModuleLoadData",
    "cuLibraryLoadData",
    "cuGreenCtxCreate",
    "cuCtxCreate_v4",
    "cudaHostRegister_v4000",
    "cuLaunchHostFunc",
    "cuDevicePrimaryCtxRetain",
)
IDLE = (
    "cudaGetDevice_v3020",
    "cudaStreamIsCapturing_v10000",
    "cudaGetLastError_v3020",
    "cuDevicePrimaryCtxGetState",
    "cuFuncGetAttribute",
    "cudaGraphAddMemcpyNode_v10000",
    "cuCtxGetCurrent",
    "cuPointerGetAttribute",
    "cuInit",
    "cudaFuncSetAttribute_v9000",
    "cuGreenCtxGetId",
    "cuCtxGetLimit",
)


def test_calls_that_start_order_or_hold_work_are_needed_and_others_are_not():
    assert _cupti.needed_calls([*NEEDED, *IDLE]) == list(NEEDED)
