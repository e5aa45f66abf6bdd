//===- RuntimeOnly.cpp - stubs for a package without a compiler -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MPC_RUNTIME_ONLY builds this instead of Compiler.cpp and everything that it
// adds.
//
//===----------------------------------------------------------------------===//

#include "Errors.h"
#include "Function.h"

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

/// Entry points that need the compiler; each reports that it is missing.
static constexpr const char *kEntries[] = {
    "engine",           "source_file", "source_bytes",    "best_policy",
    "builtin_policies", "read_policy", "parse_policy",    "sampler",
    "decoder",          "Training",    "TrainingOptions", "CompileOptions"};

void python::addCompiler(nb::module_ &module) {
  for (const char *entry : kEntries)
    module.def(entry, [](const nb::args &, const nb::kwargs &) {
      throw StatusError(
          Status(StatusCode::Unavailable, "mpc",
                 "needs the compiler, which this package was built without; "
                 "compile to an .mpcx file elsewhere and mpc.load() it"));
    });
}
