//===- Fiber.h - threads of a block on one CPU thread -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A fiber runs until it suspends itself; whoever resumed it goes on then. A
// fiber that is not resumed again is dropped without unwinding: what runs on
// one may own nothing.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_HOST_FIBER_H
#define MPC_TARGET_CUDA_HOST_FIBER_H

#include <cstddef>
#include <memory>

namespace mpc::host {

/// Stacks with a page below each that faults when touched.
class StackPool {
public:
  static constexpr size_t kStackBytes = 64 * 1024;

  explicit StackPool(int count);
  ~StackPool();
  StackPool(const StackPool &) = delete;
  StackPool &operator=(const StackPool &) = delete;

  /// Whether the system gave the memory.
  bool valid() const { return memory != nullptr; }
  /// The lowest address of stack `index`.
  char *stack(int index) const;
  bool contains(const void *address) const;

private:
  char *memory = nullptr;
  size_t bytes = 0;
};

/// One thread of control with a stack that the caller owns.
class Fiber {
public:
  Fiber();
  ~Fiber();
  Fiber(Fiber &&) noexcept;

  /// Prepares a call of entry(argument), which must not return: its last act is
  /// suspend().
  void start(char *stack, size_t bytes, void (*entry)(void *), void *argument);
  /// Runs the fiber until it suspends.
  void resume();
  /// Gives way to the resumer; called on the fiber itself.
  void suspend();

private:
  struct Context;
  std::unique_ptr<Context> context;
};

} // namespace mpc::host

#endif // MPC_TARGET_CUDA_HOST_FIBER_H
