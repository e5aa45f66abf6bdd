//===- PolicySearchSpace.cpp - search space of a tuned policy -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/PolicySearchSpace.h"
#include "../Analysis/CastPlacementModel.h"
#include "../Analysis/MeasuredRanges.h"
#include "mpc/Analysis/BackwardOps.h"
#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/PlannedRoundings.h"
#include "mpc/Analysis/QuantizedWeightStorage.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mpc;

static bool isNarrowPolicyType(PolicyType type) {
  return storageBits(type) < 32;
}

StringRef mpc::stringify(TuningObjective objective) {
  switch (objective) {
  case TuningObjective::Bytes:
    return "bytes";
  case TuningObjective::Time:
    return "time";
  case TuningObjective::Memory:
    return "memory";
  }
  llvm_unreachable("an objective without a name");
}

std::optional<TuningObjective> mpc::parseTuningObjective(StringRef text) {
  for (TuningObjective objective :
       {TuningObjective::Bytes, TuningObjective::Time, TuningObjective::Memory})
    if (text == stringify(objective))
      return objective;
  return std::nullopt;
}

llvm::Expected<std::optional<CostBudget>> CostBudget::parse(StringRef text) {
  auto [name, number] = text.trim().split(' ');
  if (name == "bits") {
    CostBudget budget{TuningObjective::Bytes, 1, 0};
    if (number.trim().getAsDouble(*budget.bits) ||
        !(*budget.bits > 0 && *budget.bits <= 32))
      return llvm::createStringError(
          llvm::inconvertibleErrorCode(),
          "'" + text +
              "' is not a number of bits per weight above 0 and up to 32; use "
              "\"bits 4.5\"");
    budget.share = *budget.bits / 32;
    return budget;
  }
  std::optional<TuningObjective> objective = parseTuningObjective(name);
  if (!objective)
    return std::nullopt;
  CostBudget budget{*objective, 0};
  number = number.trim();
  if (!number.consume_back("x") || number.getAsDouble(budget.share) ||
      !(budget.share > 0 && budget.share <= 1))
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "'" + text + "' is not a fraction of float32's " + name +
            " above 0x and up to 1x; use \"" + name + " 0.6x\"");
  return budget;
}

std::string CostBudget::text() const {
  std::string text;
  if (bits) {
    llvm::raw_string_ostream(text) << llvm::format("bits %g", *bits);
    return text;
  }
  llvm::raw_string_ostream(text)
      << stringify(objective) << ' ' << llvm::format("%g", share) << 'x';
  return text;
}

Policy PolicySearchSpace::basePolicy(ArrayRef<PolicyType> types) {
  PolicyType store = PolicyType::Float32;
  // Prefer f16, which is more accurate in its range.
  for (PolicyType type : {PolicyType::BFloat16, PolicyType::Float16})
    if (llvm::is_contained(types, type))
      store = type;
  std::string text = R"({"name": "tuned", "extends": "mixed_float16",
                         "compute": "float32", "store": ")" +
                     stringify(store).str() + "\"}";
  return llvm::cantFail(Policy::parse(text, "tuned"));
}

FailureOr<PolicySearchSpace> PolicySearchSpace::create(
    func::FuncOp function, const CastFusionTarget &target, const Policy &base,
    ArrayRef<PolicyType> types, ArrayRef<WeightFormat> weights,
    TuningObjective objective, std::optional<OperandRecipe> recipe) {
  PolicySearchSpace space;
  space.function = function;
  space.target = target;
  space.objective = objective;
  space.base = base;
  space.recipe = std::move(recipe);
  space.types.assign(types.begin(), types.end());
  space.facts = std::make_shared<const PlanningAnalyses>(function, target);
  FailureOr<PrecisionPlan> plan = PrecisionPlan::create(
      function, space.base, target, CastPlacement::MinimumCut);
  if (failed(plan))
    return failure();
  space.addVariables(*plan, types, weights);
  return space;
}

/// Returns true if the policy's type of products decides about `op`.
static bool isTunable(const PrecisionPlan &plan, Operation *op) {
  if (!plan.hasPlan(op))
    return false;
  const OpPlan &opPlan = plan.getPlan(op);
  return opPlan.role == OpPlan::Role::Multiply && !opPlan.isForced() &&
         opPlan.cls == PrecisionClass::Low;
}

