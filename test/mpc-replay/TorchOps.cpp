//===- TorchOps.cpp - torch's functions as graphs -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TorchOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

const Object *Arguments::find(size_t index, const std::string &name) const {
  if (index < positional.size())
    return &positional[index];
  auto it = keywords.find(name);
  return it == keywords.end() ? nullptr : &it->second;
}

Value Arguments::tensor(size_t index, const std::string &name) const {
  const Object *object = find(index, name);
  if (!object || object->kind != Object::Kind::Tensor)
    throw NotCovered("argument " + std::to_string(index) + " is no tensor");
  return object->tensor;
}

double Arguments::number(size_t index, const std::string &name,
                         double absent) const {
  const Object *object = find(index, name);
  if (!object)
    return absent;
  if (object->kind != Object::Kind::Number)
    throw NotCovered("argument " + std::to_string(index) + " is no number");
  return object->number;
}

bool Arguments::flag(size_t index, const std::string &name, bool absent) const {
  const Object *object = find(index, name);
  if (!object)
    return absent;
  if (object->kind != Object::Kind::Bool)
    throw NotCovered("argument " + std::to_string(index) +
                     " is not True or False");
  return object->number != 0;
}

std::string Arguments::text(const std::string &name,
                            const std::string &absent) const {
  auto it = keywords.find(name);
  return it == keywords.end() ? absent : it->second.text;
}

Shape Arguments::integers(size_t index, const std::string &name,
                          Shape absent) const {
  const Object *object = find(index, name);
  if (!object)
    return absent;
  if (object->kind == Object::Kind::Number)
    return {int64_t(object->number)};
  Shape values;
  for (const Object &item : object->items) {
    if (item.kind != Object::Kind::Number)
      throw NotCovered("argument " + std::to_string(index) +
                       " holds something else than numbers");
    values.push_back(int64_t(item.number));
  }
  return values;
}

std::vector<Value> Arguments::tensors(size_t index) const {
  const Object *object = find(index, "");
  std::vector<Value> values;
  if (object)
    for (const Object &item : object->items)
      if (item.kind == Object::Kind::Tensor)
        values.push_back(item.tensor);
  if (values.empty())
    throw NotCovered("argument " + std::to_string(index) +
                     " is no sequence of tensors");
  return values;
}

int64_t mpc::replay::wrapAxis(int64_t axis, int64_t rank) {
  axis += axis < 0 ? rank : 0;
  if (axis < 0 || axis >= rank)
    throw NotCovered("axis " + std::to_string(axis) + " of rank " +
                     std::to_string(rank));
  return axis;
}

