"""A CuPy program with two streams and an event between them; knows nothing of Overlane."""

import sys

import cupy as cp

first, second = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
ready = cp.cuda.Event()
with first:
    a = cp.random.rand(1024, 1024, dtype=cp.float32)
    b = a @ a
    ready.record(first)
second.wait_event(ready)
with second:
    c = cp.tanh(b).sum()
second.synchronize()
sys.stdout.write(f"{float(c)}\n")
