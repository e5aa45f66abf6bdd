//===- BlockRunner.h - emulation of thread blocks ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs blocks sequentially; each thread of a block is a fiber that runs to its
// next barrier or warp operation. In a cooperative launch all blocks are live:
// the runner switches to the next block when all threads of the current one
// wait for other blocks. Deadlocks and undefined behavior end the launch with a
// diagnostic.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_HOST_BLOCKRUNNER_H
#define MPC_TARGET_CUDA_HOST_BLOCKRUNNER_H

#include "Fiber.h"
#include "MemoryChecker.h"

#include "mpc/Target/CUDA/Host/HostKernel.h"

#include <deque>
#include <optional>
#include <random>

namespace mpc::host {

/// Address range of the loaded kernel, which holds constant tables.
struct AddressRange {
  const char *begin = nullptr, *end = nullptr;
};

class BlockRunner : private Interface {
public:
  struct Failure {
    /// Sentence with kernel, block and thread.
    std::string text;
    /// Line of the kernel's text; 0: to be derived from `caller`.
    int line;
    const void *caller;
  };

  BlockRunner(const HostLaunch &launch, bool checks, AddressRange image);

  MemoryChecker &memory() { return checker; }
  /// Function table for kernels of this runner.
  Interface *table() { return this; }
  /// Runs the grid; `call` runs the kernel with `arguments`.
  std::optional<Failure> run(void (*call)(void *const *),
                             void *const *arguments);

private:
  enum class State { Ready, AtBarrier, AtWarpOperation, AtGridBarrier, Ended };
  struct Copy {
    void *to;
    const void *from;
    int bytes, valid;
  };
  struct Product {
    ProductFunction compute;
    float *sums;
    const void *a, *b;
    bool kept;
    int line;
  };
  struct Thread {
    Fiber fiber;
    ThreadPlace where;
    State state = State::Ready;
    /// Source line of the wait.
    int line = 0;
    const char *operation = nullptr;
    /// Counter, and expected blocks, of a grid barrier.
    const void *key = nullptr;
    int expected = 0;
    uint32_t warpStep = 0;
    std::vector<Copy> openCopies;
    std::deque<std::vector<Copy>> copyGroups;
    std::vector<Product> openProducts;
    std::deque<std::vector<Product>> productGroups;
    BlockRunner *runner = nullptr;
  };
  /// A warp operation that waits for the lanes that have not arrived.
  struct WarpOperation {
    const char *name = nullptr;
    int line = 0;
    uint32_t arrived = 0;
    void *operands[32] = {};
  };
  struct SharedArray {
    const void *key;
    void *address;
  };

  /// A block that has started but not ended.
  struct LiveBlock {
    int number = 0;
    std::vector<Thread> threads;
    std::vector<WarpOperation> warps;
    std::vector<char> arena;
    size_t arenaUsed = 0, sharedBytes = 0;
    std::vector<SharedArray> sharedArrays;
    int arrived = 0;
    /// Number of threads in exited warps.
    int absent = 0;
    bool ended = false;
    /// Counter of the grid barrier that the block waits at; null: none.
    const void *key = nullptr;
  };

  void makeBlocks(size_t blocks);
  void startBlock(LiveBlock &started, int number);
  void leave(const Thread &thread);
  void openBarrier();
  /// Makes a block current.
  void enter(LiveBlock &entered);
  /// Runs the current block until it ends, waits for other blocks or fails.
  bool runBlock();
  bool runTogether();
  /// Resumes the blocks at the grid barrier of `waiting` if all have arrived.
  bool meet(const LiveBlock &waiting);
  std::vector<int> order(int count);
  void reportStuck();
  void reportMissingBlocks();
  void setFailure(const Thread &thread, std::string sentence, int line,
                  const void *caller = nullptr);
  [[noreturn]] void stop(std::string sentence, int line,
                         const void *caller = nullptr);
  void wait(State state, const char *operation, int line);
  void check(const void *at, size_t bytes, Access kind, const void *caller,
             int line = 0);
  char *takeShared(size_t bytes);
  void land(const std::vector<Copy> &copies);
  Accessor accessor() const;
  static void runThread(void *thread);
  static BlockRunner &self(Interface *table) {
    return *static_cast<BlockRunner *>(table);
  }
  void fillTable();

  const HostLaunch &launch;
  bool checks;
  AddressRange image;
  MemoryChecker checker;
  StackPool stacks;
  std::vector<LiveBlock> live;
  LiveBlock *current = nullptr;
  Thread *running = nullptr;
  /// Number of threads per block.
  int count = 0;
  std::mt19937 random;
  void (*kernel)(void *const *) = nullptr;
  void *const *kernelArguments = nullptr;
  std::optional<Failure> failure;
};

} // namespace mpc::host

#endif // MPC_TARGET_CUDA_HOST_BLOCKRUNNER_H
