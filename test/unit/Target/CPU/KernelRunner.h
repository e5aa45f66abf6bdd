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

/// Memory whose last byte is followed by an inaccessible guard page, so that an
/// out-of-bounds read or write faults.
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
  /// Scale factor of the random float inputs.
  double scale = 1.0;
  uint64_t seed = 1;
  /// Changes a generated input; gets the index of the argument.
  llvm::function_ref<void(unsigned, reference::Tensor &)> adjust = nullptr;
  /// The compiled text, if it differs from the interpreted one: an error that
  /// the check has to find.
  llvm::StringRef compiled = {};
  /// Gets the bytes of every result.
  std::vector<std::vector<char>> *results = nullptr;
};

/// Compiles the function `@k` of `text` for `target`, runs it on random inputs
/// with its tiles in random chunks and order, and checks each result against
/// the interpreter (compareOutput). Returns an empty string or the error.
std::string checkKernel(llvm::StringRef text, const cpu::CpuTarget &target,
                        const KernelCheck &check = {});

/// The ISA levels that this machine can run, without those that only emulate
/// integer units: their other kernels equal those of the level they extend.
std::vector<cpu::CpuIsa> floatLevels();

/// The same for each of floatLevels(); failures are reported to GoogleTest.
void expectKernel(llvm::StringRef text, const KernelCheck &check = {});

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CPU_KERNELRUNNER_H
