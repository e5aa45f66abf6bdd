//===- ModelReader.cpp - conversion of ONNX bytes to Graph ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses the protobuf, moves its data into plain structs and inlines local
// functions: afterwards each node is an operator of a domain with a known opset
// and plain attribute values.
//
//===----------------------------------------------------------------------===//

#include "ExternalData.h"
#include "Graph.h"
#include "LayerPath.h"
#include "SourceOp.h"
#include "TensorReader.h"

#include "mpc/Import/ONNX.h"

#include "onnx.pb.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

static constexpr int64_t kOldestIr = 3;
static constexpr int64_t kNewestIr = 14;
/// Older opsets pass shapes and axes as attributes.
static constexpr int64_t kOldestCleanOpset = 13;
static constexpr size_t kMaxFunctionDepth = 64;
static constexpr int64_t kMaxInlinedBytes = int64_t(1) << 30;

const NodeAttribute *Node::find(StringRef attributeName) const {
  for (const NodeAttribute &attribute : attributes)
    if (attribute.name == attributeName)
      return &attribute;
  return nullptr;
}

namespace {

/// Renaming of names and attribute references in one body: the identity for the
/// main graph, unique names for an inlined function.
struct Scope {
  std::string prefix;
  llvm::StringMap<std::string> renamed;
  llvm::StringMap<const NodeAttribute *> arguments;
  llvm::StringMap<char> parameters;
  int64_t opset = 0;
  bool function = false;
  /// Properties that an inlined node inherits from the call.
  std::string callName, callLayer;
  int64_t callIndex = 0;

  std::string rename(StringRef name) const {
    if (!function || name.empty())
      return name.str();
    auto it = renamed.find(name);
    return it != renamed.end() ? it->second : prefix + name.str();
  }
};

class Reader {
public:
  Reader(StringRef fileName, MLIRContext *context)
      : context(context), file(StringAttr::get(context, fileName)) {}

  LogicalResult read(mpc_onnx::ModelProto &proto, Model &model);

private:
  using Functions = llvm::StringMap<mpc_onnx::FunctionProto *>;

  Location at(int64_t index, StringRef name) {
    Location place = FileLineColLoc::get(file, unsigned(index), 0);
    return name.empty()
               ? place
               : Location(NameLoc::get(StringAttr::get(context, name), place));
  }
  LogicalResult readOpsets(
      const google::protobuf::RepeatedPtrField<mpc_onnx::OperatorSetIdProto> &,
      StringRef owner, int64_t &opset);
  LogicalResult readGraph(mpc_onnx::GraphProto &proto, const Scope &scope,
                          Graph &graph);
  LogicalResult readValue(const mpc_onnx::ValueInfoProto &proto,
                          const Scope &scope, ValueInfo &value);
  LogicalResult
  readNodes(google::protobuf::RepeatedPtrField<mpc_onnx::NodeProto> &protos,
            const Scope &scope, std::vector<Node> &nodes);
  LogicalResult readNode(mpc_onnx::NodeProto &proto, int64_t index,
                         const Scope &scope, Node &node);
  void readSource(StringRef text, const Scope &scope, Node &node);
  LogicalResult readAttribute(mpc_onnx::AttributeProto &proto,
                              const Scope &scope, const Node &node,
                              NodeAttribute &attribute);
  LogicalResult inlineCall(mpc_onnx::FunctionProto &function, const Node &call,
                           std::vector<Node> &nodes);

  MLIRContext *context;
  StringAttr file;
  Functions functions;
  SmallVector<const mpc_onnx::FunctionProto *> callStack;
  int64_t nodeCount = 0, callCount = 0, copiedBytes = 0;
  /// Ids of framework ops, by the exporter's names.
  llvm::StringMap<int64_t> sourceIds;
};

} // namespace

/// "ai.onnx" is an alias of the default domain.
static StringRef canonicalDomain(StringRef domain) {
  return domain == "ai.onnx" ? StringRef() : domain;
}

