//===- MemoryChecker.h - who touched what since when ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Knows the arrays of a launch and, for every element, its last accesses. An
// access is wrong when it leaves its array, reads what nobody wrote, writes an
// input, touches an asynchronous copy under way, or when nothing orders it
// after another thread's access to the same element: no barrier, no syncWarp
// within a warp, no fence and atomic, and no grid barrier, between blocks.
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

/// What the launch says about an array.
struct ArrayInfo {
  std::string name;
  const void *begin;
  size_t bytes;
  /// Elements are what accesses are compared by.
  size_t elementBytes;
  bool shared = false;
  bool writable = true;
  bool initialised = false;
};

/// A thread and its position in the order of its warp.
struct Accessor {
  int thread;
  uint32_t warpStep;
};

class MemoryChecker {
public:
  explicit MemoryChecker(std::array<int, 3> blockSize) : size(blockSize) {}

  void addArray(ArrayInfo info);
  /// Forgets the shared arrays; what follows is not ordered after other blocks.
  void beginBlock();
  /// The same of block number `number`, which goes on where it has run before:
  /// it keeps its shared arrays.
  void enterBlock(int number);
  /// Orders what these blocks have done before what they do from now on; `key`
  /// stands for those that meet again and again.
  void meetBlocks(const std::vector<int> &numbers, const void *key);
  /// Orders all earlier accesses of the block before all later ones.
  void barrier() { ++epoch; }
  /// The block's writes so far are published by its next atomic.
  void fence() { fenced = true; }

  /// Judges an access and remembers it. Empty, or what is wrong with it.
  std::string access(const Accessor &who, const void *at, size_t bytes,
                     Access kind);
  /// Marks bytes of a shared array as not there yet, or as landed.
  void beginCopy(const void *at, size_t bytes);
  void endCopy(const Accessor &who, const void *at, size_t bytes);

  /// The offset of the first element of an array of the launch that nobody has
  /// written; its size where there is none.
  size_t firstUnwritten(const void *begin) const;

private:
  struct Cell {
    /// Epoch of the last access of each kind; 0: none.
    uint32_t writeEpoch = 0, readEpoch = 0;
    uint32_t writeStep = 0, readStep = 0;
    uint16_t writer = 0, reader = 0;
    bool atomicWrite = false;
    /// The last readers were several threads, of several warps.
    bool severalReaders = false, severalWarps = false;
    bool initialised = false, copying = false;
  };
  struct Array {
    ArrayInfo info;
    std::vector<Cell> cells;
  };
  /// What a block does from one time that it is entered to the next.
  struct Block {
    uint32_t firstEpoch;
    bool released;
    int number = -1;
    /// How often it had met others when it was entered, and with whom it met
    /// behind this.
    uint32_t meetings = 0;
    const void *key = nullptr;
  };
  /// A block that is entered more than once.
  struct LiveBlock {
    std::vector<Array> shared;
    /// What it did last among `blocks`.
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
