//===- ControlFlowOps.cpp - control flow: If, Loop, Scan, SequenceMap -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mpc has no control flow: conditions must be known at import, and loops of
// known length are unrolled.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"
#include "NodeImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Maximum trip count: every iteration is unrolled.
static constexpr int64_t kMaxIterations = 1024;

/// Binds output `i` of the node.
static void setBinding(NodeImport &n, size_t i, const Binding &binding) {
  if (binding.list)
    n.setList(i, *binding.list);
  else
    n.set(i, binding.value);
}

/// Imports `body` once; failures are already reported.
static LogicalResult runBody(NodeImport &n, Graph &body,
                             ArrayRef<Binding> arguments,
                             SmallVectorImpl<Binding> &results) {
  if (n.failed() || failed(n.importer.importBody(body, arguments, results,
                                                 n.node.location))) {
    n.fail();
    return failure();
  }
  return success();
}

static LogicalResult convertIf(NodeImport &n) {
  bool condition = n.knownInt(0, "condition") != 0;
  std::shared_ptr<Graph> branch =
      n.graphAttr(condition ? "then_branch" : "else_branch");
  SmallVector<Binding> results;
  if (n.failed() || failed(runBody(n, *branch, {}, results)))
    return failure();
  if (results.size() < n.node.outputs.size())
    return n.error() << "the branch has " << results.size()
                     << " outputs, expected " << n.node.outputs.size();
  for (size_t i = 0; i < n.node.outputs.size(); ++i)
    setBinding(n, i, results[i]);
  return n.status();
}

/// Returns the stacked scan output of a loop without iterations, whose shape is
/// known only from `declared`.
static Value stackOfNone(NodeImport &n, const ValueInfo &declared,
                         int64_t axis) {
  Type element = elementTypeOf(declared.dataType, n.builder.getContext());
  bool isKnown = element && declared.dims &&
                 llvm::all_of(*declared.dims, [](const Dimension &dimension) {
                   return dimension.extent.has_value();
                 });
  if (!isKnown) {
    n.error() << "a scan output of no iterations has no known shape; declare "
                 "that of '"
              << declared.name << "' in the body";
    return nullptr;
  }
  SmallVector<int64_t> shape;
  for (const Dimension &dimension : *declared.dims)
    shape.push_back(*dimension.extent);
  int64_t position = n.axis(axis, int64_t(shape.size()) + 1);
  if (n.failed())
    return nullptr;
  shape.insert(shape.begin() + position, 0);
  return n.dense(shape, {}, element);
}

/// Stacks the results of all iterations along a new axis; `declared` is the
/// declared type of one.
static Value stack(NodeImport &n, ArrayRef<Value> parts,
                   const ValueInfo &declared, int64_t axis) {
  if (n.failed())
    return nullptr;
  if (parts.empty())
    return stackOfNone(n, declared, axis);
  SmallVector<Value> expanded;
  for (Value part : parts) {
    SmallVector<int64_t> shape(n.shape(part));
    int64_t position = n.axis(axis, int64_t(shape.size()) + 1);
    if (n.failed())
      return nullptr;
    shape.insert(shape.begin() + position, 1);
    expanded.push_back(n.reshape(part, shape));
  }
  return n.concat(expanded, n.axis(axis, n.rank(parts.front()) + 1));
}

/// Returns the result of a body as a tensor.
static Value tensorOf(NodeImport &n, const Binding &binding) {
  if (!binding.value && !n.failed())
    n.error() << "a scan output is no tensor";
  return binding.value;
}

static LogicalResult convertLoop(NodeImport &n) {
  int64_t limit = n.has(0) ? n.knownInt(0, "trip count") : kMaxIterations + 1;
  bool condition = n.has(1) ? n.knownInt(1, "condition") != 0 : true;
  std::shared_ptr<Graph> body = n.graphAttr("body");
  if (n.failed())
    return failure();
  SmallVector<Binding> carried;
  for (size_t i = 2; i < n.inputCount(); ++i)
    carried.push_back(n.binding(i));
  if (body->outputs.size() < carried.size() + 1)
    return n.error() << "its body has " << body->outputs.size()
                     << " outputs, expected at least " << carried.size() + 1;
  size_t scans = body->outputs.size() - carried.size() - 1;
  SmallVector<SmallVector<Value>> collected(scans);
  for (int64_t iteration = 0; condition && iteration < limit; ++iteration) {
    if (iteration == kMaxIterations)
      return n.error() << "it runs more than " << kMaxIterations
                       << " iterations";
    SmallVector<Binding> arguments = {{n.ints({iteration}, {}), nullptr},
                                      {n.booleans({}, int64_t(1)), nullptr}};
    arguments.append(carried);
    SmallVector<Binding> results;
    if (failed(runBody(n, *body, arguments, results)))
      return failure();
    std::shared_ptr<const reference::Tensor> next =
        n.known(tensorOf(n, results.front()));
    if (n.failed())
      return failure();
    if (!next || next->isFloat() || next->size() != 1)
      return n.error()
             << "its condition depends on data; only loops of known length are "
                "supported";
    condition = next->ints().front() != 0;
    for (size_t i = 0; i < carried.size(); ++i)
      carried[i] = results[i + 1];
    for (size_t i = 0; i < scans; ++i)
      collected[i].push_back(tensorOf(n, results[carried.size() + 1 + i]));
  }
  for (auto [i, binding] : llvm::enumerate(carried))
    setBinding(n, i, binding);
  for (size_t i = 0; i < scans && !n.failed(); ++i)
    if (n.wants(carried.size() + i))
      n.set(carried.size() + i,
            stack(n, collected[i], body->outputs[carried.size() + 1 + i], 0));
  return n.status();
}

