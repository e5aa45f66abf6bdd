//===- TensorFlowCompare.cpp - types and casts of recorded graphs ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the preset on a recorded graph and reads off the IR which results are
// 16-bit and which edges carry casts, in TensorFlow's terms: a node is 16-bit
// where its results are typed so or leave it through one rounding, as those of
// a contraction do.
//
//===----------------------------------------------------------------------===//

#include "TensorFlowGraph.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Policy/Policy.h"

#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

namespace {

/// A cast in TensorFlow's terms: its operand, its result, its users.
struct CastKey {
  Port from;
  std::string to;
  bool operator<(const CastKey &other) const {
    return std::tie(from, to) < std::tie(other.from, other.to);
  }
};
using Casts = std::map<CastKey, std::set<std::string>>;

/// Reads the assigned types of one graph.
class GraphReader {
public:
  GraphReader(const TensorFlowGraph &graph, const Json &recorded,
              std::string low)
      : graph(graph), recorded(recorded), low(std::move(low)) {
    for (auto &[name, ops] : graph.ops)
      own.insert(ops.begin(), ops.end());
  }

  /// Whether the node's result is 16-bit.
  bool isLow(const Port &port) const;
  /// Whether the read rounds to 16 bits, wherever it computes.
  bool passesLow(const Edge &edge) const;
  /// Returns true if the user reads 16 bits, in TensorFlow's terms.
  bool takesLow(const Edge &edge) const;
  Casts casts() const;
  /// All reads that round, whether or not the reader computes in 16 bits.
  Casts roundings() const;
  /// More than one rounding of one value; empty where there is none.
  std::string doubledCasts() const;

private:
  bool isNarrow(Type type) const {
    Type element = getElementTypeOrSelf(type);
    return isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 16;
  }
  /// A cast that the pass put in.
  bool isAdded(Operation *op) const {
    return isa<CastOp>(op) && !own.contains(op);
  }
  bool recordedLow(const std::string &name) const;

  const TensorFlowGraph &graph;
  const Json &recorded;
  std::string low;
  llvm::DenseSet<Operation *> own;
};

} // namespace

bool GraphReader::recordedLow(const std::string &name) const {
  for (const Json &node : recorded.at("nodes"))
    if (node.at("name") == name)
      return node.at("after") != node.at("before");
  return false;
}

bool GraphReader::passesLow(const Edge &edge) const {
  Value value = edge.op->getOperand(edge.operand);
  bool narrow = isNarrow(value.getType());
  while (Operation *producer = value.getDefiningOp()) {
    if (!isAdded(producer))
      break;
    value = producer->getOperand(0);
    narrow |= isNarrow(value.getType());
  }
  return narrow;
}

bool GraphReader::isLow(const Port &port) const {
  auto it = graph.values.find(port);
  if (it == graph.values.end())
    return false; // a constant
  Value value = it->second;
  if (isNarrow(value.getType()))
    return true;
  Operation *producer = value.getDefiningOp();
  if (!producer)
    return false;
  // An f32 result that nothing reads unrounded.
  for (Operation *user : value.getUsers())
    if (!isAdded(user) || !isNarrow(user->getResult(0).getType()))
      return false;
  auto isWideOperand = [&](Value operand) {
    return getElementTypeOrSelf(operand.getType()).isF32();
  };
  if (isa<ContractionOpInterface>(producer))
    return !llvm::any_of(producer->getOperands(), isWideOperand);
  const std::vector<Operation *> &members = graph.ops.at(port.first);
  if (members.size() == 1)
    return false;
  // Several mpc ops that round their inputs and outputs: an f32 node between
  // 16-bit nodes and a 16-bit node that computes in f32 are one program, so
  // the type in the recording is accepted.
  for (const Edge &edge : graph.edges)
    if (edge.to == port.first && !passesLow(edge) &&
        !(isa<BatchNormOp>(edge.op) && edge.operand > 0))
      return false;
  return recordedLow(port.first);
}

bool GraphReader::takesLow(const Edge &edge) const {
  if (isNarrow(edge.op->getOperand(edge.operand).getType()))
    return true;
  if (!passesLow(edge))
    return false;
  for (auto &[port, value] : graph.values)
    if (port.first == edge.to && isLow(port))
      return true;
  return false;
}

Casts GraphReader::casts() const {
  Casts result;
  for (const Edge &edge : graph.edges) {
    bool from = isLow(edge.from), to = takesLow(edge);
    if (from != to)
      result[{edge.from, to ? low : "f32"}].insert(edge.to);
  }
  return result;
}

Casts GraphReader::roundings() const {
  Casts result;
  for (const Edge &edge : graph.edges)
    if (passesLow(edge))
      result[{edge.from, low}].insert(edge.to);
  return result;
}

