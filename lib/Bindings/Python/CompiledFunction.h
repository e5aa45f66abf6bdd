//===- CompiledFunction.h - JIT-compiled functions --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_COMPILEDFUNCTION_H
#define MPC_LIB_BINDINGS_PYTHON_COMPILEDFUNCTION_H

#include "Function.h"

#include "mpc/JIT/Engine.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mpc::python {

/// A model of an engine as a function.
class CompiledFunction : public Function {
public:
  /// Reads the model's inputs.
  CompiledFunction(const Engine &engine, std::shared_ptr<Gpu> gpu,
                   const ModelSource &source, CompileOptions options);

  SpecialisationCounts counts() const override { return model->counts(); }
  /// Compiles the model for `targets` and each set of extents in `sets`, and
  /// writes it to a file. Other extents are those of the last used program.
  void save(const std::string &path, const std::vector<std::string> &targets,
            const std::vector<std::map<std::string, int64_t>> &sets);

protected:
  std::string name() const override { return model->source().name(); }
  Result<Executable> find(const NamedBuffers &arguments) override {
    return model->specialise(arguments);
  }
  bool pads() const override { return !options.buckets.empty(); }
  Result<NamedBuffers> runPadded(const NamedBuffers &arguments) override {
    return model->run(arguments);
  }

private:
  CompileOptions options;
  std::optional<Model> model;
};

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_COMPILEDFUNCTION_H
