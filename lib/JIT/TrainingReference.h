//===- TrainingReference.h - float64 oracle of a training step --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interprets a part of a training step: in float64, and with the roundings that
// the policy's graph declares. Uses LLVM; internal.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_TRAININGREFERENCE_H
#define MPC_LIB_JIT_TRAININGREFERENCE_H

#include "Compiler.h"
#include "OpTrace.h"

#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Runtime/Buffer.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mpc {

/// Two graphs of one part of a training step, both after stage loss-scale: that
/// of policy float32, executed in float64, and that of the given policy,
/// executed as declared. Both use the same loss scale, a power of two, which is
/// exact in float64, and the same decision to skip the step, which depends on
/// overflow in the declared types, not on rounding. All data-parallel ranks are
/// executed together, each with complete parameters and states: if an optimizer
/// is sharded, the caller concatenates the shards. Not thread-safe.
class TrainingOracle {
public:
  /// Arguments of one rank by name.
  using Arguments = std::map<std::string, Buffer>;

  /// A result in both modes, and the magnitudes of the terms of its elements
  /// (TermMagnitudes); zeros for integers.
  struct Answer {
    std::string name;
    reference::Tensor exact, declared, magnitudes;
  };

  /// Builds both graphs of the model file `path`. `options.training` must be
  /// set. Fails if a stage fails.
  static Result<TrainingOracle> create(const std::string &path,
                                       const CompileOptions &options);

  /// Returns the results that both graphs have, in the order of the policy's,
  /// from the arguments of the policy's graph by name, which include the
  /// initial state of the step. Fails if one is missing or has another type.
  Result<std::vector<Answer>> run(const Arguments &arguments);
  /// The same for all ranks of a data-parallel part; `ranks` has one entry for
  /// each rank in the options.
  Result<std::vector<std::vector<Answer>>> run(llvm::ArrayRef<Arguments> ranks);

  /// Communication error of one gradient in the last run().
  struct CommunicationError {
    /// The parameter's name.
    std::string parameter;
    /// Type of the all-reduce.
    mlir::Type type;
    /// RMS relative error of the reduced gradient against the sum of each
    /// rank's gradient before rounding to that type.
    double rmsRelativeError = 0;
  };
  const std::vector<CommunicationError> &communicationErrors() const {
    return onWire;
  }

  /// Replaces answers by values recomputed from the device's `results`, by
  /// name, where the prediction of one rounded run is a poor reference:
  ///
  /// - with strict rounding, the loss, recomputed from the device's outputs.
  ///   Errors of many elements average out; the error of a single number may be
  ///   near zero by chance.
  /// - parameters, recomputed from the device's new optimizer state
  ///   (`momentum`, `exp_avg`) after solving for the gradient: Adam divides by
  ///   the root of its state, so that rounding a gradient near 0 becomes a
  ///   full-length step.
  ///
  /// Outputs and states are checked separately. Answers are unchanged if the
  /// loss reads no output, if the state does not determine the gradient, or if
  /// a finite answer would become non-finite.
  void follow(const Arguments &arguments, const Arguments &results,
              std::vector<Answer> &answers);

  /// Returns the op of the policy's graph that computes the first value that is
  /// non-finite where float64's is finite; `arguments` are those of one rank,
  /// as for run(). Builds both graphs again. Nullopt if the declared types do
  /// not explain such a value.
  Result<std::optional<Overflow>> firstOverflow(const Arguments &arguments);

  /// Number of terms of the longest reduction in the policy's graph.
  int64_t longestReduction() {
    return reference::longestReduction(Compiler::entry(*declared.module));
  }

  /// Exclusive upper bound of the integers of argument `name`; 0 if unknown.
  int64_t integerBound(const std::string &name);

private:
  /// A graph and its context.
  struct Graph {
    Graph() = default;
    Graph(Graph &&) = default;
    /// The old module is destroyed before its context.
    Graph &operator=(Graph &&other) noexcept {
      module = std::move(other.module);
      compiler = std::move(other.compiler);
      numbers = std::move(other.numbers);
      return *this;
    }

    std::unique_ptr<Compiler> compiler;
    Compiler::Module module;
    /// Single-element results of the last run, of the first rank, by value.
    std::map<const void *, reference::Tensor> numbers;
  };
  using Named = std::map<std::string, reference::Tensor>;
  using RankTensors = llvm::SmallVector<llvm::SmallVector<reference::Tensor>>;
  using Observer = decltype(reference::InterpretOptions::observer);

  /// With `numbered`, ops have the numbers from before stage precision, which
  /// are the same for every policy.
  static Result<Graph> makeGraph(const std::string &path,
                                 const CompileOptions &options,
                                 bool numbered = false);
  /// Returns the arguments of `graph` as tensors.
  static Result<std::vector<reference::Tensor>>
  argumentsOf(Graph &graph, const Arguments &values);
  /// Returns the arguments of all ranks.
  static Result<RankTensors> argumentsOf(Graph &graph,
                                         llvm::ArrayRef<Arguments> ranks);
  static Result<std::vector<Named>> interpret(Graph &graph,
                                              reference::Rounding rounding,
                                              const RankTensors &arguments,
                                              const Observer &observer = {});

  Graph exact, declared;
  std::vector<CommunicationError> onWire;
  std::string path;
  CompileOptions exactOptions, declaredOptions;
};

/// Returns the name of an argument or result; all of a training step have one.
std::string nameIn(mlir::DictionaryAttr attributes);

} // namespace mpc

#endif // MPC_LIB_JIT_TRAININGREFERENCE_H
