//===- LayerTypeSummary.cpp - types per layer of a model ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An op counts for the layer of its path and for those whose nodes were merged
// into it. The forward pass is what outputs, losses and statistics depend on;
// the other ops of a layer compute its gradients.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/LayerTypeSummary.h"

#include "PlanBuilder.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/OpTypes.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Support/StepNames.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Paths
//===----------------------------------------------------------------------===//

/// Placeholder index for a name that several layers use.
static constexpr unsigned kAmbiguous = ~0u;

/// Returns the user's name of an argument or a constant; empty without one.
static StringRef variableName(const StepFunction &step, Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return step.argumentName(argument.getArgNumber());
  SmallVector<StringRef> names;
  if (auto constant = value.getDefiningOp<ConstantOp>())
    names = opNames(constant);
  return names.empty() ? StringRef() : names.front();
}

LayerPaths::LayerPaths(func::FuncOp func) {
  StepFunction step(func);
  for (Operation &op : func.getOps()) {
    StringRef path = layerPath(&op);
    if (path.empty() || isa<ConstantOp>(op))
      continue;
    auto [entry, isNew] = numbers.try_emplace(path, unsigned(ordered.size()));
    if (isNew)
      ordered.push_back(path.str());
    for (StringRef name : opNames(&op)) {
      auto [known, first] = layerOfName.try_emplace(name, entry->second);
      if (!first && known->second != entry->second)
        known->second = kAmbiguous;
    }
    for (Value operand : op.getOperands())
      if (StringRef name = variableName(step, operand); !name.empty())
        if (auto &list = readers[name];
            !llvm::is_contained(list, entry->second))
          list.push_back(entry->second);
  }
}

llvm::SmallVector<unsigned, 2> LayerPaths::layersOf(Operation *op) const {
  llvm::SmallVector<unsigned, 2> layers;
  if (auto own = numbers.find(layerPath(op)); own != numbers.end())
    layers.push_back(own->second);
  for (StringRef name : opNames(op))
    if (auto known = layerOfName.find(name);
        known != layerOfName.end() && known->second != kAmbiguous &&
        !llvm::is_contained(layers, known->second))
      layers.push_back(known->second);
  return layers;
}

bool LayerPaths::isOfOthers(StringRef name, unsigned layer) const {
  auto known = readers.find(name);
  return known != readers.end() && !llvm::is_contained(known->second, layer);
}

//===----------------------------------------------------------------------===//
// Amounts
//===----------------------------------------------------------------------===//

namespace {

/// Amounts by type; the first nonempty tier counts.
class Amounts {
public:
  void add(unsigned tier, const std::string &type, int64_t weight) {
    std::vector<TypeShare> &list = tiers[tier];
    auto same = llvm::find_if(
        list, [&](const TypeShare &share) { return share.type == type; });
    if (same == list.end())
      same = list.insert(same, TypeShare{type});
    ++same->count;
    same->weight += weight;
  }

  std::vector<TypeShare> take() {
    for (std::vector<TypeShare> &list : tiers) {
      if (list.empty())
        continue;
      llvm::sort(list, [](const TypeShare &a, const TypeShare &b) {
        return std::tie(b.weight, b.count, a.type) <
               std::tie(a.weight, a.count, b.type);
      });
      return std::move(list);
    }
    return {};
  }

private:
  std::array<std::vector<TypeShare>, 3> tiers;
};

/// Data gathered per layer during the traversal.
struct Gathered {
  Amounts compute, gradient, storage;
  std::vector<VariableType> variables;
  /// Indices into `variables`; by value if a constant has no name.
  llvm::StringMap<size_t> byName;
  llvm::DenseMap<Value, size_t> byValue;
};

} // namespace

