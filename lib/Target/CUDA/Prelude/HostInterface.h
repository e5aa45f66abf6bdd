//===- HostInterface.h - runner interface of emulated kernels ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions of a block's runner that a kernel on the host calls. Kernels link
// no library: they receive this table when they are loaded.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_HOSTINTERFACE_H
#define MPC_TARGET_CUDA_PRELUDE_HOSTINTERFACE_H

namespace mpc::host {

/// The running thread.
struct ThreadPlace {
  int thread[3];
  int number;
};

enum class Access { Read, Write, Atomic };

/// Computes a warp operation after all lanes have arrived: lanes[i] is the
/// operand record of lane i, which also receives its result.
using WarpFunction = void (*)(void **lanes);

/// Computes a thread's part of a warpgroup GEMM: accumulates into `sums`, or
/// overwrites them if not `kept`.
using ProductFunction = void (*)(float *sums, const void *a, const void *b,
                                 bool kept, int line);

struct Interface {
  const ThreadPlace *place;
  int block[3], blockSize[3], gridSize[3];
  /// Compute capability of the emulated GPU, such as 89: the arithmetic of its
  /// tensor cores.
  int capability;

  /// Block barrier.
  void (*barrier)(Interface *, int line);
  /// Waits for all lanes of the warp; the last to arrive computes.
  void (*warpOperation)(Interface *, const char *name, int line,
                        WarpFunction compute, void *operands);
  /// Orders the accesses of a warp's lanes; called by each after its wait.
  void (*orderWarp)(Interface *);
  /// Returns the block's shared array identified by `key`.
  void *(*sharedArray)(Interface *, const void *key, const char *name,
                       unsigned long bytes, unsigned elementBytes, int line);
  void *(*dynamicShared)(Interface *, unsigned elementBytes, int line);
  /// Reports an invalid or racing access.
  void (*access)(Interface *, const void *at, unsigned long bytes, Access kind,
                 const void *caller);
  void (*fence)(Interface *);
  /// Grid barrier of `blocks` blocks at `key`.
  void (*gridBarrier)(Interface *, const void *key, int blocks, int line);
  void (*copyAsync)(Interface *, void *shared, const void *global, int bytes,
                    int valid, int line);
  void (*commitCopies)(Interface *);
  void (*waitCopies)(Interface *, int pending);
  /// GEMMs are executed as late as their groups' waits allow, to expose early
  /// accesses to operands and accumulators.
  void (*product)(Interface *, ProductFunction compute, float *sums,
                  const void *a, const void *b, bool kept, int line);
  void (*commitProducts)(Interface *);
  void (*waitProducts)(Interface *, int pending);
  /// Ends the launch with this sentence, completed by the location.
  void (*fail)(Interface *, const char *sentence, int line);
};

} // namespace mpc::host

#endif // MPC_TARGET_CUDA_PRELUDE_HOSTINTERFACE_H
