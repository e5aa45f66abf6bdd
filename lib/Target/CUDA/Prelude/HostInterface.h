//===- HostInterface.h - between a kernel and its runner --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a kernel that runs on the host asks of the runner of its block. A
// compiled kernel links nothing of ours: it gets this table when it is loaded.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_HOSTINTERFACE_H
#define MPC_TARGET_CUDA_PRELUDE_HOSTINTERFACE_H

namespace mpc::host {

/// The thread that runs.
struct ThreadPlace {
  int thread[3];
  int number;
};

enum class Access { Read, Write, Atomic };

/// Computes a warp operation once all lanes of `mask` have come: lanes[i] is
/// the operand record of lane i, which also takes the lane's result.
using WarpFunction = void (*)(void **lanes, unsigned mask);

/// Computes a thread's part of a product of matrices: adds to `sums`, or begins
/// them where they are not `kept`.
using ProductFunction = void (*)(float *sums, const void *a, const void *b,
                                 bool kept, int line);

struct Interface {
  const ThreadPlace *place;
  int block[3], blockSize[3], gridSize[3];

  /// Waits for the block; gives the number of threads with a true condition.
  int (*barrier)(Interface *, int line, bool condition);
  /// Waits for the lanes of `mask`; the last one computes.
  void (*warpOperation)(Interface *, const char *name, int line, unsigned mask,
                        WarpFunction compute, void *operands);
  /// Orders the accesses of a warp's lanes; called by each after it has waited.
  void (*orderWarp)(Interface *);
  /// The block's array that `key` stands for.
  void *(*sharedArray)(Interface *, const void *key, const char *name,
                       unsigned long bytes, unsigned elementBytes, int line);
  void *(*dynamicShared)(Interface *, unsigned elementBytes, int line);
  /// Reports an access that no thread may make, or that races.
  void (*access)(Interface *, const void *at, unsigned long bytes, Access kind,
                 const void *caller);
  void (*fence)(Interface *);
  /// Waits for `blocks` blocks that come with one `key`, and orders their
  /// accesses.
  void (*gridBarrier)(Interface *, const void *key, int blocks, int line);
  void (*copyAsync)(Interface *, void *shared, const void *global, int bytes,
                    int valid, int line);
  void (*commitCopies)(Interface *);
  void (*waitCopies)(Interface *, int pending);
  /// Products run as late as their groups' waits allow: who changes an operand
  /// or looks at sums too early meets that here.
  void (*product)(Interface *, ProductFunction compute, float *sums,
                  const void *a, const void *b, bool kept, int line);
  void (*commitProducts)(Interface *);
  void (*waitProducts)(Interface *, int pending);
  /// Ends the launch with this sentence, to which the place is added.
  void (*fail)(Interface *, const char *sentence, int line);
};

} // namespace mpc::host

#endif // MPC_TARGET_CUDA_PRELUDE_HOSTINTERFACE_H