static std::string functionKey(StringRef domain, StringRef name,
                               StringRef overload) {
  std::string key = canonicalDomain(domain).str();
  key.push_back('\0');
  key += name;
  key.push_back('\0');
  key += overload;
  return key;
}

LogicalResult Reader::readOpsets(
    const google::protobuf::RepeatedPtrField<mpc_onnx::OperatorSetIdProto>
        &protos,
    StringRef owner, int64_t &opset) {
  opset = 0;
  for (const auto &proto : protos) {
    if (!canonicalDomain(proto.domain()).empty())
      continue;
    if (opset != 0 && opset != proto.version())
      return emitError(at(0, ""))
             << owner << " imports two versions of the default domain, "
             << opset << " and " << proto.version();
    opset = proto.version();
  }
  if (opset == 0)
    return success();
  if (opset < kOldestOnnxOpset || opset > kNewestOnnxOpset)
    return emitError(at(0, ""))
           << owner << " needs opset " << opset << ", but mpc reads opsets "
           << kOldestOnnxOpset << " to " << kNewestOnnxOpset
           << "; export the model for one of these";
  return success();
}

LogicalResult Reader::read(mpc_onnx::ModelProto &proto, Model &model) {
  model.irVersion = proto.ir_version();
  if (model.irVersion < kOldestIr || model.irVersion > kNewestIr)
    return emitError(at(0, ""))
           << "the model has IR version " << model.irVersion
           << ", but mpc reads versions " << kOldestIr << " to " << kNewestIr;
  if (!proto.has_graph())
    return emitError(at(0, "")) << "the model has no graph";
  Scope scope;
  if (failed(readOpsets(proto.opset_import(), "the model", scope.opset)))
    return failure();
  model.opset = scope.opset;
  if (scope.opset != 0 && scope.opset < kOldestCleanOpset)
    emitWarning(at(0, "")) << "the model uses opset " << scope.opset
                           << "; export it for opset " << kOldestCleanOpset
                           << " or newer, whose operators are simpler";
  for (auto &function : *proto.mutable_functions()) {
    std::string key =
        functionKey(function.domain(), function.name(), function.overload());
    if (!functions.try_emplace(key, &function).second)
      return emitError(at(0, ""))
             << "local function '" << function.name() << "' of domain '"
             << function.domain() << "' is defined twice";
  }
  return readGraph(*proto.mutable_graph(), scope, model.graph);
}

LogicalResult Reader::readValue(const mpc_onnx::ValueInfoProto &proto,
                                const Scope &scope, ValueInfo &value) {
  value.name = scope.rename(proto.name());
  if (!proto.has_type())
    return success();
  const mpc_onnx::TypeProto &type = proto.type();
  switch (type.value_case()) {
  case mpc_onnx::TypeProto::kTensorType:
    value.kind = "tensor";
    break;
  case mpc_onnx::TypeProto::kSequenceType:
    value.kind = "sequence";
    return success();
  case mpc_onnx::TypeProto::kMapType:
    value.kind = "map";
    return success();
  case mpc_onnx::TypeProto::kSparseTensorType:
    value.kind = "sparse tensor";
    return success();
  case mpc_onnx::TypeProto::kOptionalType:
    value.kind = "optional";
    return success();
  default:
    return success();
  }
  value.dataType = type.tensor_type().elem_type();
  if (!type.tensor_type().has_shape())
    return success();
  value.dims.emplace();
  for (const auto &dim : type.tensor_type().shape().dim()) {
    Dimension dimension;
    // Some exporters write -1, or the symbol ?, for unknown extents, which need
    // not be equal.
    if (dim.has_dim_value() && dim.dim_value() != -1) {
      if (dim.dim_value() < 0)
        return emitError(at(0, ""))
               << "value '" << value.name << "' has a dimension of extent "
               << dim.dim_value();
      dimension.extent = dim.dim_value();
    } else if (dim.dim_param() != "?") {
      dimension.symbol = dim.dim_param();
    }
    value.dims->push_back(std::move(dimension));
  }
  if (int64_t(value.dims->size()) > kMaxRank)
    return emitError(at(0, ""))
           << "value '" << value.name << "' has " << value.dims->size()
           << " dimensions, more than " << kMaxRank;
  return success();
}

