//===- LoopKernelText.h - kernel texts for tests ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CPU_LOOPKERNELTEXT_H
#define MPC_TEST_UNIT_TARGET_CPU_LOOPKERNELTEXT_H

#include "../KernelText.h"
#include "KernelRunner.h"

#include <string>
#include <vector>

namespace mpc {

/// Checks a kernel for each element type.
inline void expectForTypes(const std::vector<std::string> &types,
                           const std::string &text,
                           const KernelCheck &check = {}) {
  for (const std::string &type : types)
    expectKernel(substitute(text, {{"$T", type}}), check);
}

/// A kernel with one result per op: `%i = mpc.OP %x` for each mnemonic with its
/// flags, all of the tensor type `type`.
inline std::string unaryKernel(const std::vector<std::string> &ops,
                               const std::string &type) {
  std::string body, results, values;
  for (size_t i = 0; i < ops.size(); ++i) {
    size_t space = ops[i].find(' ');
    std::string name = ops[i].substr(0, space);
    std::string flags = space == std::string::npos ? "" : ops[i].substr(space);
    std::string value = "%r" + std::to_string(i);
    body += value + " = mpc." + name + " %x" + flags + " : " + type + "\n";
    results += (i ? ", " : "") + type;
    values += (i ? ", " : "") + value;
  }
  return loopKernel("%x: " + type, results,
                    body + "return " + values + " : " + results);
}

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CPU_LOOPKERNELTEXT_H