/// Returns entry `i` of an integer list attribute, 0 if the list is absent.
static int64_t entry(ArrayRef<int64_t> list, size_t i) {
  return i < list.size() ? list[i] : 0;
}

static LogicalResult convertScan(NodeImport &n) {
  if (n.version < 9)
    return n.error() << "version 8 with a batch dimension is not supported";
  std::shared_ptr<Graph> body = n.graphAttr("body");
  int64_t scanCount = n.intAttr("num_scan_inputs", 0);
  SmallVector<int64_t> inputAxes = n.intsAttr("scan_input_axes"),
                       inputDirections = n.intsAttr("scan_input_directions"),
                       outputAxes = n.intsAttr("scan_output_axes"),
                       outputDirections = n.intsAttr("scan_output_directions");
  SmallVector<Value> inputs = n.ins();
  if (n.failed())
    return failure();
  int64_t stateCount = int64_t(inputs.size()) - scanCount;
  if (scanCount < 1 || stateCount < 0 ||
      int64_t(body->outputs.size()) < stateCount)
    return n.error() << "attribute 'num_scan_inputs' is " << scanCount
                     << ", but the node has " << inputs.size() << " inputs";
  SmallVector<Binding> state;
  for (Value value : ArrayRef<Value>(inputs).take_front(stateCount))
    state.push_back({value, nullptr});
  ArrayRef<Value> scanned = ArrayRef<Value>(inputs).drop_front(stateCount);
  int64_t length = -1;
  SmallVector<int64_t> axes;
  for (auto [i, value] : llvm::enumerate(scanned)) {
    axes.push_back(n.axis(entry(inputAxes, i), n.rank(value)));
    if (n.failed())
      return failure();
    int64_t extent = n.dim(value, axes.back());
    if (length >= 0 && extent != length)
      return n.error() << "its scan inputs have the lengths " << length
                       << " and " << extent;
    length = extent;
  }
  if (length > kMaxIterations)
    return n.error() << "it runs " << length << " iterations, more than "
                     << kMaxIterations;
  size_t scans = body->outputs.size() - size_t(stateCount);
  SmallVector<SmallVector<Value>> collected(scans);
  for (int64_t iteration = 0; iteration < length; ++iteration) {
    SmallVector<Binding> arguments(state);
    for (auto [i, value] : llvm::enumerate(scanned)) {
      int64_t position =
          entry(inputDirections, i) ? length - 1 - iteration : iteration;
      Value part = n.sliceAxis(value, axes[i], position, 1);
      SmallVector<int64_t> shape(n.shape(value));
      shape.erase(shape.begin() + axes[i]);
      arguments.push_back({n.reshape(part, shape), nullptr});
    }
    SmallVector<Binding> results;
    if (failed(runBody(n, *body, arguments, results)))
      return failure();
    for (int64_t i = 0; i < stateCount; ++i)
      state[i] = results[i];
    for (size_t i = 0; i < scans; ++i)
      collected[i].push_back(tensorOf(n, results[stateCount + i]));
  }
  for (auto [i, binding] : llvm::enumerate(state))
    setBinding(n, i, binding);
  for (size_t i = 0; i < scans && !n.failed(); ++i) {
    if (!n.wants(stateCount + i))
      continue;
    if (entry(outputDirections, i))
      std::reverse(collected[i].begin(), collected[i].end());
    n.set(stateCount + i, stack(n, collected[i], body->outputs[stateCount + i],
                                entry(outputAxes, i)));
  }
  return n.status();
}

static LogicalResult convertSequenceMap(NodeImport &n) {
  std::shared_ptr<Graph> body = n.graphAttr("body");
  SmallVector<Binding> inputs;
  for (size_t i = 0; i < n.inputCount(); ++i)
    inputs.push_back(n.binding(i));
  if (n.failed())
    return failure();
  if (!inputs.front().list)
    return n.error() << "input 0 is no sequence";
  size_t length = inputs.front().list->size();
  std::vector<std::vector<Value>> collected(body->outputs.size());
  for (size_t position = 0; position < length; ++position) {
    SmallVector<Binding> arguments, results;
    for (const Binding &input : inputs) {
      if (input.list && position >= input.list->size())
        return n.error() << "its sequences have different lengths";
      arguments.push_back(input.list ? Binding{(*input.list)[position], nullptr}
                                     : input);
    }
    if (failed(runBody(n, *body, arguments, results)))
      return failure();
    for (auto [list, result] : llvm::zip_equal(collected, results))
      list.push_back(tensorOf(n, result));
  }
  for (auto [i, list] : llvm::enumerate(collected))
    n.setList(i, list);
  return n.status();
}

OpFamily mpc::onnx::controlOps() {
  static const OpEntry entries[] = {
      {"If 1,11,13,16,19,21,23,24,25 1 else_branch then_branch", convertIf},
      {"Loop 1,11,13,16,19,21,23,24,25 0+ body", convertLoop},
      {"Scan 8,9,11,16,19,21,23,24,25 0+ body num_scan_inputs scan_input_axes "
       "scan_input_directions scan_output_axes scan_output_directions",
       convertScan},
      {"SequenceMap 17 1+ body", convertSequenceMap},
  };
  return entries;
}
