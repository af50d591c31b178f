"""A Numba-CUDA program with two streams; knows nothing of Overlane."""

import sys

import numpy as np
from numba import cuda


@cuda.jit
def count_up(x):
    place = cuda.grid(1)
    if place < x.size:
        x[place] += 1


def main():
    streams = cuda.stream(), cuda.stream()
    arrays = [cuda.to_device(np.zeros(1 << 16, np.int32), stream=stream) for stream in streams]
    for _ in range(10):
        for array, stream in zip(arrays, streams, strict=True):
            count_up[256, 256, stream](array)
    total = sum(
        int(array.copy_to_host(stream=stream).sum()) for array, stream in zip(arrays, streams, strict=True)
    )
    sys.stdout.write(f"{total}\n")


main()