/// Parses the kinds of a module's tensors from the text of a signature with
/// lines "p_fc_weight: PARAMETER target='fc.weight'".
static void readSignature(StringRef text, llvm::StringMap<std::string> &kinds) {
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    StringRef declared = line.split(": ").second;
    auto [kind, fields] = declared.split(' ');
    if (fields.consume_front("target='"))
      kinds.try_emplace(fields.split('\'').first, kind.str());
  }
}

/// Records what PyTorch's exporter wrote about initializers: parameters and
/// buffers of the module, and the sources of those that the exporter
/// constant-folded. An initializer without a record is a constant, unless one
/// of the module's parameters is missing in the file.
static void readOrigins(const mpc_onnx::GraphProto &proto, Graph &graph) {
  llvm::StringMap<std::string> kinds;
  llvm::StringMap<StringRef> folded;
  for (const auto &entry : proto.metadata_props())
    if (entry.key() == "pkg.torch.export.ExportedProgram.graph_signature")
      readSignature(entry.value(), kinds);
  llvm::StringSet<> missing;
  for (const auto &entry : kinds)
    if (entry.second == "PARAMETER")
      missing.insert(entry.first());
  bool hasSignature = !missing.empty();
  auto readValues = [&](const auto &values) {
    for (const auto &value : values)
      for (const auto &entry : value.metadata_props()) {
        if (entry.key() == "pkg.torch.export.graph_signature.InputSpec.kind")
          kinds.try_emplace(value.name(), entry.value());
        if (entry.key() == "pkg.onnxscript.optimizer.folded_from")
          folded.try_emplace(value.name(), entry.value());
      }
  };
  readValues(proto.input());
  readValues(proto.value_info());
  auto isBuffer = [](StringRef kind) {
    return kind == "BUFFER" || kind == "CONSTANT_TENSOR";
  };
  for (TensorData &tensor : graph.initializers) {
    std::string kind = kinds.lookup(tensor.name);
    SmallVector<StringRef> parameters, buffers;
    missing.erase(tensor.name);
    for (StringRef source : stringsOfList(folded.lookup(tensor.name))) {
      missing.erase(source);
      std::string of = kinds.lookup(source);
      if (of == "PARAMETER")
        parameters.push_back(source);
      else if (isBuffer(of))
        buffers.push_back(source);
    }
    if (kind == "PARAMETER" || !parameters.empty())
      tensor.origin = {ConstantOrigin::Kind::Parameter,
                       llvm::join(parameters, ", ")};
    else if (isBuffer(kind) || !buffers.empty())
      tensor.origin = {ConstantOrigin::Kind::Buffer, llvm::join(buffers, ", ")};
  }
  graph.recordsParameters = hasSignature && missing.empty();
  for (TensorData &tensor : graph.initializers)
    tensor.origin.isUnrecorded =
        graph.recordsParameters &&
        tensor.origin.kind == ConstantOrigin::Kind::Initializer;
}

