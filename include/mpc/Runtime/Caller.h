//===- Caller.h - the interface that a caller uses --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_CALLER_H
#define MPC_RUNTIME_CALLER_H

#include <cstdint>
#include <string>
#include <vector>

namespace mpc {

/// The interface through which options are set. Messages name its means: a flag
/// on the command line, a field in C and C++, a keyword in Python.
enum class Caller { CommandLine, Cpp, Python, C };

/// Returns how to set the extent of a symbolic dimension: "--dim batch=1".
inline std::string howToSetDim(Caller caller, const std::string &name) {
  switch (caller) {
  case Caller::CommandLine:
    return "--dim " + name + "=1";
  case Caller::Cpp:
    return "CompileOptions::dims[\"" + name + "\"] = 1";
  case Caller::Python:
    return "dims={'" + name + "': 1}";
  case Caller::C:
    return "mpc_compile_options.dims = {\"" + name + "\", 1}";
  }
  return {};
}

/// Returns how to set the shape of an input: "--shape x=1x512".
inline std::string howToSetShape(Caller caller, const std::string &input,
                                 const std::vector<int64_t> &shape) {
  std::string extents;
  for (int64_t extent : shape)
    extents += (extents.empty()                 ? ""
                : caller == Caller::CommandLine ? "x"
                                                : ", ") +
               std::to_string(extent);
  switch (caller) {
  case Caller::CommandLine:
    return "--shape " + input + "=" + extents;
  case Caller::Cpp:
    return "CompileOptions::inputShapes[\"" + input + "\"] = {" + extents + "}";
  case Caller::Python:
    return "an example array of shape (" + extents + ")";
  case Caller::C:
    return "mpc_compile_options.shapes = {\"" + input + "\", ..., {" + extents +
           "}}";
  }
  return {};
}

} // namespace mpc

#endif // MPC_RUNTIME_CALLER_H
