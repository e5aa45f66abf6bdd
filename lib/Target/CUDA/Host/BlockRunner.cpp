//===- BlockRunner.cpp - emulation of thread blocks -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlockRunner.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

using namespace mpc;
using namespace mpc::host;

static constexpr int kWarpSize = 32;
/// Maximum static, and total, shared memory per block, in bytes (sm_90).
static constexpr size_t kStaticSharedBytes = 48 * 1024;
static constexpr size_t kSharedBytes = 227 * 1024;
/// Alignment of wgmma tiles, in bytes, for the swizzle.
static constexpr size_t kSharedAlignment = 1024;
/// Red zone between shared arrays, in bytes, to detect overruns.
static constexpr size_t kRedZoneBytes = 256;
/// Size of the arena for static arrays and their red zones, in bytes.
static constexpr size_t kArenaBytes = 1024 * 1024;
/// Byte pattern of uninitialized memory: a NaN in every float format.
static constexpr int kSharedPoison = 0xff;

static std::string triple(const int *values) {
  return "(" + std::to_string(values[0]) + "," + std::to_string(values[1]) +
         "," + std::to_string(values[2]) + ")";
}

static int productOf(const int *extents) {
  return extents[0] * extents[1] * extents[2];
}

BlockRunner::BlockRunner(const HostLaunch &launch, bool checks,
                         AddressRange image)
    : Interface{}, launch(launch), checks(checks), image(image),
      checker({launch.block[0], launch.block[1], launch.block[2]}),
      stacks(productOf(launch.block) *
             (launch.cooperative ? productOf(launch.grid) : 1)),
      count(productOf(launch.block)), random(launch.seed) {
  std::copy_n(launch.block, 3, blockSize);
  std::copy_n(launch.grid, 3, gridSize);
  capability = launch.capability;
  fillTable();
  makeBlocks(launch.cooperative ? productOf(launch.grid) : 1);
}