const TorchFunctions &mpc::replay::torchFunctions() {
  static const TorchFunctions functions = [] {
    TorchFunctions made;
    addElementwise(made);
    addContractions(made);
    addReductions(made);
    addMovement(made);
    addLayers(made);
    addLosses(made);
    return made;
  }();
  return functions;
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

namespace {

class Evaluator {
public:
  Evaluator(TorchGraph &graph, const std::map<std::string, Object> &environment)
      : graph(graph), environment(environment) {}

  Object run(const Expression &node);

private:
  Object apply(const std::string &name, Arguments arguments) {
    auto it = torchFunctions().find(name);
    if (it == torchFunctions().end())
      throw NotCovered("no graph for '" + name + "'");
    return it->second(graph, arguments);
  }
  Object call(const Expression &node);
  Object attribute(const Expression &node);
  Object subscript(const Expression &node);
  Object binary(const Expression &node);

  TorchGraph &graph;
  const std::map<std::string, Object> &environment;
};

} // namespace

/// Short names of torch's types.
static const std::map<std::string, std::string> kTypes = {
    {"torch.float16", "f16"},
    {"torch.bfloat16", "bf16"},
    {"torch.float32", "f32"},
    {"torch.float64", "f64"}};

/// "torch.linalg.norm" -> "linalg.norm", "F.relu" -> "relu"; empty for names
/// outside of torch's modules.
static std::string functionName(const std::string &dotted) {
  for (const char *module : {"torch.", "F."})
    if (dotted.rfind(module, 0) == 0)
      return dotted.substr(std::string(module).size());
  return "";
}

Object Evaluator::run(const Expression &node) {
  switch (node.kind) {
  case Expression::Kind::Name: {
    if (node.text == "True" || node.text == "False") {
      Object object = Object::makeNumber(node.text == "True");
      object.kind = Object::Kind::Bool;
      return object;
    }
    if (node.text == "None")
      return {};
    auto it = environment.find(node.text);
    if (it == environment.end())
      throw NotCovered("the name '" + node.text + "' is not defined");
    return it->second;
  }
  case Expression::Kind::Number:
    return Object::makeNumber(node.number);
  case Expression::Kind::String: {
    Object object;
    object.kind = Object::Kind::Text;
    object.text = node.text;
    return object;
  }
  case Expression::Kind::Sequence: {
    std::vector<Object> items;
    for (const auto &part : node.parts)
      items.push_back(run(*part));
    return Object::makeSequence(std::move(items));
  }
  case Expression::Kind::Attribute:
    return attribute(node);
  case Expression::Kind::Call:
    return call(node);
  case Expression::Kind::Subscript:
    return subscript(node);
  case Expression::Kind::Unary: {
    Object operand = run(*node.parts[0]);
    if (operand.kind == Object::Kind::Number)
      return Object::makeNumber(-operand.number);
    return apply("neg", {{operand}, {}});
  }
  case Expression::Kind::Binary:
    return binary(node);
  case Expression::Kind::Slice:
    break;
  }
  throw NotCovered("a slice outside a subscript");
}

Object Evaluator::attribute(const Expression &node) {
  if (auto it = kTypes.find(node.dottedName()); it != kTypes.end()) {
    Object object;
    object.kind = Object::Kind::Type;
    object.text = it->second;
    return object;
  }
  // The first result of an op with several results.
  Object object = run(*node.parts[0]);
  if (node.text == "values" && object.kind == Object::Kind::Sequence)
    return object.items.at(0);
  throw NotCovered("the attribute '" + node.text + "'");
}

Object Evaluator::call(const Expression &node) {
  const Expression &callee = *node.parts[0];
  std::string name = functionName(callee.dottedName());
  Arguments arguments;
  if (name.empty() && callee.kind == Expression::Kind::Attribute) {
    name = callee.text;
    arguments.positional.push_back(run(*callee.parts[0]));
  } else if (name.empty()) {
    name = callee.text;
  }
  for (size_t i = 1; i < node.parts.size(); ++i)
    arguments.positional.push_back(run(*node.parts[i]));
  for (const auto &[key, value] : node.keywords)
    arguments.keywords[key] = run(*value);
  return apply(name, std::move(arguments));
}

Object Evaluator::subscript(const Expression &node) {
  Object object = run(*node.parts[0]);
  if (object.kind == Object::Kind::Sequence && node.parts.size() == 2) {
    Object index = run(*node.parts[1]);
    if (index.kind == Object::Kind::Number && index.number >= 0 &&
        index.number < object.items.size())
      return object.items[size_t(index.number)];
  }
  if (object.kind != Object::Kind::Tensor)
    throw NotCovered("a subscript of something else than a tensor");
  Value value = object.tensor;
  int64_t axis = 0;
  for (size_t i = 1; i < node.parts.size(); ++i) {
    const Expression &index = *node.parts[i];
    Shape shape = TorchGraph::shapeOf(value);
    if (axis >= int64_t(shape.size()))
      throw NotCovered("too many subscripts");
    if (index.kind == Expression::Kind::Slice) {
      int64_t start = 0, stop = shape[axis];
      if (index.parts[0])
        start = int64_t(run(*index.parts[0]).number);
      if (index.parts[1])
        stop = std::min(stop, int64_t(run(*index.parts[1]).number));
      if (start < 0 || stop < start)
        throw NotCovered("a slice from the end");
      value = graph.view("slice", value, [&](Value x) {
        return graph.slice(x, axis, start, stop - start);
      });
      ++axis;
      continue;
    }
    int64_t at = int64_t(run(index).number);
    Shape rest = shape;
    rest.erase(rest.begin() + axis);
    value = graph.view("select", value, [&](Value x) {
      return graph.reshape(graph.slice(x, axis, at, 1), rest);
    });
  }
  return value;
}

Object Evaluator::binary(const Expression &node) {
  static const std::map<std::string, std::string> kNames = {
      {"+", "add"},  {"-", "sub"},    {"*", "mul"}, {"/", "div"},
      {"**", "pow"}, {"@", "matmul"}, {">", "gt"},  {"<", "lt"}};
  Object lhs = run(*node.parts[0]), rhs = run(*node.parts[1]);
  // torch writes a number over a tensor as two ops.
  if (node.text == "/" && lhs.kind == Object::Kind::Number)
    return apply("mul", {{apply("reciprocal", {{rhs}, {}}), lhs}, {}});
  return apply(kNames.at(node.text), {{lhs, rhs}, {}});
}

Object mpc::replay::evaluate(TorchGraph &graph, const Expression &expression,
                             const std::map<std::string, Object> &environment) {
  return Evaluator(graph, environment).run(expression);
}
