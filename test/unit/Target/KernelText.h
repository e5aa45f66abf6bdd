//===- KernelText.h - kernel texts for tests --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels are written with $T for the element type and other capitalized words
// that start with $ for shapes.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_KERNELTEXT_H
#define MPC_TEST_UNIT_TARGET_KERNELTEXT_H

#include <map>
#include <string>
#include <vector>

namespace mpc {

inline const std::vector<std::string> kFloats = {"f32", "f64", "f16", "bf16"};

/// `text` with every key replaced by its value.
inline std::string substitute(std::string text,
                              const std::map<std::string, std::string> &by) {
  for (const auto &[from, to] : by)
    for (size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

/// The kernel `@k` around `body`, which ends in a return. `attributes` follow
/// its kind.
inline std::string loopKernel(const std::string &arguments,
                              const std::string &results,
                              const std::string &body,
                              const std::string &kind = "elementwise",
                              const std::string &attributes = "") {
  return "func.func private @k(" + arguments + ") -> (" + results +
         ") attributes {mpc.kernel_kind = \"" + kind + "\"" + attributes +
         "} {\n" + body + "\n}\n";
}

/// All reduce ops over the same axes in one kernel.
inline std::string reduceKernel(const std::string &input,
                                const std::string &result,
                                const std::string &axes,
                                const std::string &kind = "elementwise") {
  std::string body, results, values;
  int i = 0;
  for (const char *op : {"sum", "mean", "max", "min", "prod"}) {
    std::string value = "%r" + std::to_string(i);
    body += value + " = mpc.reduce_" + op + " %x axes(" + axes + ") : tensor<" +
            input + "x$T> -> tensor<" + result + ">\n";
    results += (i ? ", tensor<" : "tensor<") + result + ">";
    values += (i++ ? ", " : "") + value;
  }
  return loopKernel("%x: tensor<" + input + "x$T>", results,
                    body + "return " + values + " : " + results, kind);
}

/// A row norm in separate ops.
inline const char *const kWrittenNorm = R"(
  %e = mpc.constant dense<0.01> : tensor<$T>
  %0 = mpc.reduce_mean %x axes([2]) keep_dims : tensor<3x5x44x$T> -> tensor<3x5x1x$T>
  %1 = mpc.sub %x, %0 : (tensor<3x5x44x$T>, tensor<3x5x1x$T>) -> tensor<3x5x44x$T>
  %2 = mpc.mul %1, %1 : (tensor<3x5x44x$T>, tensor<3x5x44x$T>) -> tensor<3x5x44x$T>
  %3 = mpc.reduce_mean %2 axes([2]) keep_dims : tensor<3x5x44x$T> -> tensor<3x5x1x$T>
  %4 = mpc.add %3, %e : (tensor<3x5x1x$T>, tensor<$T>) -> tensor<3x5x1x$T>
  %5 = mpc.sqrt %4 : tensor<3x5x1x$T>
  %6 = mpc.div %1, %5 : (tensor<3x5x44x$T>, tensor<3x5x1x$T>) -> tensor<3x5x44x$T>
  return %6, %3 : tensor<3x5x44x$T>, tensor<3x5x1x$T>)";

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_KERNELTEXT_H