LogicalResult Reader::readGraph(mpc_onnx::GraphProto &proto, const Scope &scope,
                                Graph &graph) {
  graph.name = proto.name();
  if (proto.sparse_initializer_size() != 0)
    return emitError(at(0, ""))
           << "graph '" << graph.name
           << "' has sparse initializers, which mpc does not read";
  auto readValues = [&](const auto &protos, std::vector<ValueInfo> &values) {
    for (const auto &valueProto : protos)
      if (failed(readValue(valueProto, scope, values.emplace_back())))
        return failure();
    return success();
  };
  if (failed(readValues(proto.input(), graph.inputs)) ||
      failed(readValues(proto.output(), graph.outputs)) ||
      failed(readValues(proto.value_info(), graph.values)))
    return failure();
  for (auto &tensorProto : *proto.mutable_initializer()) {
    TensorData &tensor = graph.initializers.emplace_back();
    std::string what = "initializer '" + tensorProto.name() + "'";
    if (failed(
            readTensor(tensorProto, tensor, at(0, tensorProto.name()), what)))
      return failure();
    tensor.name = scope.rename(tensor.name);
  }
  if (!scope.function)
    readOrigins(proto, graph);
  return readNodes(*proto.mutable_node(), scope, graph.nodes);
}

LogicalResult Reader::readNodes(
    google::protobuf::RepeatedPtrField<mpc_onnx::NodeProto> &protos,
    const Scope &scope, std::vector<Node> &nodes) {
  for (int i = 0, e = protos.size(); i < e; ++i) {
    if (++nodeCount > kMaxNodes)
      return emitError(at(i, ""))
             << "the model has more than " << kMaxNodes
             << " nodes after inlining its local functions";
    Node node;
    mpc_onnx::NodeProto &proto = protos[i];
    if (failed(readNode(proto, i, scope, node)))
      return failure();
    auto function =
        functions.find(functionKey(node.domain, node.op, proto.overload()));
    if (function == functions.end()) {
      nodes.push_back(std::move(node));
      continue;
    }
    if (failed(inlineCall(*function->second, node, nodes)))
      return failure();
  }
  return success();
}

void Reader::readSource(StringRef text, const Scope &scope, Node &node) {
  SourceOp source = parseFxNode(text);
  if (source.op.empty())
    return;
  node.source = source.op;
  node.sourceId =
      sourceIds.try_emplace(scope.prefix + source.name, sourceIds.size())
          .first->second;
}

LogicalResult Reader::readNode(mpc_onnx::NodeProto &proto, int64_t index,
                               const Scope &scope, Node &node) {
  node.op = proto.op_type();
  node.domain = canonicalDomain(proto.domain()).str();
  node.index = scope.function ? scope.callIndex : index;
  node.opset = scope.opset;
  for (const std::string &input : proto.input())
    node.inputs.push_back(scope.rename(input));
  for (const std::string &output : proto.output())
    node.outputs.push_back(scope.rename(output));
  node.name = proto.name();
  if (node.name.empty() && !node.outputs.empty())
    node.name = proto.output(0);
  if (scope.function)
    node.name = scope.callName + "/" + node.name;
  for (const auto &entry : proto.metadata_props()) {
    if (entry.key() == "pkg.torch.onnx.name_scopes")
      node.layer = layerFromScopes(entry.value());
    if (entry.key() == "pkg.torch.onnx.fx_node")
      readSource(entry.value(), scope, node);
  }
  if (node.layer.empty())
    node.layer = scope.function ? scope.callLayer : layerFromName(proto.name());
  node.location = at(node.index, node.name);
  if (node.op.empty())
    return emitError(node.location) << "a node without an op type";
  llvm::StringSet<> names;
  for (auto &attributeProto : *proto.mutable_attribute()) {
    NodeAttribute attribute;
    if (!names.insert(attributeProto.name()).second)
      return emitError(node.location)
             << node.op << ": attribute '" << attributeProto.name()
             << "' is given twice";
    if (!attributeProto.ref_attr_name().empty()) {
      auto argument = scope.arguments.find(attributeProto.ref_attr_name());
      if (argument != scope.arguments.end()) {
        attribute = *argument->second;
        attribute.name = attributeProto.name();
        node.attributes.push_back(std::move(attribute));
      } else if (!scope.parameters.contains(attributeProto.ref_attr_name())) {
        return emitError(node.location)
               << node.op << ": attribute '" << attributeProto.name()
               << "' refers to '" << attributeProto.ref_attr_name()
               << "', which no enclosing function declares";
      }
      continue;
    }
    if (failed(readAttribute(attributeProto, scope, node, attribute)))
      return failure();
    node.attributes.push_back(std::move(attribute));
  }
  return success();
}

