//===- TensorFlowGraph.cpp - recorded graphs in the dialect ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nodes become ops that carry the node's op as their source. Integer nodes,
// which compute shapes in these graphs, become constants.
//
//===----------------------------------------------------------------------===//

#include "TensorFlowGraph.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "TensorFlowOps.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

namespace {

/// Builds the nodes of one graph in order.
class GraphBuilder {
public:
  GraphBuilder(const Json &graph, MLIRContext &context)
      : graph(graph), builder(&context) {}

  llvm::Expected<TensorFlowGraph> run();

private:
  llvm::Error addNode(const Json &json);
  /// The node's results; empty if the dialect has no equivalent.
  SmallVector<Value> emit(const TensorFlowNode &node);
  /// Tags the ops from `first` on, which are the node's, and notes its edges.
  void addEdges(const Json &json, const TensorFlowNode &node,
                Block::iterator first);

  const Json &graph;
  OpBuilder builder;
  TensorFlowGraph result;
  func::FuncOp func;
  int64_t id = 0;
};

} // namespace

SmallVector<Value> GraphBuilder::emit(const TensorFlowNode &node) {
  if (node.op == "Placeholder") {
    unsigned index = func.getNumArguments();
    auto type = RankedTensorType::get(node.shapes[0], node.types[0]);
    if (failed(func.insertArgument(index, type, {}, builder.getUnknownLoc())))
      return {};
    return {func.getArgument(index)};
  }
  if (node.op == "Const")
    return {makeConstant(builder, node.shapes[0], node.types[0], 0.5)};
  if (llvm::all_of(node.types, [](Type type) { return type.isInteger(32); })) {
    SmallVector<Value> values;
    for (auto [shape, type] : llvm::zip(node.shapes, node.types))
      values.push_back(makeConstant(builder, shape, type, 1));
    return values;
  }
  return buildTensorFlowOp(builder, node);
}

static Port parsePort(StringRef text) {
  auto [name, number] = text.rsplit(':');
  int port = 0;
  number.getAsInteger(10, port);
  return {name.str(), port};
}

void GraphBuilder::addEdges(const Json &json, const TensorFlowNode &node,
                            Block::iterator first) {
  std::set<Port> sources;
  for (const Json &input : json.at("inputs"))
    sources.insert(parsePort(input.get<std::string>()));
  for (Operation &op : llvm::make_range(first, builder.getInsertionPoint())) {
    if (isa<ConstantOp>(op))
      continue;
    op.setDiscardableAttr(MpcDialect::kSourceAttr,
                          SourceAttr::get(builder.getContext(),
                                          builder.getStringAttr(node.op), id));
    result.ops[node.name].push_back(&op);
    for (OpOperand &operand : op.getOpOperands())
      for (const Port &source : sources)
        if (operand.get() == result.values.at(source) &&
            getElementTypeOrSelf(operand.get().getType()).isF32())
          result.edges.push_back(
              {source, node.name, &op, operand.getOperandNumber()});
  }
}

llvm::Error GraphBuilder::addNode(const Json &json) {
  auto error = [](const llvm::Twine &text) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
  };
  TensorFlowNode node;
  node.name = json.at("name");
  node.op = json.at("op");
  for (const Json &shape : json.at("shapes")) {
    // The recording has no extents of a scratch result.
    std::vector<int64_t> extents;
    if (!shape.is_null())
      extents = shape.get<std::vector<int64_t>>();
    node.shapes.emplace_back(extents.begin(), extents.end());
  }
  for (const Json &type : json.at("before")) {
    node.types.push_back(
        parseShortName(type.get<std::string>(), builder.getContext()));
    if (!node.types.back())
      return error("node '" + node.name + "' has the type " +
                   type.get<std::string>() + ", which the dialect lacks");
  }
  for (const Json &input : json.at("inputs")) {
    auto it = result.values.find(parsePort(input.get<std::string>()));
    if (it == result.values.end())
      return error("node '" + node.name + "' reads '" +
                   input.get<std::string>() + "', which was not built");
    node.inputs.push_back(it->second);
  }
  Operation *last =
      builder.getBlock()->empty() ? nullptr : &builder.getBlock()->back();
  SmallVector<Value> values;
  if (!node.shapes.empty())
    values = emit(node);
  if (values.empty())
    return error("op " + node.op + " has no form in the dialect");
  for (auto [port, value] : llvm::enumerate(values))
    result.values[{node.name, int(port)}] = value;
  ++id;
  addEdges(json, node,
           last ? std::next(last->getIterator()) : builder.getBlock()->begin());
  return llvm::Error::success();
}

llvm::Expected<TensorFlowGraph> GraphBuilder::run() {
  Location loc = builder.getUnknownLoc();
  result.module = ModuleOp::create(loc);
  builder.setInsertionPointToStart(result.module->getBody());
  func = func::FuncOp::create(builder, loc, "graph",
                              builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(func.addEntryBlock());
  for (const Json &node : graph.at("nodes"))
    if (llvm::Error error = addNode(node))
      return std::move(error);
  SmallVector<Value> fetched;
  for (const Json &fetch : graph.at("fetches"))
    fetched.push_back(result.values.at({fetch.get<std::string>(), 0}));
  func::ReturnOp::create(builder, loc, fetched);
  SmallVector<Type> types = llvm::to_vector(ValueRange(fetched).getTypes());
  func.setFunctionType(
      builder.getFunctionType(func.getBody().getArgumentTypes(), types));
  func.setPrivate();
  if (failed(verify(*result.module)))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "the graph built is not valid");
  // Passes replace constants; what reads them is known by the edges.
  std::erase_if(result.values, [](const auto &entry) {
    return entry.second.template getDefiningOp<ConstantOp>();
  });
  return std::move(result);
}

llvm::Expected<TensorFlowGraph> TensorFlowGraph::build(const Json &graph,
                                                       MLIRContext &context) {
  return GraphBuilder(graph, context).run();
}
