//===- Checker.h - one mpc check --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_CHECKER_H
#define MPC_TOOLS_MPC_CHECKER_H

#include "Arrays.h"
#include "Commands.h"
#include "Instrument.h"
#include "ResultFaults.h"

#include "JIT/CarriedPrecision.h"
#include "JIT/Compiler.h"

#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"

namespace mpc::tool {

/// One `mpc check`.
class Checker {
public:
  explicit Checker(const CheckArguments &arguments)
      : arguments(arguments),
        reporter(arguments.common.json, arguments.common.quiet) {}
  int run();

private:
  Status prepare();
  std::vector<Status> bind();
  Status interpretModel();
  /// Runs the storage-rounding mode on the predictor, which holds `imported`
  /// and gets the types of the module.
  Status predict(const ObservedGraph &imported);
  /// Whether the simplified graph in float64, which `observer` sees, computes
  /// what the imported one does, as far as the model's own types can tell;
  /// notes where it does not.
  Status checkRewrites(OpObserver observer = {});
  /// Makes the graph with narrow weights the reference, where there are some.
  Status narrowReference();
  Status compileAndRun();
  reference::OutputError judge(size_t output) const;
  /// What narrow weights cost an output, relative as rms errors are.
  double weightsError(size_t output) const {
    return ownWeights.empty() || !reference[output].isFloat()
               ? 0
               : reference::rmsRelativeError(reference[output],
                                             ownWeights[output]);
  }
  /// Looks for the cause of errors over their tolerance: a rewrite; or chance,
  /// for which errors are predicted again from more samples, where an output
  /// has few elements or is over its componentwise tolerance alone.
  Status explainErrors();
  Status compareExpected(Json &document, bool &ok);
  /// Runs both modes of the oracle on numbered ops.
  Status traceOps();
  /// The same relative to the terms of each element.
  double weightsComponentError(size_t output) const {
    return ownWeights.empty() || !reference[output].isFloat()
               ? 0
               : reference::componentwiseError(
                     reference[output], ownWeights[output], magnitudes[output]);
  }
  /// Appends what a loss scale that joined the model begins with to the inputs.
  Status beginState();
  /// Compiles and runs with the result of every op as an output.
  Status runInstrumented();
  Status checkOps(Json &document, bool &ok);
  /// Says which values are not finite where they should be, and which op was
  /// the first to make one.
  Status reportFiniteness(Json &document);
  void reportOutputs(Json &document, bool &ok);
  /// Without narrow types there is no reason for an integer to differ.
  bool exactIntegers() const {
    return options.policy == "float32" && options.sets.empty();
  }
  /// Whether types or weights of the policy may excuse an error.
  bool isNarrowed() const {
    return narrowsWeights || llvm::is_contained(rounded, true);
  }
  bool exactIntegers(size_t output) const {
    return exactIntegers() || !rounded[output];
  }
  /// Runs a mode of the oracle on `graph`.
  Status oracle(mlir::ModuleOp graph, reference::Rounding rounding,
                std::vector<reference::Tensor> &results,
                OpObserver observer = {});

  const CheckArguments &arguments;
  Reporter reporter;
  CompileOptions options;
  std::vector<NamedArray> arrays, expected;
  std::optional<Device> device;
  std::unique_ptr<Compiler> compiler;
  Compiler::Module module;
  /// What the storage-rounding mode runs: the imported graph with the types of
  /// the module's ops. Of a training step to which a loss scale was added, the
  /// module itself: gradients are rounded at that scale.
  Compiler::Module predictor;
  /// Behind stage simplify.
  Compiler::Module simplified;
  std::vector<ProgramValue> outputs;
  std::vector<Buffer> inputs;
  std::vector<reference::Tensor> inputTensors;
  std::vector<reference::Tensor> reference, declared, actual;
  /// Of each output the magnitudes of the terms of its elements.
  llvm::SmallVector<reference::Tensor> magnitudes;
  /// The model with its own weights in float64; empty where the policy does not
  /// narrow them.
  std::vector<reference::Tensor> ownWeights;
  /// Whether Precision left something narrow on the way to each output.
  llvm::SmallVector<bool> rounded;
  /// Whether the policy stores weights narrow.
  bool narrowsWeights = false;
  /// Of each output, as reportOutputs() judged it.
  std::vector<reference::OutputError> errors;
  int64_t longestReduction = 1;
  /// Of each output, the error that the storage-rounding mode makes as a rule;
  /// none where `declared` is a good enough estimate of all.
  std::vector<reference::ErrorDeviation> sampled;
  /// Of each output, the error of a rewrite that no rounding explains.
  llvm::SmallVector<std::optional<double>> rewriteErrors;
  /// The graph op by op, made where a report asks for it.
  struct Trace {
    OpValues wanted, predicted, magnitudes;
    std::vector<InstrumentedOp> ops;
    /// The first overflow under the declared types.
    std::optional<Overflow> overflow;
    /// Whether `actual` holds the values of `ops`.
    bool instrumented = false;
  };
  std::optional<Trace> trace;
  ResultFaults faults;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_CHECKER_H
