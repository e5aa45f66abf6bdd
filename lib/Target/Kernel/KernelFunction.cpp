//===- KernelFunction.cpp - functions on memory for kernels ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelFunction.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

KernelFunctionArguments::KernelFunctionArguments(func::FuncOp kernel,
                                                 func::FuncOp impl) {
  Block &entry = impl.getBody().front();
  unsigned inputs = kernel.getNumArguments(), outputs = kernel.getNumResults();
  for (unsigned i = 0; i < inputs; ++i)
    inputMemrefs.push_back(entry.getArgument(i));
  for (unsigned i = 0; i < outputs; ++i)
    outputMemrefs.push_back(entry.getArgument(inputs + i));
  begin = entry.getArguments().end()[-3];
  end = entry.getArguments().end()[-2];
  scratch = entry.getArguments().back();
}

int64_t mpc::grainOf(double cyclesPerItem) {
  // Cycles per task: waking a thread takes some microseconds, and a task should
  // last several times that.
  constexpr double kTaskCycles = 40000;
  return std::max<int64_t>(
      1, std::llround(kTaskCycles / std::max(cyclesPerItem, 1.0)));
}
