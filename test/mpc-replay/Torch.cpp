//===- Torch.cpp - replay of torch's op table and programs ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TorchOps.h"
#include "TorchRecord.h"

#include <optional>

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

static void appendTypes(const TorchGraph &graph, const Object &object,
                        std::string &types) {
  if (object.kind == Object::Kind::Tensor)
    types += (types.empty() ? "" : "/") + graph.typeOf(object.tensor);
  for (const Object &item : object.items)
    appendTypes(graph, item, types);
}

static void collectTensors(const Object &object,
                           llvm::SmallVectorImpl<Value> &tensors) {
  if (object.kind == Object::Kind::Tensor)
    tensors.push_back(object.tensor);
  for (const Object &item : object.items)
    collectTensors(item, tensors);
}

//===----------------------------------------------------------------------===//
// ops.json
//===----------------------------------------------------------------------===//

namespace {

/// One expression under one choice of argument types.
struct Probe {
  const Policy &policy;
  MLIRContext &context;
  const Json &row;
  std::string variant;

  std::map<std::string, Object> environment(TorchGraph &graph) const;
  /// The difference, empty if there is none; nullopt if torch rejects the
  /// expression for a reason other than an autocast list.
  std::optional<std::string> run() const;
};

} // namespace

std::map<std::string, Object> Probe::environment(TorchGraph &graph) const {
  std::string low = policy.getCompute() == PolicyType::Float16 ? "f16" : "bf16";
  std::map<std::string, Object> names;
  bool first = true;
  // The recording lists arguments in alphabetical order, which is theirs.
  for (auto &[name, extents] : row.at("shapes").items()) {
    std::string type = variant;
    if (variant == "low" || variant == (first ? "low_first" : "f32_first"))
      type = low;
    else if (variant != "f64")
      type = "f32";
    Shape shape;
    for (const Json &extent : extents)
      shape.push_back(extent.get<int64_t>());
    names[name] = graph.argument(shape, parseShortName(type, &context));
    first = false;
  }
  Builder b(&context);
  names["idx"] = graph.argument({4, 6}, b.getI64Type());
  names["cls"] = graph.argument({4}, b.getI64Type());
  names["sign"] = graph.argument({4, 6}, b.getF32Type());
  names["mask"] =
      graph.argument(TorchGraph::shapeOf(names.at("a").tensor), b.getI1Type());
  return names;
}

/// Ops that give their first operand's type to the result whatever the others
/// are. On tensors without data torch does not see that the kernel refuses.
static bool isUnbelievable(const Json &aten) {
  for (const AtenOp &op : parseAten(aten))
    if ((op.name == "index_copy" || op.name == "index_add") &&
        op.inputs.front() != op.inputs.back())
      return true;
  return false;
}

std::optional<std::string> Probe::run() const {
  const Json &recorded = row.at(variant);
  std::string out = recorded.at("out");
  bool refused = out.rfind("error:", 0) == 0;
  bool banned =
      refused &&
      out.find("torch.nn.functional.binary_cross_entropy") != std::string::npos;
  // Errors of a kernel are not rules of autocast.
  if ((refused && !banned) || isUnbelievable(recorded.at("aten")))
    return std::nullopt;
  TorchGraph graph(context, policy);
  Object result =
      evaluate(graph, *parseExpression(row.at("op")), environment(graph));
  llvm::SmallVector<Value> tensors;
  collectTensors(result, tensors);
  if (llvm::Error error = graph.assign(policy.getName().str(), tensors)) {
    std::string message = llvm::toString(std::move(error));
    if (banned && message.find("banned") != std::string::npos)
      return "";
    return variant + ": " + message;
  }
  if (banned)
    return variant + ": the preset does not refuse it";
  std::string types;
  appendTypes(graph, result, types);
  Trace found = graph.trace(0, graph.getNumCalls()),
        expected = traceOf(parseAten(recorded.at("aten")));
  // Autocast leaves f64 alone; float32 labels next to it are met inside the op.
  if (variant == "f64" &&
      llvm::all_of(found.computes, [&](const std::string &type) {
        return llvm::is_contained(expected.computes, type);
      }))
    found.computes = expected.computes;
  std::string difference = found.differenceFrom(expected);
  if (types != out)
    difference = "result is " + types + " instead of " + out +
                 (difference.empty() ? "" : ", ") + difference;
  return difference.empty() ? "" : variant + ": " + difference;
}

