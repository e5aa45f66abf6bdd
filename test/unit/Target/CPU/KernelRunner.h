//===- KernelRunner.h - kernels against the interpreter ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CPU_KERNELRUNNER_H
#define MPC_TEST_UNIT_TARGET_CPU_KERNELRUNNER_H

#include "mpc/Reference/Tensor.h"
#include "mpc/Target/CPU/CpuTarget.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mpc {

/// Memory whose last byte stands before a page that may not be touched, so that
/// a read or write behind the end is a fault.
class GuardedMemory {
public:
  explicit GuardedMemory(int64_t bytes, int64_t alignment = 1);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;
  char *data() const { return begin; }

private:
  char *mapping = nullptr, *begin = nullptr;
  size_t mapped = 0;
};

/// How a check runs.
struct KernelCheck {
  /// Values of the drawn float inputs are multiplied by this.
  double scale = 1.0;
  uint64_t seed = 1;
  /// Changes an input after it was drawn; gets the argument's number.
  llvm::function_ref<void(unsigned, reference::Tensor &)> adjust = nullptr;
  /// What is compiled where that differs from what is interpreted: a fault that
  /// the check has to find.
  llvm::StringRef compiled = {};
  /// Gets the bytes of every result.
  std::vector<std::vector<char>> *results = nullptr;
};

/// Compiles the function `@k` of `text` for `target`, runs it on drawn inputs
/// with its items in random pieces and order, and judges each result against
/// the interpreter (compareOutput). Returns an empty string or what is wrong.
std::string checkKernel(llvm::StringRef text, const CpuTarget &target,
                        const KernelCheck &check = {});

/// The levels that this machine can run, but those that emulate units for
/// integers alone: their other kernels are made like those of a level beside.
std::vector<CpuIsa> floatLevels();

/// The same for each of floatLevels(); failures are reported to GoogleTest.
void expectKernel(llvm::StringRef text, const KernelCheck &check = {});

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CPU_KERNELRUNNER_H
