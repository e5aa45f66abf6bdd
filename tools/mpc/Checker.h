//===- Checker.h - implementation of mpc check ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_CHECKER_H
#define MPC_TOOLS_MPC_CHECKER_H

#include "Commands.h"
#include "FaultReport.h"
#include "InstrumentOps.h"
#include "NamedArrays.h"

#include "JIT/Compiler.h"
#include "JIT/PrecisionTransfer.h"

#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"

namespace mpc::tool {

/// State of one `mpc check`.
class ModelCheck {
public:
  explicit ModelCheck(const CheckArguments &arguments)
      : arguments(arguments),
        reporter(arguments.common.json, arguments.common.quiet) {}
  int run();

private:
  Status prepare();
  std::vector<Status> bind();
  Status interpretModel();
  /// Runs the storage-rounding mode on the predictor, a copy of `imported` with
  /// the types of the module.
  Status predict(const ObservedGraph &imported);
  /// Compares the simplified graph in float64, observed by `observer`, with the
  /// imported one, within the precision of the model's own types; records
  /// deviations.
  Status checkRewrites(OpObserver observer = {});
  /// Makes the graph with quantized weights, if any, the reference.
  Status narrowReference();
  Status compileAndRun();
  reference::OutputError judge(size_t output) const;
  /// Error of quantized weights in an output, relative rms.
  double weightsError(size_t output) const {
    return ownWeights.empty() || !reference[output].isFloat()
               ? 0
               : reference::rmsRelativeError(reference[output],
                                             ownWeights[output]);
  }
  /// Diagnoses errors over tolerance: a rewrite; or chance, for outputs that
  /// have few elements or exceed only the componentwise tolerance, whose errors
  /// are estimated again from more samples.
  Status explainErrors();
  Status compareExpected(Json &document, bool &ok);
  /// Runs both modes of the oracle on numbered ops.
  Status traceOps();
  /// The same, relative to the terms of each element.
  double weightsComponentError(size_t output) const {
    return ownWeights.empty() || !reference[output].isFloat()
               ? 0
               : reference::componentwiseError(
                     reference[output], ownWeights[output], magnitudes[output]);
  }
  /// Appends the initial loss-scale state of a training step to the inputs.
  Status makeInitialState();
  /// Compiles and runs with the result of every op as an output.
  Status runInstrumented();
  Status checkOps(Json &document, bool &ok);
  /// Reports unexpected non-finite values, and the first op that computed one.
  Status reportFiniteness(Json &document);
  void reportOutputs(Json &document, bool &ok);
  /// With f32 only, integers must be exact.
  bool exactIntegers() const {
    return options.policy == "float32" && options.sets.empty();
  }
  /// True if the policy's types or weights may explain an error.
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
  /// Graph of the storage-rounding mode: the imported graph with the types of
  /// the module's ops. For a training step with an added loss scale the module
  /// itself, since gradients are rounded at that scale.
  Compiler::Module predictor;
  /// After stage simplify.
  Compiler::Module simplified;
  std::vector<ProgramValue> outputs;
  std::vector<Buffer> inputs;
  std::vector<reference::Tensor> inputTensors;
  std::vector<reference::Tensor> reference, declared, actual;
  /// Magnitudes of the terms of each output's elements.
  llvm::SmallVector<reference::Tensor> magnitudes;
  /// Results with the original weights in float64; empty unless the policy
  /// quantizes weights.
  std::vector<reference::Tensor> ownWeights;
  /// True for each output that depends on a value in a narrow type.
  llvm::SmallVector<bool> rounded;
  /// True if the policy quantizes weights.
  bool narrowsWeights = false;
  /// Error of each output, from reportOutputs().
  std::vector<reference::OutputError> errors;
  int64_t longestReduction = 1;
  /// Typical error of the storage-rounding mode for each output; empty if
  /// `declared` is a sufficient estimate for all.
  std::vector<reference::ErrorDeviation> sampled;
  /// Error of a rewrite for each output, if rounding does not explain it.
  llvm::SmallVector<std::optional<double>> rewriteErrors;
  /// Op-by-op comparison, computed on demand.
  struct Trace {
    OpValues wanted, predicted, magnitudes;
    std::vector<InstrumentedOp> ops;
    /// First overflow under the declared types.
    std::optional<Overflow> overflow;
    /// True if `actual` contains the values of `ops`.
    bool instrumented = false;
  };
  std::optional<Trace> trace;
  FaultReport faults;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_CHECKER_H
