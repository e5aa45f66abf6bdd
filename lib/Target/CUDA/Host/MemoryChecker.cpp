//===- MemoryChecker.cpp - race and bounds detection ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryChecker.h"

#include <algorithm>
#include <iterator>

using namespace mpc::host;

static constexpr int kCheckedWarpSize = 32;
/// Maximum distance from an array, in bytes, to report an overrun of it.
static constexpr size_t kNearBytes = 4096;

static const char *verb(Access kind) {
  switch (kind) {
  case Access::Read:
    return "reads ";
  case Access::Write:
    return "writes ";
  case Access::Atomic:
    return "atomically changes ";
  }
  return "";
}

static size_t offsetIn(const ArrayInfo &info, const void *at) {
  return static_cast<const char *>(at) - static_cast<const char *>(info.begin);
}

static std::string quoted(const ArrayInfo &info) {
  return (info.shared ? "shared '" : "'") + info.name + "'";
}

void MemoryChecker::addArray(ArrayInfo info) {
  Array array{std::move(info), {}};
  array.cells.resize((array.info.bytes + array.info.elementBytes - 1) /
                     array.info.elementBytes);
  for (Cell &cell : array.cells)
    cell.initialised = array.info.initialised;
  arrays.push_back(std::move(array));
}

void MemoryChecker::beginBlock() {
  ++epoch;
  blocks.push_back({epoch, false});
  fenced = acquired = false;
  std::erase_if(arrays, [](const Array &array) { return array.info.shared; });
  last = 0;
}

void MemoryChecker::enterBlock(int number) {
  if (static_cast<int>(live.size()) <= number)
    live.resize(number + 1);
  auto shared =
      std::partition(arrays.begin(), arrays.end(),
                     [](const Array &array) { return !array.info.shared; });
  if (!blocks.empty())
    live[blocks.back().number].shared.assign(
        std::make_move_iterator(shared), std::make_move_iterator(arrays.end()));
  arrays.erase(shared, arrays.end());
  LiveBlock &entered = live[number];
  std::move(entered.shared.begin(), entered.shared.end(),
            std::back_inserter(arrays));
  entered.shared.clear();
  ++epoch;
  entered.last = blocks.size();
  blocks.push_back({epoch, false, number, entered.meetings, nullptr});
  fenced = acquired = false;
  last = 0;
}

void MemoryChecker::meetBlocks(const std::vector<int> &numbers,
                               const void *key) {
  for (int number : numbers) {
    LiveBlock &met = live[number];
    blocks[met.last].key = key;
    met.key = key;
    ++met.meetings;
  }
}

MemoryChecker::Array *MemoryChecker::find(const void *at) {
  auto holds = [&](const Array &array) {
    auto *begin = static_cast<const char *>(array.info.begin);
    return at >= begin && at < begin + array.info.bytes;
  };
  if (last < arrays.size() && holds(arrays[last]))
    return &arrays[last];
  for (size_t i = 0; i < arrays.size(); ++i)
    if (holds(arrays[i])) {
      last = i;
      return &arrays[i];
    }
  return nullptr;
}

template <typename Visit>
void MemoryChecker::eachCell(Array &array, const void *at, size_t bytes,
                             Visit visit) {
  size_t first = offsetIn(array.info, at) / array.info.elementBytes;
  size_t end =
      (offsetIn(array.info, at) + bytes + array.info.elementBytes - 1) /
      array.info.elementBytes;
  for (size_t i = first; i < end; ++i)
    visit(array.cells[i]);
}

