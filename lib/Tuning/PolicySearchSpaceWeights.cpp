//===- PolicySearchSpaceWeights.cpp - weight formats of a tuned policy ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/PolicySearchSpace.h"

#include "../Analysis/CastPlacementModel.h"

#include "mpc/Analysis/QuantizedWeightStorage.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

std::string PolicySearchSpace::Option::text() const {
  std::string text = stringify(type).str();
  if (weights.isNarrow())
    text += " with weights in " + stringify(weights.type).str();
  return text;
}

void PolicySearchSpace::addWeights(Variable &variable,
                                   ArrayRef<WeightType> weights,
                                   ArrayRef<Operation *> products) const {
  // After the types, narrowest last.
  size_t types = variable.options.size();
  for (WeightType form :
       {WeightType::Int16, WeightType::BFloat16, WeightType::Float16,
        WeightType::Float8, WeightType::Int8, WeightType::Int4}) {
    if (!llvm::is_contained(weights, form))
      continue;
    WeightFormat format;
    format.type = form;
    for (size_t i = 0; i < types; ++i) {
      PolicyType type = variable.options[i].type;
      if (llvm::all_of(products, [&](Operation *op) {
            return readsQuantizedWeights(op, type, format, target);
          }))
        variable.options.push_back({type, format});
    }
  }
}

void PolicySearchSpace::considerWeights(Sensitivity &sensitivity) const {
  for (auto [variable, products] : llvm::zip_equal(variables, productsOf))
    for (const Option &option : variable.options)
      for (Operation *op : products)
        if (option.weights.isNarrow())
          sensitivity.consider(op,
                               {option.weights, significantBits(option.type)});
}

PolicySearchSpace::Forms
PolicySearchSpace::formsOf(const Choice &choice) const {
  Forms forms;
  for (size_t i = 0; i < variables.size(); ++i)
    if (variables[i].isProduct)
      if (const Option &option = variables[i].options[choice[i]];
          option.weights.isNarrow())
        for (Operation *op : productsOf[i])
          forms[op] = option;
  return forms;
}

PolicySearchSpace::WeightErrors
PolicySearchSpace::weightErrors(const Choice &choice,
                                const RoundingErrorModel &errors) const {
  WeightErrors found;
  for (const auto &[op, option] : formsOf(choice))
    found.emplace_back(
        op, errors.ofWeights(op, option.weights, significantBits(option.type)));
  return found;
}

/// Bytes per element of a constant as `use` reads it.
static int64_t bytesRead(const PrecisionPlan &plan, OpOperand &use) {
  return readingOf(plan, use).kind == OperandReading::Kind::Narrow ? 2 : 4;
}

int64_t PolicySearchSpace::movedBy(const PrecisionPlan &plan,
                                   const Forms &forms) const {
  int64_t change = 0;
  for (const auto &[op, option] : forms) {
    OpOperand &use = op->getOpOperand(1);
    change += storedBytes(op, option.weights) -
              elementCount(use.get()) * bytesRead(plan, use);
  }
  return change;
}

int64_t PolicySearchSpace::keptBy(const PrecisionPlan &plan,
                                  const Forms &forms) const {
  llvm::SmallSetVector<Value, 8> constants;
  for (const auto &[op, option] : forms)
    constants.insert(op->getOperand(1));
  int64_t change = 0;
  for (Value constant : constants) {
    // Count each type and each format once.
    llvm::SmallSetVector<int64_t, 2> before, after;
    llvm::SmallSetVector<std::pair<int, int>, 2> stored;
    for (OpOperand &use : constant.getUses()) {
      int64_t bytes = bytesRead(plan, use);
      before.insert(bytes);
      auto form = forms.find(use.getOwner());
      if (form == forms.end() || use.getOperandNumber() != 1) {
        after.insert(bytes);
        continue;
      }
      const Option &option = form->second;
      if (stored.insert(
              {int(option.weights.type), significantBits(option.type)}))
        change += storedBytes(use.getOwner(), option.weights);
    }
    for (int64_t bytes : before)
      change -= bytes * elementCount(constant);
    for (int64_t bytes : after)
      change += bytes * elementCount(constant);
  }
  return change;
}
