//===- TypeSpace.h - what a tuned policy chooses ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The choices of one function: the type of each product and the form of its
// weights, and for each named value whether it is stored in 16 bits. A choice
// is a policy, so that what the search looks at is what a compile does.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_TYPESPACE_H
#define MPC_TUNING_TYPESPACE_H

#include "mpc/Analysis/PlanningFacts.h"
#include "mpc/Analysis/PrecisionPlan.h"
#include "mpc/Tuning/BudgetSearch.h"
#include "mpc/Tuning/KernelTimes.h"
#include "mpc/Tuning/Sensitivity.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// What a search makes little.
enum class TuningObjective {
  Bytes,  ///< that kernels move
  Time,   ///< by the target's ceilings: bytes, and products in their types
  Memory, ///< of constants, and of values between kernels where it is most
};

/// "bytes", "time", "memory"; nothing for another word.
std::optional<TuningObjective> parseTuningObjective(llvm::StringRef text);
llvm::StringRef stringify(TuningObjective objective);

/// What a choice may cost, as a share of what float32 does.
struct CostBudget {
  TuningObjective objective = TuningObjective::Time;
  double share = 1;

  /// "time 0.6x", "bytes 0.5x", "memory 0.7x"; nothing where the text begins
  /// with no objective.
  static llvm::Expected<std::optional<CostBudget>> parse(llvm::StringRef text);
  std::string text() const;
};

class TypeSpace {
public:
  /// Ops that share a name have one type, those without one keep f32. `types`
  /// are those that products may have beside f32; a product that has no such
  /// mode keeps away from tf32. `weights` are forms that constants may have
  /// where kernels of the target read them so. `base` is a policy of
  /// basePolicy(), to which overrides and ranges may have been added. Fails
  /// with a diagnostic where the function cannot be planned.
  static mlir::FailureOr<TypeSpace>
  create(mlir::func::FuncOp function, const FusionTarget &target,
         const Policy &base, llvm::ArrayRef<PolicyType> types,
         llvm::ArrayRef<WeightType> weights, TuningObjective objective);

  /// A policy with f32 products and values in a type of `types`; the rest is
  /// what mixed_float16 says.
  static Policy basePolicy(llvm::ArrayRef<PolicyType> types);

  /// Of a value the type in which it is stored; of a product what it
  /// multiplies, and how its weights are stored.
  struct Option {
    PolicyType type = PolicyType::Float32;
    WeightFormat weights = {};

    /// "float16", "float32 with weights in int8".
    std::string text() const;
  };
  /// Names and options of one variable.
  struct Variable {
    /// The first name of each of its ops.
    std::vector<std::string> names;
    /// f32 first; of a value f32 and the type of the policy's store.
    std::vector<Option> options;
    bool isProduct = false;
  };
  llvm::ArrayRef<Variable> getVariables() const { return variables; }
  /// What samples overflow in the 16 bits that it could have, so that it is no
  /// choice: a name and a sentence.
  struct Overflowing {
    std::string name, why;
  };
  llvm::ArrayRef<Overflowing> getOverflowing() const { return overflowing; }
  /// Products without a name, which have no variable.
  int64_t countUnnamed() const { return unnamed; }

  /// The policy of a choice; it says nothing of free variables.
  Policy policyOf(const Choice &choice) const;
  /// The 16-bit type of values, or float32.
  PolicyType getStore() const { return base.getStore(); }

  /// Has `sensitivity`, which is of this function and has seen no sample, look
  /// at every form of weights that is a choice.
  void considerWeights(Sensitivity &sensitivity) const;

  /// The variables as a search asks for them, with `errors` of this function;
  /// it begins from what mixed_float16 and mixed_bfloat16 choose, as far as
  /// their types are allowed. Both must outlive what it returns.
  SearchSpace searchSpace(const RoundingErrors &errors) const;

  /// Of each product whose weights have a form of their own in a choice, the
  /// squared error that this brings.
  using WeightErrors = std::vector<std::pair<mlir::Operation *, double>>;
  WeightErrors weightErrors(const Choice &choice,
                            const RoundingErrors &errors) const;

  /// The variables by the names that kernels have of their ops.
  std::vector<KernelTimes::Variable> timedVariables() const;

  /// What one policy costs, in bytes, seconds or bytes of memory, where
  /// weights are stored as `choice` says.
  double costOf(const PrecisionPlan &plan, const Choice &choice) const;
  const FusionTarget &getTarget() const { return target; }
  mlir::func::FuncOp getFunction() const { return function; }

private:
  PricedChoice plan(const Choice &choice, double price,
                    const RoundingErrors &errors) const;
  void addVariables(const PrecisionPlan &plan, llvm::ArrayRef<PolicyType> types,
                    llvm::ArrayRef<WeightType> weights);
  void addWeights(Variable &variable, llvm::ArrayRef<WeightType> weights,
                  llvm::ArrayRef<mlir::Operation *> products) const;
  /// The forms of weights that are not those that products multiply, by op.
  using Forms = llvm::MapVector<mlir::Operation *, Option>;
  Forms formsOf(const Choice &choice) const;
  /// What `forms` change of the bytes that move, and of those that stand in
  /// memory.
  int64_t movedBy(const PrecisionPlan &plan, const Forms &forms) const;
  int64_t keptBy(const PrecisionPlan &plan, const Forms &forms) const;
  /// The name by which a policy speaks of `op`, which has one.
  std::string nameOf(mlir::Operation *op) const;
  /// Notes what leaves kernels and is kept in f32 because samples overflow.
  void noteOverflowing(const PrecisionPlan &plan);
  /// The choice that is next to what mixed_float16 with another type of
  /// products does; nothing where that cannot be planned.
  std::optional<Choice> choiceOfMixed(PolicyType compute) const;

  mlir::func::FuncOp function;
  FusionTarget target;
  std::shared_ptr<const PlanningFacts> facts;
  std::vector<PolicyType> types;
  TuningObjective objective = TuningObjective::Bytes;
  Policy base;
  std::vector<Variable> variables;
  std::vector<Overflowing> overflowing;
  /// Ops of a backward pass, which are variables of their own.
  llvm::DenseSet<mlir::Operation *> backward;
  int64_t unnamed = 0;
  /// Of each variable that is a value, the values; of a product, its ops.
  std::vector<llvm::SmallVector<mlir::Value, 1>> valuesOf;
  std::vector<llvm::SmallVector<mlir::Operation *, 1>> productsOf;
};

} // namespace mpc

#endif // MPC_TUNING_TYPESPACE_H
