//===- PolicySearchSpace.h - search space of a tuned policy -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The options of one function: the type of each product, the format of its
// weights, and, for each named value, storage in 16 bits. A configuration is a
// policy, so the search evaluates exactly what a compile does.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_POLICYSEARCHSPACE_H
#define MPC_TUNING_POLICYSEARCHSPACE_H

#include "mpc/Analysis/PlanningAnalyses.h"
#include "mpc/Analysis/PrecisionPlan.h"
#include "mpc/Tuning/BudgetSearch.h"
#include "mpc/Tuning/KernelTimeModel.h"
#include "mpc/Tuning/Sensitivity.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// Objective that a search minimizes.
enum class TuningObjective {
  Bytes,  ///< memory traffic of kernels
  Time,   ///< roofline of the target: bytes, and products in their types
  Memory, ///< constants, and the peak of values between kernels
};

/// "bytes", "time", "memory"; nullopt for other text.
std::optional<TuningObjective> parseTuningObjective(llvm::StringRef text);
llvm::StringRef stringify(TuningObjective objective);

/// Cost limit, as a share of float32's cost or as the size of the weights.
struct CostBudget {
  TuningObjective objective = TuningObjective::Time;
  double share = 1;
  /// Mean size of the tuned weights with their scales, in bits; `share` is its
  /// share of 32, and applies to the bytes of these weights.
  std::optional<double> bits = {};

  /// "time 0.6x", "bytes 0.5x", "memory 0.7x", "bits 4.5"; nullopt if the text
  /// does not start with an objective or "bits".
  static llvm::Expected<std::optional<CostBudget>> parse(llvm::StringRef text);
  std::string text() const;
};

/// A recipe that quantizes the operands of contractions.
struct OperandRecipe {
  /// As in --types: "mxfp8", "row:int8".
  std::string name;
  /// Of a stored number, and its significand.
  int bits = 8, significantBits = 4;
  /// Units that multiply the numbers; nullopt if they are multiplied as bf16.
  std::optional<MathType> unit = {};
  /// The contractions that have it.
  llvm::DenseSet<mlir::Operation *> ops;
};

class PolicySearchSpace {
public:
  /// Ops that share a name have one type, those without one keep f32. `types`
  /// are the compute types of products besides f32; a product without a tf32
  /// mode is not offered it. `weights` are the formats of constants, if the
  /// target's kernels support them, from the most precise to the least.
  /// `recipe` is another option of its contractions, which multiply bf16.
  /// `base` is a policy of basePolicy(), possibly with overrides and ranges.
  /// Reports a function that cannot be planned.
  static mlir::FailureOr<PolicySearchSpace>
  create(mlir::func::FuncOp function, const CastFusionTarget &target,
         const Policy &base, llvm::ArrayRef<PolicyType> types,
         llvm::ArrayRef<WeightFormat> weights, TuningObjective objective,
         std::optional<OperandRecipe> recipe = {});

  /// Returns a policy with f32 products and values stored in a type of `types`;
  /// otherwise that of mixed_float16.
  static Policy basePolicy(llvm::ArrayRef<PolicyType> types);

  /// For a value its storage type; for a product its compute type, and the
  /// format of its weights or the recipe of its operands.
  struct Option {
    PolicyType type = PolicyType::Float32;
    WeightFormat weights = {};
    /// Name of the recipe; empty if operands are not quantized.
    std::string recipe = {};

    /// Whether there is only a type.
    bool isPlain() const { return !weights.isNarrow() && recipe.empty(); }
    /// "float16", "float32 with weights in int8", "mxfp8".
    std::string text() const;
  };
  /// Names and options of one variable.
  struct Variable {
    /// The first name of each of its ops.
    std::vector<std::string> names;
    /// f32 first; for a value f32 and the type of the policy's store.
    std::vector<Option> options;
    bool isProduct = false;
  };
  llvm::ArrayRef<Variable> getVariables() const { return variables; }
  /// A value or product excluded from the options because samples overflow the
  /// 16-bit type: name and explanation.
  struct Overflowing {
    std::string name, why;
  };
  llvm::ArrayRef<Overflowing> getOverflowing() const { return overflowing; }
  /// Number of products without a name, which have no variable.
  int64_t countUnnamed() const { return unnamed; }