std::string PolicySearchSpace::nameOf(Operation *op) const {
  StringRef prefix =
      backward.contains(op) ? Policy::kBackward : StringLiteral("");
  return (prefix + opNames(op).front()).str();
}

void PolicySearchSpace::addVariables(const PrecisionPlan &plan,
                                     ArrayRef<PolicyType> types,
                                     ArrayRef<WeightFormat> weights) {
  PolicyType store = base.getStore();
  backward = findBackward(function);
  // Ops of one pass that share a name are one variable.
  using Name = std::pair<unsigned, StringRef>;
  llvm::EquivalenceClasses<Name> classes;
  Block &body = function.getBody().front();
  for (Operation &op : body) {
    SmallVector<StringRef> names = opNames(&op);
    bool isBackward = backward.contains(&op);
    for (StringRef name : names)
      classes.unionSets({isBackward, names.front()}, {isBackward, name});
  }
  struct Group {
    SmallVector<Operation *, 1> products;
    SmallVector<Value, 1> values;
  };
  llvm::MapVector<Name, Group> groups;
  for (Operation &op : body) {
    SmallVector<StringRef> names = opNames(&op);
    unnamed += names.empty() && isTunable(plan, &op);
    if (names.empty() || isa<mpc::ConstantOp>(op))
      continue;
    Group &group =
        groups[classes.getLeaderValue({backward.contains(&op), names.front()})];
    if (isTunable(plan, &op))
      group.products.push_back(&op);
    for (Value result : op.getResults())
      if (plan.isEligible(result) && isNarrowPolicyType(store))
        group.values.push_back(result);
  }
  auto nameAll = [&](Variable &variable, Operation *op) {
    std::string name = nameOf(op);
    if (!llvm::is_contained(variable.names, name))
      variable.names.push_back(std::move(name));
  };
  for (auto &[leader, group] : groups) {
    if (group.products.empty())
      continue;
    Variable variable{{}, {Option()}, /*isProduct=*/true};
    bool hasMode = llvm::all_of(group.products, [](Operation *op) {
      return isa<ContractionOpInterface>(op);
    });
    for (PolicyType type :
         {PolicyType::TensorFloat32, PolicyType::BFloat16, PolicyType::Float16})
      if (llvm::is_contained(types, type) && (hasMode || !isComputeMode(type)))
        variable.options.push_back({type});
    addWeights(variable, weights, group.products);
    if (recipe && llvm::all_of(group.products, [&](Operation *op) {
          return recipe->ops.contains(op);
        }))
      variable.options.push_back({PolicyType::BFloat16, {}, recipe->name});
    for (Operation *op : group.products)
      nameAll(variable, op);
    if (variable.options.size() > 1) {
      variables.push_back(std::move(variable));
      valuesOf.emplace_back();
      productsOf.push_back(group.products);
    }
  }
  // Values that stay f32 whatever the policy are no variables: a semantic rule
  // fixes them.
  Policy narrow = base;
  for (auto &[leader, group] : groups)
    for (Value value : group.values)
      narrow.setValue(nameOf(value.getDefiningOp()), true);
  FailureOr<PrecisionPlan> narrowest = PrecisionPlan::create(
      function, narrow, target, CastPlacement::MinimumCut);
  noteOverflowing(plan);
  for (auto &[leader, group] : groups) {
    SmallVector<Value, 1> open;
    for (Value value : group.values)
      if (succeeded(narrowest) && isNarrow(narrowest->getStorage(value)) &&
          plan.getReason(value).bytesSaved > 0)
        open.push_back(value);
    if (open.empty())
      continue;
    Variable variable{{}, {Option(), Option{store}}, /*isProduct=*/false};
    for (Value value : group.values)
      nameAll(variable, value.getDefiningOp());
    variables.push_back(std::move(variable));
    valuesOf.push_back(std::move(open));
    productsOf.emplace_back();
  }
}

void PolicySearchSpace::noteOverflowing(const PrecisionPlan &plan) {
  MLIRContext *context = function.getContext();
  FloatType store = toFloatType(base.getStore(), context);
  auto note = [&](Operation *op, std::string why) {
    StringRef name = opName(op);
    bool isKnown = llvm::any_of(overflowing, [&](const Overflowing &known) {
      return known.name == name;
    });
    if (!why.empty() && !isKnown)
      overflowing.push_back({name.str(), std::move(why)});
  };
  for (Operation &op : function.getBody().front()) {
    if (opNames(&op).empty() || isa<mpc::ConstantOp>(op))
      continue;
    for (Value result : op.getResults())
      if (plan.isEligible(result) && isNarrow(store) &&
          plan.getReason(result).bytesSaved > 0)
        note(&op, measuredOverflow(base, result, store));
  }
}

