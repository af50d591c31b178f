"""CUDA sources that several workloads share.

Every kernel writes something that its workload checks. `stamped_*` kernels also log, per block, the SM that
it ran on and when, in three 64-bit words: SM, start and end on `%globaltimer`.
"""

from __future__ import annotations

__all__ = ["SOURCE"]

SOURCE = r"""
typedef unsigned long long u64;

__device__ u64 now() { u64 t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
__device__ u64 this_sm() { unsigned s; asm volatile("mov.u32 %0, %smid;" : "=r"(s)); return s; }
__device__ void log_block(u64* blocks, u64 begin) {
  __syncthreads();
  if (threadIdx.x == 0) {
    blocks[blockIdx.x * 3] = this_sm();
    blocks[blockIdx.x * 3 + 1] = begin;
    blocks[blockIdx.x * 3 + 2] = now();
  }
}

extern "C" __global__ void add(const float* a, const float* b, float* c, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

// Doubles or increments n integers; `turns` repeats of a harmless loop make it long enough to be seen.
extern "C" __global__ void twice(int* x, long n, int turns) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  float v = threadIdx.x;
  for (int k = 0; k < turns; k++) v = sqrtf(v + 1.0f);
  if (i < n) x[i] = x[i] * 2 + (v < 0 ? 1 : 0);
}

extern "C" __global__ void plus_one(int* x, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}

// Busy for ns nanoseconds of the GPU's clock, then counts its slot up.
extern "C" __global__ void stamped_spin(u64* slot, u64 ns, u64* blocks) {
  u64 begin = now();
  while (now() - begin < ns) { }
  if (blockIdx.x == 0 && threadIdx.x == 0) *slot += 1;
  log_block(blocks, begin);
}

// The critical kernel: a few integer additions by one block.
extern "C" __global__ void stamped_critical(int* x, u64* blocks) {
  u64 begin = now();
  x[threadIdx.x] += 1;
  log_block(blocks, begin);
}

// The bulk kernel: a square-root loop that no compiler can drop.
extern "C" __global__ void bulk(float* x, int turns) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  float v = (float)(i & 1023);
  for (int k = 0; k < turns; k++) v = sqrtf(v + 1.0f);
  if (v < 0) x[0] = v;
  if (i == 0) x[1] += 1.0f;
}

extern "C" __global__ void stamped_bulk(float* x, int turns, u64* blocks) {
  u64 begin = now();
  float v = threadIdx.x;
  for (int k = 0; k < turns; k++) v = sqrtf(v + 1.0f);
  if (v < 0) x[0] = v;
  log_block(blocks, begin);
}

// Adds another device's numbers to its own.
extern "C" __global__ void accumulate(int* x, const int* more, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) x[i] += more[i];
}

// Like a collective's kernel: few blocks that move a lot of memory, again and again.
extern "C" __global__ void stamped_exchange(int* to, const int* from, long n, int rounds, u64* blocks) {
  u64 begin = now();
  for (int r = 0; r < rounds; r++)
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x)
      to[i] = from[i] + r + 1;
  log_block(blocks, begin);
}

// A matrix product of n by n integers, one number of the result a thread.
extern "C" __global__ void stamped_product(const int* a, const int* b, int* c, int n, u64* blocks) {
  u64 begin = now();
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  int row = i / n, column = i % n, sum = 0;
  if (row < n) {
    for (int k = 0; k < n; k++) sum += a[row * (long)n + k] * b[k * (long)n + column];
    c[i] = sum;
  }
  log_block(blocks, begin);
}

// Every block arrives, waits for all others, then adds one: needs a cooperative launch to end.
extern "C" __global__ void all_arrive(int* x, long n, unsigned* arrived, unsigned target) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1u);
    while (atomicAdd(arrived, 0u) < target) { }
  }
  __syncthreads();
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}

// The first lets its dependent start early; the second waits for the results only where it needs them.
extern "C" __global__ void early_trigger(int* x, long n, int turns) {
  asm volatile("griddepcontrol.launch_dependents;");
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  float v = threadIdx.x;
  for (int k = 0; k < turns; k++) v = sqrtf(v + 1.0f);
  if (i < n) x[i] = x[i] * 2 + (v < 0 ? 1 : 0);
}

extern "C" __global__ void late_wait(int* x, long n, int turns) {
  float v = threadIdx.x;
  for (int k = 0; k < turns; k++) v = sqrtf(v + 1.0f);
  asm volatile("griddepcontrol.wait;" ::: "memory");
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1 + (v < 0 ? 1 : 0);
}
"""
