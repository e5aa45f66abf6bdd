//===- MemoryChecker.h - race and bounds detection --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shadow memory of a launch's arrays, with the last accesses per element.
// Reports accesses that are out of bounds, read uninitialized memory, write to
// an input, overlap an asynchronous copy in flight, or race: not ordered after
// another thread's access by a barrier, by syncWarp within a warp, or between
// blocks by fence and atomic or a grid barrier.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_HOST_MEMORYCHECKER_H
#define MPC_TARGET_CUDA_HOST_MEMORYCHECKER_H

#include "../Prelude/HostInterface.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mpc::host {

/// An array of a launch.
struct ArrayInfo {
  std::string name;
  const void *begin;
  size_t bytes;
  /// Granularity of race detection, in bytes.
  size_t elementBytes;
  bool shared = false;
  bool writable = true;
  bool initialised = false;
};

/// A thread and its time in the order of its warp.
struct Accessor {
  int thread;
  uint32_t warpStep;
};

class MemoryChecker {
public:
  explicit MemoryChecker(std::array<int, 3> blockSize) : size(blockSize) {}

  void addArray(ArrayInfo info);
  /// Starts a block: drops shared arrays; unordered with other blocks.
  void beginBlock();
  /// Enters live block `number`, which keeps its shared arrays.
  void enterBlock(int number);
  /// Grid barrier: orders earlier accesses of these blocks before later ones;
  /// `key` identifies blocks that share a repeated barrier.
  void meetBlocks(const std::vector<int> &numbers, const void *key);
  /// Block barrier: orders earlier accesses before later ones.
  void barrier() { ++epoch; }
  /// Fence: the next atomic publishes the block's earlier writes.
  void fence() { fenced = true; }

  /// Checks and records an access. Returns a description of the error, or an
  /// empty string.
  std::string access(const Accessor &who, const void *at, size_t bytes,
                     Access kind);
  /// Marks bytes of a shared array as being copied, or as copied.
  void beginCopy(const void *at, size_t bytes);
  void endCopy(const Accessor &who, const void *at, size_t bytes);

  /// Returns the byte offset of the first uninitialized element of an array of
  /// the launch, or its size if there is none.
  size_t firstUnwritten(const void *begin) const;

private:
  struct Cell {
    /// Epoch of the last write and read; 0: none.
    uint32_t writeEpoch = 0, readEpoch = 0;
    uint32_t writeStep = 0, readStep = 0;
    uint16_t writer = 0, reader = 0;
    bool atomicWrite = false;
    /// Whether the last readers were several threads, of several warps.
    bool severalReaders = false, severalWarps = false;
    bool initialised = false, copying = false;
  };
  struct Array {
    ArrayInfo info;
    std::vector<Cell> cells;
  };
  /// An activation of a block, from entering to leaving it.
  struct Block {
    uint32_t firstEpoch;
    bool released;
    int number = -1;
    /// Grid barriers passed on entry, and the key of the next one.
    uint32_t meetings = 0;
    const void *key = nullptr;
  };
  /// A block that is entered repeatedly.
  struct LiveBlock {
    std::vector<Array> shared;
    /// Index of its last activation in `blocks`.
    size_t last = 0;
    uint32_t meetings = 0;
    const void *key = nullptr;
  };

  Array *find(const void *at);
  std::string outside(const void *at, size_t bytes, Access kind);
  std::string judge(const Cell &cell, const Accessor &who, Access kind) const;
  void record(Cell &cell, const Accessor &who, Access kind) const;
  bool ordered(uint32_t epochThen, int threadThen, uint32_t stepThen,
               const Accessor &now) const;
  std::string threadName(int number) const;
  template <typename Visit>
  void eachCell(Array &array, const void *at, size_t bytes, Visit visit);

  std::array<int, 3> size;
  std::vector<Array> arrays;
  std::vector<Block> blocks;
  std::vector<LiveBlock> live;
  size_t last = 0;
  uint32_t epoch = 1;
  bool fenced = false, acquired = false;
};

} // namespace mpc::host

#endif // MPC_TARGET_CUDA_HOST_MEMORYCHECKER_H