std::string GraphReader::doubledCasts() const {
  for (auto &[port, value] : graph.values) {
    int narrowing = 0;
    for (Operation *user : value.getUsers())
      narrowing += isAdded(user) && isNarrow(user->getResult(0).getType());
    if (narrowing > 1)
      return port.first + " is rounded by " + std::to_string(narrowing) +
             " casts";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

static Port portOf(const std::string &text) {
  size_t colon = text.rfind(':');
  if (colon == std::string::npos)
    return {text, 0};
  return {text.substr(0, colon), std::stoi(text.substr(colon + 1))};
}

static Casts recordedCasts(const Json &graph) {
  Casts result;
  for (const Json &cast : graph.at("casts"))
    for (const Json &reader : cast.at("consumers"))
      result[{portOf(cast.at("input").at(0).get<std::string>()),
              cast.at("to").get<std::string>()}]
          .insert(reader.get<std::string>());
  return result;
}

/// The casts of a graph that rounds between ops that compute in f32:
/// each value is downcast once and upcast again for every user.
static Casts recordedRoundings(const Json &graph) {
  std::map<std::string, std::set<std::string>> readersOf;
  for (const Json &cast : graph.at("casts"))
    if (cast.at("to") == "f32")
      for (const Json &reader : cast.at("consumers"))
        readersOf[cast.at("name").get<std::string>()].insert(
            reader.get<std::string>());
  Casts result;
  for (const Json &cast : graph.at("casts")) {
    if (cast.at("to") == "f32")
      continue;
    CastKey key = {portOf(cast.at("input").at(0).get<std::string>()),
                   cast.at("to").get<std::string>()};
    for (const Json &reader : cast.at("consumers")) {
      std::string name = reader.get<std::string>();
      auto it = readersOf.find(name);
      if (it == readersOf.end())
        result[key].insert(name);
      else
        result[key].insert(it->second.begin(), it->second.end());
    }
  }
  return result;
}

/// Whether a recording's casts feed each other.
static bool roundsBetweenWideOps(const Json &graph) {
  std::set<std::string> names;
  for (const Json &cast : graph.at("casts"))
    names.insert(cast.at("name").get<std::string>());
  for (const Json &cast : graph.at("casts"))
    for (const Json &reader : cast.at("consumers"))
      if (names.count(reader.get<std::string>()))
        return true;
  return false;
}

static std::string joined(const Casts &casts, const CastKey &key) {
  auto it = casts.find(key);
  if (it == casts.end())
    return "nobody";
  return llvm::join(it->second, ", ");
}

static void compareCasts(const Casts &ours, const Casts &recorded,
                         std::vector<std::string> &differences) {
  std::set<CastKey> keys;
  for (const Casts *casts : {&ours, &recorded})
    for (auto &[key, readers] : *casts)
      keys.insert(key);
  for (const CastKey &key : keys) {
    std::string left = joined(ours, key), right = joined(recorded, key);
    if (left != right)
      differences.push_back("cast of " + key.from.first + ":" +
                            std::to_string(key.from.second) + " to " + key.to +
                            " for " + left + ", recorded for " + right);
  }
}

static void compareTypes(const TensorFlowGraph &graph, const Json &json,
                         const GraphReader &reader, const std::string &low,
                         std::vector<std::string> &differences) {
  for (const Json &node : json.at("nodes")) {
    std::string name = node.at("name");
    const Json &after = node.at("after");
    for (size_t port = 0; port < after.size(); ++port) {
      auto it = graph.values.find({name, int(port)});
      if (it == graph.values.end())
        continue;
      std::string ours =
          reader.isLow(it->first)
              ? low
              : shortName(getElementTypeOrSelf(it->second.getType()));
      if (ours != after[port].get<std::string>())
        differences.push_back(name + " is " + ours + ", recorded " +
                              after[port].get<std::string>());
    }
  }
}

/// Differences in one graph, in one line; empty if there are none.
static llvm::Expected<std::string> replayOne(const TensorFlowGraph &graph,
                                             const Json &json,
                                             llvm::StringRef preset,
                                             const std::string &low) {
  if (llvm::Error error = assignPrecision(*graph.module, preset))
    return std::move(error);
  GraphReader reader(graph, json, low);
  std::vector<std::string> differences;
  if (roundsBetweenWideOps(json)) {
    compareCasts(reader.roundings(), recordedRoundings(json), differences);
  } else {
    compareTypes(graph, json, reader, low, differences);
    compareCasts(reader.casts(), recordedCasts(json), differences);
  }
  if (std::string doubled = reader.doubledCasts(); !doubled.empty())
    differences.push_back(doubled);
  return llvm::join(differences, "; ");
}

llvm::Expected<Tally>
mpc::replay::replayTensorFlowGraphs(const Json &recording,
                                    MLIRContext &context) {
  llvm::Expected<Policy> policy = presetOf(recording);
  if (!policy)
    return policy.takeError();
  std::string low =
      shortName(FloatType(policy->getCompute() == PolicyType::Float16
                              ? FloatType(Float16Type::get(&context))
                              : FloatType(BFloat16Type::get(&context))));
  Tally tally;
  auto count = [&](const std::string &entry, const Json &json) -> llvm::Error {
    llvm::Expected<TensorFlowGraph> graph =
        TensorFlowGraph::build(json, context);
    if (!graph) {
      tally.skip(entry, llvm::toString(graph.takeError()));
      return llvm::Error::success();
    }
    llvm::Expected<std::string> difference =
        replayOne(*graph, json, policy->getName(), low);
    if (!difference)
      return difference.takeError();
    tally.note(entry, *difference);
    return llvm::Error::success();
  };
  auto programs = recording.find("programs");
  if (programs == recording.end()) {
    if (llvm::Error error =
            count(recording.at("graph").get<std::string>(), recording))
      return std::move(error);
    return tally;
  }
  for (size_t i = 0; i < programs->size(); ++i)
    if (llvm::Error error =
            count("program " + std::to_string(i), (*programs)[i]))
      return std::move(error);
  return tally;
}