/// The name under which torch's lists would hold what `text` calls.
static std::string listedName(const std::string &text) {
  std::unique_ptr<Expression> tree = parseExpression(text);
  if (tree->kind != Expression::Kind::Call)
    return "";
  std::string name = tree->parts[0]->dottedName();
  for (const char *module : {"torch.", "F."})
    if (name.rfind(module, 0) == 0)
      name = name.substr(std::string(module).size());
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

/// For a row without a graph: whether the list that holds its op foretells the
/// recorded type of the result on 16-bit arguments. Nothing where it foretells
/// none.
static std::optional<bool> agreesWithLists(const Json &row,
                                           const Policy &policy) {
  std::string name = listedName(row.at("op"));
  std::string out = row.at("low").at("out");
  if (name.empty() || out.rfind("error:", 0) == 0)
    return std::nullopt;
  std::optional<PrecisionClass> cls = policy.classOfSystemOp(name);
  if (!cls)
    return std::nullopt;
  std::string low = policy.getCompute() == PolicyType::Float16 ? "f16" : "bf16";
  bool wide =
      *cls == PrecisionClass::High || *cls == PrecisionClass::HighResult;
  // Complex results have twice the width.
  std::string first = out.substr(0, out.find('/'));
  return wide ? first == "f32" || first == "c64"
              : first == low || first == "c32";
}

llvm::Expected<Tally> mpc::replay::replayTorchOps(const Json &recording,
                                                  MLIRContext &context) {
  llvm::Expected<Policy> policy = presetOf(recording);
  if (!policy)
    return policy.takeError();
  Tally tally;
  for (const Json &row : recording.at("ops")) {
    std::string name = row.at("op");
    std::string difference;
    bool compared = false;
    try {
      for (const char *variant :
           {"f32", "low", "low_first", "f32_first", "f64"}) {
        if (!row.contains(variant))
          continue;
        std::optional<std::string> found =
            Probe{*policy, context, row, variant}.run();
        compared |= found.has_value();
        if (found && !found->empty())
          difference += (difference.empty() ? "" : "; ") + *found;
      }
      if (compared)
        tally.note(name, difference);
      else
        tally.skip(name, "torch refuses all choices of types");
    } catch (const NotCovered &why) {
      std::optional<bool> agrees = agreesWithLists(row, *policy);
      std::string verdict = !agrees   ? ", in no list"
                            : *agrees ? ", as its list says"
                                      : "";
      if (agrees && !*agrees)
        tally.note(name, "the list says another type than was recorded");
      else
        tally.skip(name, why.what() + verdict);
    }
  }
  return tally;
}

//===----------------------------------------------------------------------===//
// programs.json
//===----------------------------------------------------------------------===//

namespace {

struct Line {
  const Json *recorded;
  Object result;
  size_t firstCall, lastCall;
};

} // namespace

/// Replays one program; returns the difference.
static std::string replayProgram(const Json &program, const Json &recording,
                                 const Policy &policy, MLIRContext &context) {
  TorchGraph graph(context, policy);
  Shape shape;
  for (const Json &extent : recording.at("shape"))
    shape.push_back(extent.get<int64_t>());
  std::map<std::string, Object> names;
  for (auto &[name, type] : recording.at("inputs").items())
    names[name] = graph.argument(
        shape, parseShortName(type.get<std::string>(), &context));
  std::vector<Line> lines;
  llvm::SmallVector<Value> results;
  for (const Json &line : program) {
    if (line.contains("error"))
      continue;
    std::string text = line.at("expression");
    size_t first = graph.getNumCalls();
    Object result = evaluate(graph, *parseExpression(text), names);
    if (text.find(".float()") != std::string::npos &&
        !line.at("aten").empty() && graph.getNumCalls() == first)
      throw NotCovered(
          "an f32 graph does not hold the widening of a value that "
          "only the preset narrows");
    names[line.at("out")] = result;
    collectTensors(result, results);
    lines.push_back({&line, result, first, graph.getNumCalls()});
  }
  if (llvm::Error error = graph.assign(policy.getName().str(), results))
    return llvm::toString(std::move(error));
  std::string difference;
  for (const Line &line : lines) {
    std::string types;
    appendTypes(graph, line.result, types);
    std::string found =
        graph.trace(line.firstCall, line.lastCall)
            .differenceFrom(traceOf(parseAten(line.recorded->at("aten"))));
    if (types != line.recorded->at("type").get<std::string>())
      found = "result is " + types + " instead of " +
              line.recorded->at("type").get<std::string>() +
              (found.empty() ? "" : ", ") + found;
    if (!found.empty())
      difference += (difference.empty() ? "" : "; ") +
                    line.recorded->at("out").get<std::string>() + " = " +
                    line.recorded->at("expression").get<std::string>() + ": " +
                    found;
  }
  return difference;
}

llvm::Expected<Tally> mpc::replay::replayTorchPrograms(const Json &recording,
                                                       MLIRContext &context) {
  llvm::Expected<Policy> policy = presetOf(recording);
  if (!policy)
    return policy.takeError();
  Tally tally;
  for (const Json &program : recording.at("programs")) {
    std::string name = "program " + std::to_string(tally.total);
    try {
      tally.note(name, replayProgram(program, recording, *policy, context));
    } catch (const NotCovered &why) {
      tally.skip(name, why.what());
    }
  }
  return tally;
}