LogicalResult Reader::readAttribute(mpc_onnx::AttributeProto &proto,
                                    const Scope &scope, const Node &node,
                                    NodeAttribute &attribute) {
  attribute.name = proto.name();
  int32_t type = proto.type();
  // Files of early IR versions omit the type: infer it from the field that is
  // set.
  if (type == 0)
    type = proto.has_f()          ? 1
           : proto.has_i()        ? 2
           : proto.has_s()        ? 3
           : proto.has_t()        ? 4
           : proto.has_g()        ? 5
           : proto.floats_size()  ? 6
           : proto.ints_size()    ? 7
           : proto.strings_size() ? 8
                                  : 0;
  switch (type) {
  case 1:
    attribute.kind = NodeAttribute::Kind::Float;
    attribute.f = proto.f();
    return success();
  case 2:
    attribute.kind = NodeAttribute::Kind::Int;
    attribute.i = proto.i();
    return success();
  case 3:
    attribute.kind = NodeAttribute::Kind::String;
    attribute.s = proto.s();
    return success();
  case 4: {
    attribute.kind = NodeAttribute::Kind::Tensor;
    attribute.tensor = std::make_shared<TensorData>();
    std::string what = node.op + ": attribute '" + attribute.name + "'";
    return readTensor(*proto.mutable_t(), *attribute.tensor, node.location,
                      what);
  }
  case 5:
    attribute.kind = NodeAttribute::Kind::Graph;
    attribute.graph = std::make_shared<Graph>();
    return readGraph(*proto.mutable_g(), scope, *attribute.graph);
  case 6:
    attribute.kind = NodeAttribute::Kind::Floats;
    attribute.floats.assign(proto.floats().begin(), proto.floats().end());
    return success();
  case 7:
    attribute.kind = NodeAttribute::Kind::Ints;
    attribute.ints.assign(proto.ints().begin(), proto.ints().end());
    return success();
  case 8:
    attribute.kind = NodeAttribute::Kind::Strings;
    attribute.strings.assign(proto.strings().begin(), proto.strings().end());
    return success();
  case 0:
  case 9:
  case 10:
  case 11:
  case 12:
  case 13:
  case 14:
    attribute.kind = NodeAttribute::Kind::Other;
    return success();
  default:
    return emitError(node.location)
           << node.op << ": attribute '" << attribute.name
           << "' has unknown type " << type;
  }
}

