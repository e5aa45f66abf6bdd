//===- RuntimeOnly.cpp - a package without a compiler ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What MPC_RUNTIME_ONLY puts in place of Compiler.cpp and all that it adds.
//
//===----------------------------------------------------------------------===//

#include "Errors.h"
#include "Function.h"

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

/// Where users begin that want a compile; each says that there is none.
static constexpr const char *kEntries[] = {
    "engine",           "source_file", "source_bytes",    "best_policy",
    "builtin_policies", "read_policy", "parse_policy",    "sampler",
    "decoder",          "Training",    "TrainingOptions", "CompileOptions"};

void python::addCompiler(nb::module_ &module) {
  for (const char *entry : kEntries)
    module.def(entry, [](const nb::args &, const nb::kwargs &) {
      throw StatusError(
          Status(StatusCode::Unavailable, "mpc",
                 "needs a compiler here, which this package was built without; "
                 "compile to an .mpcx file elsewhere and mpc.load() it"));
    });
}
