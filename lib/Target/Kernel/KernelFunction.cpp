//===- KernelFunction.cpp - functions on memory for kernels ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelFunction.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

KernelMemory KernelMemory::of(func::FuncOp kernel, func::FuncOp impl) {
  auto arguments = impl.getArguments();
  auto outputs = arguments.drop_front(kernel.getNumArguments());
  return {
      llvm::to_vector_of<Value>(arguments.take_front(kernel.getNumArguments())),
      llvm::to_vector_of<Value>(outputs.take_front(kernel.getNumResults())),
      arguments.back()};
}

int64_t mpc::grainOf(double cyclesPerItem) {
  // Cycles per task: waking a thread takes some microseconds, and a task should
  // last several times that.
  constexpr double kTaskCycles = 40000;
  return std::max<int64_t>(
      1, std::llround(kTaskCycles / std::max(cyclesPerItem, 1.0)));
}