std::string MemoryChecker::threadName(int number) const {
  return "thread (" + std::to_string(number % size[0]) + "," +
         std::to_string(number / size[0] % size[1]) + "," +
         std::to_string(number / size[0] / size[1]) + ")";
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

std::string MemoryChecker::outside(const void *at, size_t bytes, Access kind) {
  const Array *nearest = nullptr;
  ptrdiff_t distance = kNearBytes;
  for (const Array &array : arrays) {
    auto offset = static_cast<ptrdiff_t>(offsetIn(array.info, at));
    auto size = static_cast<ptrdiff_t>(array.info.bytes);
    ptrdiff_t away =
        offset < 0 ? -offset : std::max<ptrdiff_t>(0, offset - size);
    if (away < distance) {
      distance = away;
      nearest = &array;
    }
  }
  std::string text = verb(kind) + std::to_string(bytes) + " bytes ";
  if (!nearest)
    return text + "at an address outside every array";
  auto offset = static_cast<ptrdiff_t>(offsetIn(nearest->info, at));
  return text + "at offset " + std::to_string(offset) + " of " +
         quoted(nearest->info) + ", which has " +
         std::to_string(nearest->info.bytes) + " bytes";
}

//===----------------------------------------------------------------------===//
// Happens-before
//===----------------------------------------------------------------------===//

bool MemoryChecker::ordered(uint32_t epochThen, int threadThen,
                            uint32_t stepThen, const Accessor &now) const {
  if (epochThen == 0)
    return true;
  const Block &block = blocks.back();
  if (epochThen < block.firstEpoch) {
    // Another block: needs release by that block and acquire by this one.
    auto next = std::upper_bound(
        blocks.begin(), blocks.end(), epochThen,
        [](uint32_t value, const Block &b) { return value < b.firstEpoch; });
    const Block &then = *std::prev(next);
    if (block.number >= 0 && (then.number == block.number ||
                              (then.key && then.key == live[block.number].key &&
                               then.meetings < block.meetings)))
      return true;
    return acquired && then.released;
  }
  if (epochThen < epoch || threadThen == now.thread)
    return true;
  return threadThen / kCheckedWarpSize == now.thread / kCheckedWarpSize &&
         stepThen < now.warpStep;
}

std::string MemoryChecker::judge(const Cell &cell, const Accessor &who,
                                 Access kind) const {
  if (cell.copying)
    return ", whose asynchronous copy has not completed";
  if (kind != Access::Write && !cell.initialised)
    return ", which is uninitialized";
  auto otherBlock = [&](uint32_t then) {
    return then < blocks.back().firstEpoch;
  };
  bool bothAtomic = kind == Access::Atomic && cell.atomicWrite;
  if (!bothAtomic &&
      !ordered(cell.writeEpoch, cell.writer, cell.writeStep, who)) {
    if (otherBlock(cell.writeEpoch))
      return ", which another block writes without synchronization";
    return ", which " + threadName(cell.writer) +
           " writes without a barrier in between";
  }
  if (kind == Access::Read || cell.readEpoch == 0)
    return {};
  if (otherBlock(cell.readEpoch)) {
    if (!ordered(cell.readEpoch, cell.reader, cell.readStep, who))
      return ", which another block reads without synchronization";
    return {};
  }
  bool sameWarp =
      cell.reader / kCheckedWarpSize == who.thread / kCheckedWarpSize;
  bool inOrder = cell.readEpoch < epoch ||
                 (!cell.severalWarps && sameWarp &&
                  (cell.readStep < who.warpStep ||
                   (!cell.severalReaders && cell.reader == who.thread)));
  if (inOrder)
    return {};
  if (cell.reader == who.thread)
    return ", which other threads read without a barrier in between";
  return ", which " + threadName(cell.reader) +
         " reads without a barrier in between";
}

void MemoryChecker::record(Cell &cell, const Accessor &who, Access kind) const {
  if (kind != Access::Read) {
    cell.writeEpoch = epoch;
    cell.writeStep = who.warpStep;
    cell.writer = static_cast<uint16_t>(who.thread);
    cell.atomicWrite = kind == Access::Atomic;
    cell.initialised = true;
    return;
  }
  bool sameWarp =
      cell.reader / kCheckedWarpSize == who.thread / kCheckedWarpSize;
  bool fresh = cell.readEpoch != epoch;
  if (fresh) {
    cell.severalWarps = cell.severalReaders = false;
  } else if (!sameWarp) {
    cell.severalWarps = cell.severalReaders = true;
  } else if (cell.readStep < who.warpStep && !cell.severalWarps) {
    cell.severalReaders = false;
  } else if (cell.reader != who.thread) {
    cell.severalReaders = true;
  }
  cell.readEpoch = epoch;
  cell.readStep = who.warpStep;
  cell.reader = static_cast<uint16_t>(who.thread);
}

std::string MemoryChecker::access(const Accessor &who, const void *at,
                                  size_t bytes, Access kind) {
  Array *array = find(at);
  if (!array || offsetIn(array->info, at) + bytes > array->info.bytes)
    return outside(at, bytes, kind);
  std::string problem;
  if (kind != Access::Read && !array->info.writable)
    problem = ", which the launch passes as an input";
  if (kind == Access::Atomic) {
    acquired = true;
    if (fenced)
      blocks.back().released = true;
  }
  eachCell(*array, at, bytes, [&](Cell &cell) {
    if (problem.empty())
      problem = judge(cell, who, kind);
    record(cell, who, kind);
  });
  if (problem.empty())
    return {};
  return verb(kind) + quoted(array->info) + " at offset " +
         std::to_string(offsetIn(array->info, at)) + problem;
}

size_t MemoryChecker::firstUnwritten(const void *begin) const {
  for (const Array &array : arrays)
    if (array.info.begin == begin) {
      auto cell =
          std::find_if(array.cells.begin(), array.cells.end(),
                       [](const Cell &cell) { return !cell.initialised; });
      return cell == array.cells.end()
                 ? array.info.bytes
                 : (cell - array.cells.begin()) * array.info.elementBytes;
    }
  return 0;
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

void MemoryChecker::beginCopy(const void *at, size_t bytes) {
  if (Array *array = find(at))
    eachCell(*array, at, bytes, [](Cell &cell) { cell.copying = true; });
}

void MemoryChecker::endCopy(const Accessor &who, const void *at, size_t bytes) {
  if (Array *array = find(at))
    eachCell(*array, at, bytes, [&](Cell &cell) {
      cell.copying = false;
      record(cell, who, Access::Write);
    });
}