void BlockRunner::makeBlocks(size_t blocks) {
  live.resize(blocks);
  for (LiveBlock &made : live) {
    made.threads.resize(count);
    made.arena.resize(kArenaBytes);
    made.arenaUsed = made.arena.size();
    for (int i = 0; i < count; ++i) {
      int x = i % blockSize[0], y = i / blockSize[0] % blockSize[1];
      made.threads[i].where = {{x, y, i / blockSize[0] / blockSize[1]}, i};
      made.threads[i].runner = this;
    }
  }
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

void BlockRunner::setFailure(const Thread &thread, std::string sentence,
                             int line, const void *caller) {
  failure = Failure{"kernel '" + launch.kernel + "', block " + triple(block) +
                        ", thread " + triple(thread.where.thread) + ": " +
                        std::move(sentence),
                    line, caller};
}

void BlockRunner::stop(std::string sentence, int line, const void *caller) {
  setFailure(*running, std::move(sentence), line, caller);
  // The fiber is never resumed.
  while (true)
    running->fiber.suspend();
}

void BlockRunner::reportStuck() {
  // Deadlock: some thread waits for one that ended or waits elsewhere.
  const std::vector<Thread> &threads = current->threads;
  auto describe = [](const Thread &thread) -> std::string {
    if (thread.state == State::Ended)
      return "has ended";
    return std::string("waits at ") + thread.operation + " of line " +
           std::to_string(thread.line);
  };
  for (const Thread &waiting : threads) {
    if (waiting.state != State::AtWarpOperation)
      continue;
    int warp = waiting.where.number / kWarpSize;
    const WarpOperation &operation = current->warps[warp];
    int lane = std::countr_one(operation.arrived);
    int missing = warp * kWarpSize + lane;
    std::string text = std::string("waits at ") + operation.name +
                       " for lane " + std::to_string(lane);
    text += missing < count
                ? ", thread " + triple(threads[missing].where.thread) +
                      ", which " + describe(threads[missing])
                : ", which the block does not have";
    return setFailure(waiting, text, operation.line);
  }
  for (const Thread &waiting : threads)
    if (waiting.state == State::AtBarrier ||
        waiting.state == State::AtGridBarrier)
      for (const Thread &other : threads)
        if (other.state != waiting.state)
          return setFailure(waiting,
                            "divergent barrier: waits for thread " +
                                triple(other.where.thread) + ", which " +
                                describe(other),
                            waiting.line);
}

void BlockRunner::reportMissingBlocks() {
  for (LiveBlock &waiting : live) {
    if (!waiting.key)
      continue;
    auto come = std::count_if(live.begin(), live.end(), [&](const auto &other) {
      return other.key == waiting.key;
    });
    enter(waiting);
    const Thread &first = waiting.threads.front();
    return setFailure(first,
                      "waits for " + std::to_string(first.expected) +
                          " blocks, of which " + std::to_string(come) + " come",
                      first.line);
  }
}

//===----------------------------------------------------------------------===//
// Scheduling
//===----------------------------------------------------------------------===//

std::vector<int> BlockRunner::order(int size) {
  std::vector<int> result(size);
  std::iota(result.begin(), result.end(), 0);
  if (launch.order == ThreadOrder::Descending)
    std::reverse(result.begin(), result.end());
  else if (launch.order == ThreadOrder::Shuffled)
    std::shuffle(result.begin(), result.end(), random);
  return result;
}

void BlockRunner::runThread(void *argument) {
  auto *thread = static_cast<Thread *>(argument);
  BlockRunner &runner = *thread->runner;
  runner.kernel(runner.kernelArguments);
  if (!thread->openProducts.empty() || !thread->productGroups.empty())
    runner.stop("exits with matrix multiplications (wgmma) in flight", 0);
  thread->state = State::Ended;
  runner.leave(*thread);
  while (true)
    thread->fiber.suspend();
}

/// Exited warps no longer count in barriers, as on a GPU.
void BlockRunner::leave(const Thread &thread) {
  int first = thread.where.number / kWarpSize * kWarpSize,
      end = std::min(first + kWarpSize, count);
  for (int i = first; i < end; ++i)
    if (current->threads[i].state != State::Ended)
      return;
  current->absent += end - first;
  if (current->arrived > 0 && current->arrived == count - current->absent)
    openBarrier();
}

void BlockRunner::openBarrier() {
  LiveBlock &block = *current;
  block.arrived = 0;
  checker.barrier();
  for (Thread &thread : block.threads)
    if (thread.state != State::Ended)
      thread.state = State::Ready;
}

void BlockRunner::startBlock(LiveBlock &started, int number) {
  std::fill_n(started.arena.begin(), started.arenaUsed,
              static_cast<char>(kSharedPoison));
  started.number = number;
  started.arenaUsed = started.sharedBytes = 0;
  started.sharedArrays.clear();
  started.warps.assign((count + kWarpSize - 1) / kWarpSize, {});
  started.arrived = started.absent = 0;
  started.ended = false;
  int firstStack = static_cast<int>(&started - live.data()) * count;
  for (Thread &thread : started.threads) {
    thread.state = State::Ready;
    thread.openCopies.clear();
    thread.copyGroups.clear();
    thread.openProducts.clear();
    thread.productGroups.clear();
    thread.warpStep = 0;
    // Stagger stack tops: equal offsets would map to a few cache sets.
    size_t shift = thread.where.number * 192 % 4096;
    thread.fiber.start(stacks.stack(firstStack + thread.where.number),
                       StackPool::kStackBytes - shift, &runThread, &thread);
  }
}

void BlockRunner::enter(LiveBlock &entered) {
  current = &entered;
  block[0] = entered.number % gridSize[0];
  block[1] = entered.number / gridSize[0] % gridSize[1];
  block[2] = entered.number / gridSize[0] / gridSize[1];
}

bool BlockRunner::runBlock() {
  while (true) {
    bool progress = false, alive = false, waits = true;
    for (int i : order(count)) {
      Thread &thread = current->threads[i];
      alive |= thread.state != State::Ended;
      if (thread.state == State::Ready) {
        progress = true;
        running = &thread;
        place = &thread.where;
        thread.fiber.resume();
        if (failure)
          return false;
      }
      waits &= thread.state == State::AtGridBarrier;
    }
    if (!alive) {
      current->ended = true;
      return true;
    }
    if (waits) {
      current->key = current->threads.front().key;
      return true;
    }
    if (!progress) {
      reportStuck();
      return false;
    }
  }
}

bool BlockRunner::meet(const LiveBlock &waiting) {
  const void *key = waiting.key;
  std::vector<int> come;
  for (const LiveBlock &other : live)
    if (other.key == key)
      come.push_back(other.number);
  if (static_cast<int>(come.size()) < waiting.threads.front().expected)
    return false;
  checker.meetBlocks(come, key);
  for (LiveBlock &other : live)
    if (other.key == key) {
      other.key = nullptr;
      for (Thread &thread : other.threads)
        thread.state = State::Ready;
    }
  return true;
}

bool BlockRunner::runTogether() {
  for (size_t i = 0; i < live.size(); ++i)
    startBlock(live[i], static_cast<int>(i));
  while (true) {
    bool progress = false, alive = false;
    for (int i : order(static_cast<int>(live.size()))) {
      alive |= !live[i].ended;
      if (live[i].ended || live[i].key)
        continue;
      progress = true;
      enter(live[i]);
      checker.enterBlock(i);
      if (!runBlock())
        return false;
      if (live[i].key)
        meet(live[i]);
    }
    if (!alive)
      return true;
    if (!progress) {
      reportMissingBlocks();
      return false;
    }
  }
}

std::optional<BlockRunner::Failure>
BlockRunner::run(void (*call)(void *const *), void *const *arguments) {
  kernel = call;
  kernelArguments = arguments;
  if (!stacks.valid())
    return Failure{"kernel '" + launch.kernel + "': no memory for the stacks",
                   -1, nullptr};
  if (launch.cooperative) {
    runTogether();
    return failure;
  }
  for (int i : order(productOf(gridSize))) {
    startBlock(live.front(), i);
    enter(live.front());
    checker.beginBlock();
    if (!runBlock())
      break;
  }
  return failure;
}

void BlockRunner::wait(State state, const char *operation, int line) {
  running->state = state;
  running->operation = operation;
  running->line = line;
  running->fiber.suspend();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Accessor BlockRunner::accessor() const {
  return {running->where.number, running->warpStep};
}

void BlockRunner::check(const void *at, size_t bytes, Access kind,
                        const void *caller, int line) {
  if (!checks || stacks.contains(at) || (at >= image.begin && at < image.end))
    return;
  std::string problem = checker.access(accessor(), at, bytes, kind);
  if (!problem.empty())
    stop(std::move(problem), line, caller);
}

char *BlockRunner::takeShared(size_t bytes) {
  std::vector<char> &arena = current->arena;
  char *base = arena.data() + current->arenaUsed;
  auto address = reinterpret_cast<uintptr_t>(base) + kRedZoneBytes;
  char *result =
      base + kRedZoneBytes +
      (kSharedAlignment - address % kSharedAlignment) % kSharedAlignment;
  current->sharedBytes += (bytes + 15) / 16 * 16;
  if (current->sharedBytes > kSharedBytes)
    return nullptr;
  current->arenaUsed = result + bytes + kRedZoneBytes - arena.data();
  return current->arenaUsed <= arena.size() ? result : nullptr;
}

void BlockRunner::land(const std::vector<Copy> &copies) {
  for (const Copy &copy : copies) {
    std::memcpy(copy.to, copy.from, copy.valid);
    std::memset(static_cast<char *>(copy.to) + copy.valid, 0,
                copy.bytes - copy.valid);
    checker.endCopy(accessor(), copy.to, copy.bytes);
  }
}

//===----------------------------------------------------------------------===//
// Function table
//===----------------------------------------------------------------------===//

void BlockRunner::fillTable() {
  barrier = [](Interface *table, int line) {
    BlockRunner &runner = self(table);
    LiveBlock &block = *runner.current;
    runner.running->line = line;
    for (const Thread &other : block.threads)
      if (other.state == State::AtBarrier) {
        if (other.line != line)
          runner.stop(
              "divergent barrier: thread " + triple(other.where.thread) +
                  " waits at the barrier of line " + std::to_string(other.line),
              line);
        break;
      }
    if (++block.arrived < runner.count - block.absent)
      runner.wait(State::AtBarrier, "barrier", line);
    else
      runner.openBarrier();
  };

  warpOperation = [](Interface *table, const char *name, int line,
                     WarpFunction compute, void *operands) {
    BlockRunner &runner = self(table);
    Thread &mine = *runner.running;
    int warp = mine.where.number / kWarpSize;
    int lane = mine.where.number % kWarpSize;
    WarpOperation &pending = runner.current->warps[warp];
    if (pending.arrived == 0)
      pending = {name, line, 0, {}};
    if (pending.line != line || std::strcmp(pending.name, name) != 0)
      runner.stop(std::string("comes to ") + name +
                      " while other lanes of its warp wait at " + pending.name +
                      " of line " + std::to_string(pending.line),
                  line);
    pending.arrived |= 1u << lane;
    pending.operands[lane] = operands;
    if (~pending.arrived) {
      runner.wait(State::AtWarpOperation, name, line);
      return;
    }
    compute(pending.operands);
    pending.arrived = 0;
    for (int i = 0; i < kWarpSize; ++i)
      runner.current->threads[warp * kWarpSize + i].state = State::Ready;
  };

  orderWarp = [](Interface *table) { ++self(table).running->warpStep; };

  sharedArray = [](Interface *table, const void *key, const char *name,
                   unsigned long bytes, unsigned elementBytes,
                   int line) -> void * {
    BlockRunner &runner = self(table);
    for (const SharedArray &array : runner.current->sharedArrays)
      if (array.key == key)
        return array.address;
    char *address = runner.takeShared(bytes);
    if (!address ||
        (key && runner.current->sharedBytes >
                    kStaticSharedBytes + runner.launch.dynamicSharedBytes))
      runner.stop(std::string("shared '") + name + "' of " +
                      std::to_string(bytes) +
                      " bytes exceeds the shared memory of a block",
                  line);
    runner.checker.addArray({name, address, bytes, elementBytes,
                             /*shared=*/true, /*writable=*/true,
                             /*initialised=*/false});
    runner.current->sharedArrays.push_back({key, address});
    return address;
  };

  dynamicShared = [](Interface *table, unsigned elementBytes,
                     int line) -> void * {
    return table->sharedArray(table, nullptr, "dynamic",
                              self(table).launch.dynamicSharedBytes,
                              elementBytes, line);
  };

  access = [](Interface *table, const void *at, unsigned long bytes,
              Access kind, const void *caller) {
    self(table).check(at, bytes, kind, caller);
  };

  gridBarrier = [](Interface *table, const void *key, int blocks, int line) {
    BlockRunner &runner = self(table);
    if (!runner.launch.cooperative)
      runner.stop("waits for other blocks in a launch whose blocks are not all "
                  "co-resident",
                  line);
    Thread &mine = *runner.running;
    const Thread &first = runner.current->threads.front();
    if (first.state == State::AtGridBarrier &&
        (first.key != key || first.expected != blocks || first.line != line))
      runner.stop("divergent grid barrier: the block's first thread waits "
                  "elsewhere",
                  line);
    mine.key = key;
    mine.expected = blocks;
    runner.wait(State::AtGridBarrier, "grid barrier", line);
  };

  fence = [](Interface *table) { self(table).checker.fence(); };

  copyAsync = [](Interface *table, void *shared, const void *global, int bytes,
                 int valid, int line) {
    BlockRunner &runner = self(table);
    if (valid < 0 || valid > bytes)
      runner.stop("copies " + std::to_string(valid) + " bytes of " +
                      std::to_string(bytes),
                  line);
    if (reinterpret_cast<uintptr_t>(shared) % bytes != 0 ||
        (valid > 0 && reinterpret_cast<uintptr_t>(global) % bytes != 0))
      runner.stop("copies between misaligned addresses", line);
    if (valid > 0)
      runner.check(global, valid, Access::Read, nullptr, line);
    runner.check(shared, bytes, Access::Write, nullptr, line);
    std::memset(shared, kSharedPoison, bytes);
    runner.checker.beginCopy(shared, bytes);
    runner.running->openCopies.push_back({shared, global, bytes, valid});
  };

  commitCopies = [](Interface *table) {
    Thread &thread = *self(table).running;
    thread.copyGroups.push_back(std::move(thread.openCopies));
    thread.openCopies.clear();
  };

  waitCopies = [](Interface *table, int pending) {
    BlockRunner &runner = self(table);
    auto &groups = runner.running->copyGroups;
    for (; static_cast<int>(groups.size()) > pending; groups.pop_front())
      runner.land(groups.front());
  };

  product = [](Interface *table, ProductFunction compute, float *sums,
               const void *a, const void *b, bool kept, int line) {
    self(table).running->openProducts.push_back(
        {compute, sums, a, b, kept, line});
  };

  commitProducts = [](Interface *table) {
    Thread &thread = *self(table).running;
    thread.productGroups.push_back(std::move(thread.openProducts));
    thread.openProducts.clear();
  };

  waitProducts = [](Interface *table, int pending) {
    auto &groups = self(table).running->productGroups;
    for (; static_cast<int>(groups.size()) > pending; groups.pop_front())
      for (const Product &each : groups.front())
        each.compute(each.sums, each.a, each.b, each.kept, each.line);
  };

  fail = [](Interface *table, const char *sentence, int line) {
    self(table).stop(sentence, line);
  };
}
