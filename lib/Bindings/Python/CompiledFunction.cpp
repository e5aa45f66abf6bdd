//===- CompiledFunction.cpp - JIT-compiled functions of arrays ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledFunction.h"

#include "Errors.h"
#include "InterpreterLock.h"

#include "mpc/JIT/CompileFile.h"

#include <algorithm>
#include <utility>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

CompiledFunction::CompiledFunction(const Engine &engine,
                                   std::shared_ptr<Gpu> gpu,
                                   const ModelSource &source,
                                   CompileOptions given)
    : Function(std::move(gpu), CompileMonitor::over(given)),
      options(std::move(given)) {
  {
    GilRelease release;
    declared = valueOf(readInputs(source));
  }
  model = engine.open(source, options);
}

void CompiledFunction::save(
    const std::string &path, const std::vector<std::string> &targets,
    const std::vector<std::map<std::string, int64_t>> &sets) {
  {
    GilRelease release;
    CompileOptions choices = options;
    choices.specialisations = sets;
    for (const auto &[argument, shape] : shapes())
      if (std::ranges::find(declared, argument, &ModelInput::name) !=
          declared.end())
        choices.inputShapes[argument] = shape;
    watch->valueOf(compileToFile(model->source(), path, targets, choices));
  }
  watch->issue();
}
