//===- Fiber.h - user-level context switches --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A fiber runs until it suspends itself and returns control to its resumer. A
// fiber that is never resumed again is dropped without unwinding: its frames
// must not own resources.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_HOST_FIBER_H
#define MPC_TARGET_CUDA_HOST_FIBER_H

#include <cstddef>
#include <memory>

namespace mpc::host {

/// Stacks with a guard page below each.
class StackPool {
public:
  static constexpr size_t kStackBytes = 64 * 1024;

  explicit StackPool(int count);
  ~StackPool();
  StackPool(const StackPool &) = delete;
  StackPool &operator=(const StackPool &) = delete;

  /// Whether the allocation succeeded.
  bool valid() const { return memory != nullptr; }
  /// Returns the lowest address of stack `index`.
  char *stack(int index) const;
  bool contains(const void *address) const;

private:
  char *memory = nullptr;
  size_t bytes = 0;
};

/// A fiber with a caller-owned stack.
class Fiber {
public:
  Fiber();
  ~Fiber();
  Fiber(Fiber &&) noexcept;

  /// Prepares a call of entry(argument), which must end with suspend() and
  /// never return.
  void start(char *stack, size_t bytes, void (*entry)(void *), void *argument);
  /// Runs the fiber until it suspends itself.
  void resume();
  /// Returns control to the resumer; called on the fiber itself.
  void suspend();

private:
  struct Context;
  std::unique_ptr<Context> context;
};

} // namespace mpc::host

#endif // MPC_TARGET_CUDA_HOST_FIBER_H