Policy PolicySearchSpace::policyOf(const Choice &choice) const {
  Policy policy = base;
  for (auto [variable, option] : llvm::zip_equal(variables, choice)) {
    if (option == kFree)
      continue;
    for (const std::string &name : variable.names) {
      if (variable.isProduct)
        policy.setProduct(name, variable.options[option].type);
      else
        policy.setValue(name, option != 0);
    }
  }
  return policy;
}

/// Returns the type in which a product multiplies.
static PolicyType multiplies(const OpPlan &plan) {
  if (plan.mode == ComputeMode::tf32)
    return PolicyType::TensorFloat32;
  if (plan.compute.isF16())
    return PolicyType::Float16;
  return plan.compute.isBF16() ? PolicyType::BFloat16 : PolicyType::Float32;
}

double PolicySearchSpace::costOf(const PrecisionPlan &plan,
                                 const Choice &choice) const {
  Forms forms = formsOf(choice);
  double bytes = double(plan.placementBytes(function, target, facts.get()) +
                        movedBy(plan, forms));
  if (objective == TuningObjective::Bytes)
    return bytes;
  // Ties are broken by memory traffic.
  if (objective == TuningObjective::Memory)
    return double(plan.memoryBytes(function, *facts) + keptBy(plan, forms)) +
           1e-3 * bytes;
  double seconds = bytes / target.machine.bytesPerSecond();
  func::FuncOp func = function;
  for (Operation &op : func.getBody().front())
    if (plan.hasPlan(&op) && plan.getPlan(&op).role == OpPlan::Role::Multiply)
      if (auto priced = dyn_cast<CostOpInterface>(op)) {
        const auto *form = forms.find(&op);
        bool hasUnit =
            form != forms.end() && !form->second.recipe.empty() && recipe->unit;
        PolicyType type = multiplies(plan.getPlan(&op));
        double rate = target.machine.flopsPerSecond(type, /*aligned=*/true);
        if (hasUnit)
          rate = std::max(rate, target.machine.flopsPerSecond(
                                    *recipe->unit, /*aligned=*/true));
        seconds += double(priced.getFlops()) / rate;
      }
  return seconds;
}

PricedConfiguration
PolicySearchSpace::plan(const Choice &choice, double price,
                        const RoundingErrorModel &errors) const {
  Policy policy = policyOf(choice);
  // The minimum cut counts bytes, whatever the objective.
  bool isTime = objective == TuningObjective::Time;
  RoundingErrorPrices prices{
      errors, isTime ? price * target.machine.bytesPerSecond() : price,
      facts.get()};
  // A compile reports these diagnostics.
  func::FuncOp func = function;
  ScopedDiagnosticHandler silence(func.getContext(),
                                  [](Diagnostic &) { return success(); });
  FailureOr<PrecisionPlan> made = PrecisionPlan::create(
      function, policy, target, CastPlacement::MinimumCut, &prices);
  // create() has planned the same function before.
  if (failed(made))
    return {choice, INFINITY, INFINITY};
  PricedConfiguration priced{choice, 0, 0};
  bool comesApart = false;
  for (size_t i = 0; i < variables.size(); ++i)
    if (choice[i] == kFree) {
      size_t narrow = llvm::count_if(valuesOf[i], [&](Value value) {
        return isNarrow(made->getStorage(value));
      });
      priced.choice[i] = narrow == valuesOf[i].size();
      comesApart |= narrow != 0 && narrow != valuesOf[i].size();
    }
  // A 16-bit product that the planner keeps in f32, because samples overflow
  // its operands, has type f32.
  auto isKept = [&](Operation *op) {
    const OpPlan &product = made->getPlan(op);
    return !isNarrow(product.compute) && product.mode == ComputeMode::native;
  };
  for (size_t i = 0; i < variables.size(); ++i)
    if (variables[i].isProduct &&
        variables[i].options[priced.choice[i]].type != PolicyType::Float32 &&
        llvm::all_of(productsOf[i], isKept))
      priced.choice[i] = 0;
  // In a policy all ops of a name have one type.
  if (comesApart)
    return plan(priced.choice, 0, errors);
  priced.cost = costOf(*made, priced.choice);
  Forms forms = formsOf(priced.choice);
  for (const auto &[op, option] : forms)
    priced.error += errorOf(op, option, errors);
  forEachRounding(function, *made, [&](const PlannedRounding &rounding) {
    // Quantized numbers are exact in the compute type.
    const auto *form =
        rounding.use ? forms.find(rounding.use->getOwner()) : forms.end();
    bool isExact =
        form != forms.end() &&
        (rounding.use->getOperandNumber() == 1 || !form->second.recipe.empty());
    if (!isExact)
      priced.error += rounding.errorBy(errors);
  });
  return priced;
}