static bool isFloatValue(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

static bool touchesFloats(Operation *op) {
  return llvm::any_of(op->getOperands(), isFloatValue) ||
         llvm::any_of(op->getResults(), isFloatValue);
}

static void addCompute(Operation *op, Amounts &amounts) {
  int64_t flops = 1;
  if (auto cost = dyn_cast<CostOpInterface>(op))
    flops = cost.getFlops();
  // A layer without float arithmetic has the type of its moves or integers.
  unsigned tier = !touchesFloats(op) ? 2 : flops == 0 ? 1 : 0;
  amounts.add(tier, computeTypeName(op),
              isa<ContractionOpInterface>(op) ? flops : 0);
}

static int64_t bytesOf(Value value, Type element) {
  return elementCount(value) *
         llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

namespace {

class LayerCollector {
public:
  LayerCollector(func::FuncOp func, const LayerPaths &paths,
                 const Policy &policy)
      : func(func), step(func), paths(paths), policy(policy),
        layers(paths.paths().size() + 1) {}

  std::vector<LayerTypes> collect();

private:
  /// Finds the ops that outputs, losses and statistics depend on.
  void findForward();
  /// Returns true if an op of another layer reads `value` in the forward pass.
  bool leaves(Value value, unsigned layer) const;
  void addResults(Operation *op, unsigned layer);
  void addVariables(Operation *op, unsigned layer);
  /// `isJoined`: the reader belongs to several layers.
  void addVariable(Value source, unsigned layer, bool isJoined);
  /// Indices of the op's layers, or the one for ops outside of all layers.
  ArrayRef<unsigned> layersOf(Operation *op) const {
    return known.find(op)->second;
  }
  /// The policy of a layer.
  const Policy &policyOf(unsigned layer) const;

  func::FuncOp func;
  StepFunction step;
  const LayerPaths &paths;
  const Policy &policy;
  std::vector<Gathered> layers;
  llvm::DenseSet<Operation *> forward;
  llvm::DenseMap<Operation *, llvm::SmallVector<unsigned, 2>> known;
  /// The master weight of each 16-bit copy.
  llvm::DenseMap<Value, BlockArgument> masters;
  /// Types of a parameter's copies.
  llvm::DenseMap<Value, llvm::SmallVector<Type, 1>> copies;
};

} // namespace

const Policy &LayerCollector::policyOf(unsigned layer) const {
  if (layer == paths.paths().size())
    return policy;
  llvm::Expected<const Policy *> found =
      policy.policyOfLayer(paths.paths()[layer]);
  if (found)
    return **found;
  // The precision stage has already reported why.
  llvm::consumeError(found.takeError());
  return policy;
}

void LayerCollector::findForward() {
  SmallVector<Value> open;
  for (auto [index, value] : llvm::enumerate(step.terminator().getOperands())) {
    RoleAttr role = step.resultRole(index);
    bool isGradient = step.resultName(index).ends_with(kGradientSuffix);
    if (!role || role.getKind() == RoleKind::loss ||
        role.getKind() == RoleKind::statistics ||
        (role.getKind() == RoleKind::output && !isGradient))
      open.push_back(value);
  }
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (op && forward.insert(op).second)
      llvm::append_range(open, op->getOperands());
  }
}

bool LayerCollector::leaves(Value value, unsigned layer) const {
  for (Operation *user : value.getUsers()) {
    if (isa<func::ReturnOp>(user))
      return true;
    if (!forward.contains(user))
      continue;
    // Casts inserted by the compiler belong to their readers or to the value.
    if (isInsertedCast(user) ? leaves(user->getResult(0), layer)
                             : !llvm::is_contained(layersOf(user), layer))
      return true;
  }
  return false;
}

void LayerCollector::addResults(Operation *op, unsigned layer) {
  for (Value result : op->getResults()) {
    Type stored = storageType(result);
    unsigned tier = !leaves(result, layer) ? 2 : isa<FloatType>(stored) ? 0 : 1;
    layers[layer].storage.add(tier, typeName(stored), bytesOf(result, stored));
  }
}

void LayerCollector::addVariable(Value source, unsigned layer, bool isJoined) {
  Gathered &gathered = layers[layer];
  BlockArgument master = masters.lookup(source);
  if (!master)
    master = dyn_cast<BlockArgument>(source);
  VariableType variable;
  Type held = getElementTypeOrSelf(source.getType()), type = held;
  if (master) {
    unsigned index = master.getArgNumber();
    variable.name = variableName(step, master).str();
    variable.role = stringifyRoleKind(step.argumentRole(index).getKind()).str();
    type = getElementTypeOrSelf(master.getType());
    variable.stored.push_back(typeName(type));
    for (Type copy : copies.lookup(master))
      variable.stored.push_back(typeName(copy));
  } else {
    Operation *op = source.getDefiningOp();
    variable.name = variableName(step, source).str();
    variable.role = "constant";
    variable.stored.push_back(typeName(held));
    // Rounded for its readers, or because the policy keeps it narrow.
    FloatType kept =
        toFloatType(policyOf(layer).getVariable(), op->getContext());
    if (op->hasAttr(MpcDialect::kNarrowingAttr) && held != kept)
      type = Float32Type::get(op->getContext());
  }
  variable.type = typeName(type);
  if (isJoined && paths.isOfOthers(variable.name, layer))
    return;

  size_t next = gathered.variables.size();
  size_t number =
      variable.name.empty()
          ? gathered.byValue.try_emplace(source, next).first->second
          : gathered.byName
                .try_emplace(variable.role + " " + variable.name, next)
                .first->second;
  if (number == next) {
    gathered.variables.push_back(std::move(variable));
    return;
  }
  // A constant that is stored in two types counts as the wider one.
  VariableType &same = gathered.variables[number];
  if (type.getIntOrFloatBitWidth() == 32)
    same.type = variable.type;
  for (const std::string &stored : variable.stored)
    if (!llvm::is_contained(same.stored, stored))
      same.stored.push_back(stored);
}

void LayerCollector::addVariables(Operation *op, unsigned layer) {
  for (Value operand : op->getOperands()) {
    Value source = operand;
    while (Operation *producer = source.getDefiningOp()) {
      if (!isInsertedCast(producer))
        break;
      source = producer->getOperand(0);
    }
    if (isFloatValue(source) &&
        (masters.contains(source) || isParameter(source)))
      addVariable(source, layer, layersOf(op).size() > 1);
  }
}

std::vector<LayerTypes> LayerCollector::collect() {
  findForward();
  if (forward.empty())
    return {};
  llvm::StringMap<BlockArgument> parameters;
  for (BlockArgument argument : step.arguments(RoleKind::parameter))
    parameters[step.argumentName(argument.getArgNumber())] = argument;
  for (BlockArgument copy : step.arguments(RoleKind::parameter_copy)) {
    StringRef name = step.argumentName(copy.getArgNumber());
    name.consume_back(kCopySuffix);
    if (BlockArgument master = parameters.lookup(name)) {
      masters[copy] = master;
      copies[master].push_back(getElementTypeOrSelf(copy.getType()));
    }
  }
  unsigned outside = unsigned(paths.paths().size());
  for (Operation &op : func.getBody().front()) {
    llvm::SmallVector<unsigned, 2> numbers = paths.layersOf(&op);
    if (numbers.empty())
      numbers.push_back(outside);
    known[&op] = std::move(numbers);
  }
  for (Operation &op : func.getBody().front().without_terminator()) {
    if (isa<ConstantOp>(op) || isInsertedCast(&op) || op.getNumResults() == 0)
      continue;
    bool isForward = forward.contains(&op);
    for (unsigned layer : layersOf(&op)) {
      if (isForward) {
        addCompute(&op, layers[layer].compute);
        addResults(&op, layer);
        addVariables(&op, layer);
      } else if (layer != outside) {
        // Ops outside all layers are the step's bookkeeping.
        addCompute(&op, layers[layer].gradient);
      }
    }
  }
  std::vector<LayerTypes> typed;
  for (auto [number, gathered] : llvm::enumerate(layers)) {
    LayerTypes layer;
    bool isOutside = number == outside;
    if (!isOutside)
      layer.path = paths.paths()[number];
    layer.policy = policyOf(unsigned(number)).getName();
    layer.compute = gathered.compute.take();
    layer.gradient = gathered.gradient.take();
    layer.storage = gathered.storage.take();
    layer.variables = std::move(gathered.variables);
    if (!isOutside || !layer.compute.empty())
      typed.push_back(std::move(layer));
  }
  return typed;
}

std::vector<LayerTypes> mpc::typedLayers(func::FuncOp func,
                                         const LayerPaths &paths,
                                         const Policy &policy) {
  return LayerCollector(func, paths, policy).collect();
}