  /// Returns the policy of a configuration, without entries for free variables.
  Policy policyOf(const Choice &choice) const;
  /// The 16-bit type of values, or float32.
  PolicyType getStore() const { return base.getStore(); }

  /// Registers every weight format among the options with `sensitivity`, which
  /// has no samples yet. `opOf` returns the op of its function for one of this
  /// function, or null.
  void considerWeights(
      Sensitivity &sensitivity,
      llvm::function_ref<mlir::Operation *(mlir::Operation *)> opOf) const;

  /// Number of weights whose format is a variable, and their bytes, with
  /// scales, in a configuration.
  int64_t countWeights() const;
  double weightBytes(const Choice &choice) const;
  /// The same of one variable; 0 if it has no weight formats.
  int64_t countWeights(size_t variable) const;
  double weightBytes(size_t variable, const Option &option) const;

  /// Returns the configurations with one weight format, where a product has it,
  /// and its next more precise option elsewhere.
  std::vector<Choice> uniformWeights() const;

  /// Returns the search problem, with `errors` of this function; starts from
  /// the configurations of mixed_float16 and mixed_bfloat16, as far as their
  /// types are allowed. Both must outlive the result.
  BudgetSearchProblem searchSpace(const RoundingErrorModel &errors) const;

  /// Returns the squared error of each product with quantized weights or
  /// operands in a configuration.
  std::vector<QuantizedError>
  quantizedErrors(const Choice &choice, const RoundingErrorModel &errors) const;

  /// The variables by the names that kernels have for their ops.
  std::vector<KernelTimeModel::Variable> timedVariables() const;

  /// Returns the cost of a plan, in bytes, seconds or bytes of memory, with the
  /// weight formats of `choice`.
  double costOf(const PrecisionPlan &plan, const Choice &choice) const;
  const CastFusionTarget &getTarget() const { return target; }
  const std::optional<OperandRecipe> &getRecipe() const { return recipe; }
  mlir::func::FuncOp getFunction() const { return function; }

private:
  PricedConfiguration plan(const Choice &choice, double price,
                           const RoundingErrorModel &errors) const;
  void addVariables(const PrecisionPlan &plan, llvm::ArrayRef<PolicyType> types,
                    llvm::ArrayRef<WeightFormat> weights);
  void addWeights(Variable &variable, llvm::ArrayRef<WeightFormat> weights,
                  llvm::ArrayRef<mlir::Operation *> products) const;
  /// Options with quantized weights or operands, by op.
  using Forms = llvm::MapVector<mlir::Operation *, Option>;
  Forms formsOf(const Choice &choice) const;
  /// Bytes of the weights of `op`, and the squared error of the option.
  int64_t bytesOf(mlir::Operation *op, const Option &option) const;
  double errorOf(mlir::Operation *op, const Option &option,
                 const RoundingErrorModel &errors) const;
  /// Change by `forms` of the memory traffic, and of the memory size, in bytes.
  int64_t movedBy(const PrecisionPlan &plan, const Forms &forms) const;
  int64_t keptBy(const PrecisionPlan &plan, const Forms &forms) const;
  /// The name by which a policy refers to `op`, which has one.
  std::string nameOf(mlir::Operation *op) const;
  /// Records values between kernels that stay in f32 because samples overflow.
  void noteOverflowing(const PrecisionPlan &plan);
  /// Returns the configuration nearest to mixed_float16 with another type of
  /// products; nullopt if that cannot be planned.
  std::optional<Choice> choiceOfMixed(PolicyType compute) const;

  mlir::func::FuncOp function;
  CastFusionTarget target;
  std::shared_ptr<const PlanningAnalyses> facts;
  std::vector<PolicyType> types;
  TuningObjective objective = TuningObjective::Bytes;
  Policy base;
  std::optional<OperandRecipe> recipe;
  std::vector<Variable> variables;
  std::vector<Overflowing> overflowing;
  /// Ops of a backward pass, which are separate variables.
  llvm::DenseSet<mlir::Operation *> backward;
  int64_t unnamed = 0;
  /// For each value variable its values; for each product its ops.
  std::vector<llvm::SmallVector<mlir::Value, 1>> valuesOf;
  std::vector<llvm::SmallVector<mlir::Operation *, 1>> productsOf;
};

} // namespace mpc

#endif // MPC_TUNING_POLICYSEARCHSPACE_H