std::optional<Choice>
PolicySearchSpace::choiceOfMixed(PolicyType compute) const {
  std::string text = R"({"name": "tuned", "extends": "mixed_float16",
                         "compute": ")" +
                     stringify(compute).str() + "\"}";
  Policy policy = llvm::cantFail(Policy::parse(text, "tuned"));
  for (const PolicyOverride &override : base.getOverrides())
    if (llvm::Error error = policy.addOverride(override.text, override.source))
      llvm::consumeError(std::move(error));
  for (const auto &[name, range] : base.getRanges())
    policy.addRange(name, range);
  func::FuncOp func = function;
  ScopedDiagnosticHandler silence(func.getContext(),
                                  [](Diagnostic &) { return success(); });
  FailureOr<PrecisionPlan> made = PrecisionPlan::create(
      function, policy, target, CastPlacement::MinimumCut);
  if (failed(made))
    return std::nullopt;
  Choice choice;
  for (auto [index, variable] : llvm::enumerate(variables)) {
    if (!variable.isProduct) {
      choice.push_back(llvm::all_of(valuesOf[index], [&](Value value) {
        return isNarrow(made->getStorage(value));
      }));
      continue;
    }
    bool isNarrowed = llvm::all_of(productsOf[index], [&](Operation *op) {
      return multiplies(made->getPlan(op)) == compute;
    });
    auto option = llvm::find_if(variable.options, [&](const Option &option) {
      return option.type == compute && option.isPlain();
    });
    choice.push_back(isNarrowed && option != variable.options.end()
                         ? int(option - variable.options.begin())
                         : 0);
  }
  return choice;
}

std::vector<KernelTimeModel::Variable>
PolicySearchSpace::timedVariables() const {
  llvm::DenseMap<Value, size_t> variableOf;
  for (auto [index, values] : llvm::enumerate(valuesOf))
    for (Value value : values)
      variableOf[value] = index;
  std::vector<KernelTimeModel::Variable> timed;
  for (auto [variable, products] : llvm::zip_equal(variables, productsOf)) {
    timed.push_back({variable.names, variable.isProduct});
    for (Operation *op : products)
      for (Value read : op->getOperands())
        if (auto found = variableOf.find(read); found != variableOf.end())
          timed.back().reads.push_back(found->second);
  }
  return timed;
}