LogicalResult Reader::inlineCall(mpc_onnx::FunctionProto &function,
                                 const Node &call, std::vector<Node> &nodes) {
  if (llvm::is_contained(callStack, &function))
    return emitError(call.location)
           << "local function '" << function.name() << "' calls itself";
  if (callStack.size() >= kMaxFunctionDepth)
    return emitError(call.location) << "local functions are nested more than "
                                    << kMaxFunctionDepth << " deep";
  if (int(call.inputs.size()) > function.input_size() ||
      int(call.outputs.size()) > function.output_size())
    return emitError(call.location)
           << "local function '" << function.name() << "' has "
           << function.input_size() << " inputs and " << function.output_size()
           << " outputs, but is called with " << call.inputs.size() << " and "
           << call.outputs.size();
  Scope scope;
  scope.function = true;
  scope.callName = call.name;
  scope.callLayer = call.layer;
  scope.callIndex = call.index;
  scope.prefix = call.name + "#" + std::to_string(callCount++) + "/";
  if (failed(readOpsets(function.opset_import(),
                        "local function '" + function.name() + "'",
                        scope.opset)))
    return failure();
  if (scope.opset == 0)
    scope.opset = call.opset;
  for (int i = 0; i < function.input_size(); ++i)
    scope.renamed[function.input(i)] =
        i < int(call.inputs.size()) ? call.inputs[i] : "";
  llvm::StringMap<std::string> outputs;
  for (int i = 0; i < int(call.outputs.size()); ++i)
    if (!call.outputs[i].empty() &&
        !scope.renamed.contains(function.output(i)) &&
        !outputs.try_emplace(function.output(i), call.outputs[i]).second)
      return emitError(call.location)
             << "local function '" << function.name() << "' has the output '"
             << function.output(i) << "' twice";
  for (const auto &entry : outputs)
    scope.renamed[entry.first()] = entry.second;

  std::vector<std::unique_ptr<NodeAttribute>> defaults;
  for (const std::string &name : function.attribute()) {
    scope.parameters[name] = 1;
    if (const NodeAttribute *given = call.find(name))
      scope.arguments[name] = given;
  }
  for (auto &proto : *function.mutable_attribute_proto()) {
    scope.parameters[proto.name()] = 1;
    if (const NodeAttribute *given = call.find(proto.name())) {
      scope.arguments[proto.name()] = given;
      continue;
    }
    defaults.push_back(std::make_unique<NodeAttribute>());
    mpc_onnx::AttributeProto copy = proto;
    if (failed(readAttribute(copy, scope, call, *defaults.back())))
      return failure();
    scope.arguments[proto.name()] = defaults.back().get();
  }
  for (const NodeAttribute &attribute : call.attributes)
    if (!scope.parameters.contains(attribute.name))
      return emitError(call.location)
             << "local function '" << function.name() << "' has no attribute '"
             << attribute.name << "'";

  // Copied per call, since reading a tensor moves its data out.
  copiedBytes += int64_t(function.ByteSizeLong());
  if (copiedBytes > kMaxInlinedBytes)
    return emitError(call.location)
           << "the local functions take more than " << kMaxInlinedBytes
           << " bytes where they are inlined";
  auto body = function.node();
  callStack.push_back(&function);
  LogicalResult result = readNodes(body, scope, nodes);
  callStack.pop_back();
  if (failed(result))
    return failure();
  // An output that is also an input of the function needs an Identity node.
  for (int i = 0; i < int(call.outputs.size()); ++i) {
    auto input = llvm::find(function.input(), function.output(i));
    if (call.outputs[i].empty() || input == function.input().end())
      continue;
    Node identity = call;
    identity.op = "Identity";
    identity.domain.clear();
    identity.attributes.clear();
    identity.inputs = {scope.rename(*input)};
    identity.outputs = {call.outputs[i]};
    nodes.push_back(std::move(identity));
  }
  return success();
}

std::unique_ptr<Model> mpc::onnx::readModel(ArrayRef<char> bytes,
                                            StringRef fileName,
                                            StringRef folder,
                                            MLIRContext *context) {
  Location location =
      FileLineColLoc::get(StringAttr::get(context, fileName), 0, 0);
  if (bytes.size() > size_t(std::numeric_limits<int32_t>::max())) {
    emitError(location) << "the model has " << bytes.size()
                        << " bytes, but protobuf holds at most 2147483647; "
                           "store its weights as "
                           "external data";
    return nullptr;
  }
  mpc_onnx::ModelProto proto;
  if (bytes.empty() || !proto.ParseFromArray(bytes.data(), int(bytes.size()))) {
    emitError(location) << "this is not an ONNX model: its " << bytes.size()
                        << " bytes do not parse";
    return nullptr;
  }
  auto model = std::make_unique<Model>();
  model->fileName = fileName.str();
  model->folder = folder.str();
  Reader reader(fileName, context);
  if (failed(reader.read(proto, *model)) ||
      failed(checkGraph(model->graph, location)))
    return nullptr;
  return model;
}
