//===- TrainingOracle.h - what a training step should give ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part of a training step in the interpreter: in float64, and with the
// roundings that the policy's graph declares. Knows LLVM; internal.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_TRAININGORACLE_H
#define MPC_LIB_JIT_TRAININGORACLE_H

#include "CarriedPrecision.h"
#include "Compiler.h"

#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Runtime/Buffer.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mpc {

/// Two graphs of one part of a training step, both behind stage loss-scale:
/// that of policy float32, which is executed in float64, and that of the given
/// policy, which is executed as declared. Neither has run through stage
/// simplify, so that no rewrite is in its own reference or tolerance: the types
/// that the policy gave the simplified graph are carried back. (The messages of
/// several ranks, and narrow weights, have no counterpart there; the policy's
/// own graph is executed then.) The loss scale is the same in both; a power of
/// two changes nothing in float64. So is whether the step is skipped: that is
/// no matter of rounding, but of what overflows in the declared types. Of a
/// part that ranks run together all are executed at once, each with whole
/// parameters and states: where an optimizer is sharded, whoever has results
/// puts its pieces together. Not thread-safe.
class TrainingOracle {
public:
  /// Values of one rank by name.
  using Arguments = std::map<std::string, Buffer>;

  /// A result in both modes, and the magnitudes of the terms of its elements
  /// (TermMagnitudes); zeros for integers.
  struct Answer {
    std::string name;
    reference::Tensor exact, declared, magnitudes;
  };

  /// Makes both graphs of the model in the file `path`. `options.training` must
  /// be set. Fails where a stage fails.
  static Result<TrainingOracle> create(const std::string &path,
                                       const CompileOptions &options);

  /// The results that both graphs have, in the order of the policy's, from the
  /// arguments of the policy's graph by name: the state that a step begins
  /// with. Fails where one is missing or has another type.
  Result<std::vector<Answer>> run(const Arguments &arguments);
  /// The same for each of the ranks that run the part together, as many as
  /// `ranks` has entries and the options say.
  Result<std::vector<std::vector<Answer>>> run(llvm::ArrayRef<Arguments> ranks);

  /// What sending one gradient among ranks cost in the last run().
  struct WireError {
    /// The parameter's name.
    std::string parameter;
    /// The type in which it is sent.
    mlir::Type type;
    /// Of the sum that optimizers read against the sum of what each rank had
    /// before it rounded to that type.
    double rmsRelativeError = 0;
  };
  const std::vector<WireError> &wireErrors() const { return onWire; }

  /// Replaces answers by what follows from results of a device, `results` by
  /// name, where a prediction from one run of roundings is worth little:
  ///
  /// - under strict rounding, the loss by that of the device's outputs. Errors
  ///   of many elements average out; the error of one number may be next to
  ///   nothing by chance.
  /// - parameters by those that the update makes of the device's new state
  ///   (`momentum`, `exp_avg`), from which the gradient is taken back: Adam
  ///   divides by the root of its state, so that roundings of a gradient next
  ///   to 0 become a step of full length.
  ///
  /// Outputs and states are judged by themselves. Answers stay as they are
  /// where the loss reads no output, or no state gives the gradient back, and
  /// where a finite answer would cease to be so.
  void follow(const Arguments &arguments, const Arguments &results,
              std::vector<Answer> &answers);

  /// The op of the policy's graph that makes the first value that is not finite
  /// where that of float64 is, `arguments` as for run(), of one rank. Makes
  /// both graphs again. Nothing where the declared types explain no such value.
  Result<std::optional<Overflow>> firstOverflow(const Arguments &arguments);

  /// Number of terms of the longest sum in the policy's graph.
  int64_t longestReduction() {
    return reference::longestReduction(Compiler::entry(*declared.module));
  }

  /// Integers of the argument `name` must lie in [0, bound); 0 where nothing is
  /// known.
  int64_t integerBound(const std::string &name);

private:
  /// A graph with its context.
  struct Graph {
    Graph() = default;
    Graph(Graph &&) = default;
    /// The old module goes before its context.
    Graph &operator=(Graph &&other) noexcept {
      module = std::move(other.module);
      compiler = std::move(other.compiler);
      return *this;
    }

    std::unique_ptr<Compiler> compiler;
    Compiler::Module module;
  };
  /// Functions of the policy's compiler before loss scaling, without stage
  /// simplify, with it, and behind stage precision (carryPrecision).
  struct Stages {
    Compiler::Module imported, simplified, typed;
  };
  using Named = std::map<std::string, reference::Tensor>;
  using RankTensors = llvm::SmallVector<llvm::SmallVector<reference::Tensor>>;
  using Observer = decltype(reference::InterpretOptions::observer);

  /// The model in the file `path` behind stage lift.
  static Result<Graph> makeGraph(const std::string &path,
                                 const CompileOptions &options);
  /// Runs the remaining stages of `declared` and keeps `stages` on the way.
  Status finishDeclared();
  /// The imported graph with the types that suit one rank's `values`.
  Result<Compiler::Module> carryTypes(const Arguments &values);
  /// The values of the arguments of `entry`.
  static Result<std::vector<reference::Tensor>>
  argumentsOf(mlir::func::FuncOp entry, const Arguments &values);
  /// The arguments of all ranks.
  static Result<RankTensors> argumentsOf(mlir::func::FuncOp entry,
                                         llvm::ArrayRef<Arguments> ranks);
  /// Executes a function of `compiler`.
  static Result<std::vector<Named>> interpret(Compiler &compiler,
                                              mlir::func::FuncOp entry,
                                              reference::Rounding rounding,
                                              const RankTensors &arguments,
                                              const Observer &observer);

  Graph exact, declared;
  /// Of `declared`; null where types are not carried.
  std::optional<Stages> stages;
  /// Results of one element of the last run of `exact`, by value; the first
  /// rank's.
  std::map<const void *, reference::Tensor> exactNumbers;
  std::vector<WireError> onWire;
  std::string path;
  CompileOptions exactOptions, declaredOptions;
};

/// The name of an argument or result, which a step's all have.
std::string nameIn(mlir::DictionaryAttr attributes);

} // namespace mpc

#endif // MPC_LIB_JIT_TRAININGORACLE_H