BudgetSearchProblem
PolicySearchSpace::searchSpace(const RoundingErrorModel &errors) const {
  BudgetSearchProblem space;
  for (const Variable &variable : variables) {
    space.options.push_back(int(variable.options.size()));
    space.planned.push_back(!variable.isProduct);
  }
  space.plan = [this, &errors](const Choice &choice, double price) {
    return plan(choice, price, errors);
  };
  for (PolicyType type : {PolicyType::Float16, PolicyType::BFloat16})
    if (llvm::is_contained(types, type))
      if (std::optional<Choice> start = choiceOfMixed(type))
        space.starts.push_back(std::move(*start));
  return space;
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

std::string PolicySearchSpace::Option::text() const {
  if (!recipe.empty())
    return recipe;
  std::string text = stringify(type).str();
  if (weights.isNarrow())
    text += " with weights in " + stringify(weights.type).str();
  return text;
}

void PolicySearchSpace::addWeights(Variable &variable,
                                   ArrayRef<WeightFormat> weights,
                                   ArrayRef<Operation *> products) const {
  // After the types, narrowest last.
  size_t types = variable.options.size();
  for (const WeightFormat &format : weights)
    for (size_t i = 0; i < types; ++i) {
      PolicyType type = variable.options[i].type;
      if (llvm::all_of(products, [&](Operation *op) {
            return readsQuantizedWeights(op, type, format, target);
          }))
        variable.options.push_back({type, format});
    }
}

void PolicySearchSpace::considerWeights(
    Sensitivity &sensitivity,
    llvm::function_ref<Operation *(Operation *)> opOf) const {
  for (auto [variable, products] : llvm::zip_equal(variables, productsOf))
    for (const Option &option : variable.options)
      for (Operation *op : products)
        if (Operation *other = option.weights.isNarrow() ? opOf(op) : nullptr)
          sensitivity.consider(other,
                               {option.weights, significantBits(option.type)});
}

int64_t PolicySearchSpace::countWeights(size_t variable) const {
  const Variable &named = variables[variable];
  if (llvm::none_of(named.options, [](const Option &option) {
        return option.weights.isNarrow();
      }))
    return 0;
  int64_t count = 0;
  for (Operation *op : productsOf[variable])
    count += elementCount(op->getOperand(1));
  return count;
}

double PolicySearchSpace::weightBytes(size_t variable,
                                      const Option &option) const {
  if (!option.weights.isNarrow())
    return double(countWeights(variable)) * storageBits(option.type) / 8;
  int64_t bytes = 0;
  for (Operation *op : productsOf[variable])
    bytes += storedBytes(op, option.weights);
  return double(bytes);
}

int64_t PolicySearchSpace::countWeights() const {
  int64_t count = 0;
  for (size_t i = 0; i < variables.size(); ++i)
    count += countWeights(i);
  return count;
}

double PolicySearchSpace::weightBytes(const Choice &choice) const {
  double bytes = 0;
  for (size_t i = 0; i < variables.size(); ++i)
    if (countWeights(i) > 0)
      bytes += weightBytes(i, variables[i].options[choice[i]]);
  return bytes;
}

std::vector<Choice> PolicySearchSpace::uniformWeights() const {
  std::vector<std::string> formats;
  for (const Variable &variable : variables)
    for (const Option &option : variable.options)
      if (option.type == PolicyType::Float32 && option.weights.isNarrow() &&
          !llvm::is_contained(formats, option.weights.describe()))
        formats.push_back(option.weights.describe());
  std::vector<Choice> found;
  for (size_t last = 0; last < formats.size(); ++last) {
    Choice choice(variables.size(), 0);
    for (size_t i = 0; i < variables.size(); ++i)
      for (auto [index, option] : llvm::enumerate(variables[i].options)) {
        auto form = llvm::find(formats, option.weights.describe());
        if (option.type == PolicyType::Float32 && form != formats.end() &&
            form <= formats.begin() + last)
          choice[i] = int(index);
      }
    found.push_back(std::move(choice));
  }
  return found;
}

PolicySearchSpace::Forms
PolicySearchSpace::formsOf(const Choice &choice) const {
  Forms forms;
  for (size_t i = 0; i < variables.size(); ++i)
    if (variables[i].isProduct)
      if (const Option &option = variables[i].options[choice[i]];
          !option.isPlain())
        for (Operation *op : productsOf[i])
          forms[op] = option;
  return forms;
}

int64_t PolicySearchSpace::bytesOf(Operation *op, const Option &option) const {
  if (option.recipe.empty())
    return storedBytes(op, option.weights);
  return elementCount(op->getOperand(1)) * recipe->bits / 8;
}

double PolicySearchSpace::errorOf(Operation *op, const Option &option,
                                  const RoundingErrorModel &errors) const {
  if (!option.recipe.empty())
    return errors.ofOperands(op);
  return errors.ofWeights(op, option.weights, significantBits(option.type));
}

std::vector<QuantizedError>
PolicySearchSpace::quantizedErrors(const Choice &choice,
                                   const RoundingErrorModel &errors) const {
  std::vector<QuantizedError> found;
  for (const auto &[op, option] : formsOf(choice))
    found.push_back({op, errorOf(op, option, errors), !option.recipe.empty()});
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
    change +=
        bytesOf(op, option) - elementCount(use.get()) * bytesRead(plan, use);
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
      if (stored.insert({option.recipe.empty() ? int(option.weights.type) : -1,
                         significantBits(option.type)}))
        change += bytesOf(use.getOwner(), option);
    }
    for (int64_t bytes : before)
      change -= bytes * elementCount(constant);
    for (int64_t bytes : after)
      change += bytes * elementCount(constant);
  }
  return change;
}
