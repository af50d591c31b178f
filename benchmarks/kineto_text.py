"""Texts of synthetic Kineto events: names as real traces have them, layouts as the profiler prints them."""

# ruff: noqa: E501 - the templates keep the lines of the files that they imitate

from __future__ import annotations

COPIES = (
    "Memcpy HtoD (Pinned -> Device)",
    "Memcpy DtoH (Device -> Pinned)",
    "Memcpy DtoD (Device -> Device)",
)
COLLECTIVES = tuple(
    f"ncclDevKernel_{name}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    for name in ("AllReduce_Sum_bf16", "ReduceScatter_Sum_bf16", "AllGather")
)
_OPERATOR_WORDS = """
    linear addmm mm bmm matmul add add_ mul mul_ div sub copy_ to _to_copy view reshape transpose t expand
    as_strided empty empty_strided empty_like zeros zero_ fill_ native_layer_norm layer_norm softmax _softmax gelu
    silu embedding index_select cat slice select narrow unsqueeze squeeze detach sum mean pow rsqrt contiguous clone
    native_dropout scaled_dot_product_attention _flash_attention_forward _foreach_add_ _foreach_mul_ _fused_adamw_
"""
OPERATORS = (
    *(f"aten::{word}" for word in _OPERATOR_WORDS.split()),
    *(f"autograd::engine::evaluate_function: {word}Backward0" for word in ("Addmm", "Mm", "T", "Gelu")),
)
VIEWS = ("aten::view", "aten::as_strided", "aten::empty_strided", "aten::t", "aten::transpose")
SHAPES = (
    "[[64, 1024], [1024, 1024], [], []]",
    "[[8, 512, 1024]]",
    "[[], [], [], [], [], []]",
    "[[8, 16, 512, 64], [8, 16, 512, 64], []]",
    "[[1024], [8, 512, 1024], [8, 512, 1]]",
    "[[32768, 4096], []]",
)
TYPES = (
    '["float", "float", "Scalar", "Scalar"]',
    '["c10::BFloat16"]',
    '["ScalarList", "Scalar", "", "", "Scalar", ""]',
    '["c10::BFloat16", "c10::BFloat16", "Scalar"]',
)
CONCRETE = (
    '["", "", "1", "1"]',
    '[""]',
    '["[8, 512, 1024]", "15", "", "", "False", ""]',
    r'["", "", "a\"q\" C:\\x {lambda()#1}"]',
)
GRIDS = ("[128, 1, 1]", "[4096, 1, 1]", "[16, 8, 4]", "[264, 1, 1]")
BLOCKS = ("[128, 1, 1]", "[256, 1, 1]", "[512, 1, 1]", "[1024, 1, 1]")


def kernel_names() -> tuple[str, ...]:
    """Return about 150 kernel names of the lengths that real traces have (up to 250 characters)."""
    functors = (
        "CUDAFunctor_add<float>",
        "BinaryFunctor<float, float, float, MulFunctor<float> >",
        "FillFunctor<float>",
        "gelu_kernel_impl",
    )
    names = [
        f"void at::native::vectorized_elementwise_kernel<{width}, at::native::{functor}, std::array<char*, {width}ul> >"
        f"(int, at::native::{functor}, std::array<char*, {width}ul>)"
        for functor in functors
        for width in (2, 4, 8)
    ]
    for tile in ("64x64", "128x64", "128x128", "128x256", "256x128"):
        for layout in ("tn", "nn", "nt"):
            for stages in (3, 4, 5):
                gemm = f"cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{tile}_64x{stages}_{layout}_align8"
                names.append(f"void cutlass::Kernel2<{gemm}>({gemm}::Params)")
                names.append(
                    f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_{layout}_n_tilesize{tile}x64_warpgroupsize{stages - 2}x1x1_execute_kernel__5x_cublas"
                )
    names += [f"triton_poi_fused__to_copy_add_mul_silu_{i}" for i in range(20)]
    names += [f"triton_red_fused_native_layer_norm_{i}" for i in range(20)]
    return tuple(names)


HEADER = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "Synthetic H100", "totalGlobalMem": 84929347584,
      "computeMajor": 9, "computeMinor": 0, "maxThreadsPerBlock": 1024, "warpSize": 32, "numSms": 132
    }
  ],
  "cupti_version": 24,
  "cuda_runtime_version": 12060,
  "record_shapes": 1,
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8, "nccl_version": "2.21.5"},
  "cuda_driver_version": 12060,
  "displayTimeUnit": "ms",
  "baseTimeNanosecond": 1712000000000000000,
  "traceEvents": [
"""
OPERATOR_EVENT = """  {
    "ph": "X", "cat": "cpu_op", "name": "%s", "pid": %d, "tid": %d,
    "ts": %s, "dur": %s,
    "args": {
      "External id": %d,"Record function id": 0, "Sequence number": %d, "Fwd thread id": %d, "Concrete Inputs": %s, "Input type": %s, "Input Strides": %s, "Input Dims": %s, "Ev Idx": %d
    }
  }"""
DEVICE_EVENT = """  {
    "ph": "X", "cat": "%s", "name": "%s", "pid": 0, "tid": %d,
    "ts": %s, "dur": %s,
    "args": {
      %s
    }
  }"""
KERNEL_ARGS = (
    '"External id": %d, "queued": 0, "device": 0, "context": 1, "stream": %d, "correlation": %d, "registers per thread": %d, '
    '"shared memory": %d, "blocks per SM": %.6f, "warps per SM": %.6f, "grid": %s, "block": %s, "est. achieved occupancy %%": %d'
)
COLLECTIVE_ARGS = (
    ', "Collective name": "allreduce", "In msg nelems": %d, "Out msg nelems": %d, "Group size": 8, "dtype": "BFloat16", '
    '"Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"'
)
MEMORY_ARGS = '"External id": %d, "device": 0, "context": 1, "stream": %d, "correlation": %d, "bytes": %d, "memory bandwidth (GB/s)": %.12g'
SYNC_ARGS = '"cuda_sync_kind": "%s", "stream": %d, "correlation": %d, "device": 0, "context": 1'
CALL_EVENT = """  {
    "ph": "X", "cat": "cuda_runtime", "name": "%s", "pid": %d, "tid": %d,
    "ts": %s, "dur": %s,
    "args": {
      "External id": %d, "cbid": %d, "correlation": %d
    }
  }"""
FLOW_END = """  {
    "ph": "f", "id": %d, "pid": 0, "tid": %d, "ts": %s,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }"""
FLOW_START = """  {
    "ph": "s", "id": %d, "pid": %d, "tid": %d, "ts": %s,
    "cat": "ac2g", "name": "ac2g"
  }"""
ANNOTATION_EVENT = """  {
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d", "pid": %d, "tid": %d,
    "ts": %s, "dur": %s,
    "args": {
      "External id": %d,"Record function id": 0, "Ev Idx": %d
    }
  }"""
METADATA_EVENT = """  {
    "name": "%s", "ph": "M", "ts": %s, "pid": %s, "tid": %s,
    "args": {
      "%s": %s
    }
  }"""
