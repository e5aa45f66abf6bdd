//===- LoopKernelText.h - texts of kernels for tests ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels are written with $T for the element type under test.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CPU_LOOPKERNELTEXT_H
#define MPC_TEST_UNIT_TARGET_CPU_LOOPKERNELTEXT_H

#include "KernelRunner.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace mpc {

/// `text` with every `from` replaced by `to`.
inline std::string substitute(std::string text, const std::string &from,
                              const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// The function `@k` of the kernel family `kind` around `body`, which ends in a
/// return.
inline std::string loopKernel(const std::string &arguments,
                              const std::string &results,
                              const std::string &body) {
  return "func.func private @k(" + arguments + ") -> (" + results +
         ") attributes {mpc.kernel_kind = \"elementwise\"} {\n" + body +
         "\n}\n";
}

/// Checks a kernel for each element type.
inline void expectForTypes(std::initializer_list<const char *> types,
                           const std::string &text,
                           const KernelCheck &check = {}) {
  for (const char *type : types)
    expectKernel(substitute(text, "$T", type), check);
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
