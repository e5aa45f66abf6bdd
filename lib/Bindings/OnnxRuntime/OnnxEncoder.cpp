//===- OnnxEncoder.cpp - subgraphs as ONNX models -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OnnxEncoder.h"

#include "Partition.h"

#include "onnx.pb.h"

#include <cstring>
#include <set>

using namespace mpc;
using namespace mpc::ort;

namespace {

/// AttributeProto.AttributeType
enum AttributeType : int {
  kFloat = 1,
  kInt,
  kString,
  kTensor,
  kGraph,
  kFloats,
  kInts,
  kStrings
};

/// Constants up to this size, in bytes, are part of the model: shapes, axes and
/// scalars.
constexpr size_t kMostInlineBytes = 1024;

class Encoder : HostReader {
public:
  Encoder(const HostApi &api, const HostGraph &graph, EncodedGroup &result)
      : HostReader(api), graph(graph), result(result) {}

  Status encode(const NodeGroup &group, bool forHost) {
    mpc_onnx::ModelProto model;
    model.set_ir_version(graph.irVersion);
    mpc_onnx::GraphProto &main = *model.mutable_graph();
    main.set_name("main");
    for (const std::string &name : group.inputs)
      addValue(graph.values.at(name), /*withShape=*/true, main.add_input());
    for (const std::string &name : group.outputs)
      addValue(graph.values.at(name), /*withShape=*/false, main.add_output());
    for (const std::string &name : group.constants)
      addConstant(name, graph.values.at(name).handle, /*isNested=*/false, main);
    for (size_t i : group.nodes) {
      current = i;
      addNode(graph.nodes[i], *main.add_node());
      if (!ok())
        return Status(status().code(), graph.nodes[i].describe(),
                      status().text());
    }
    for (const std::string &domain : domains) {
      auto *opset = model.add_opset_import();
      opset->set_domain(domain);
      auto version = graph.opsets.find(domain.empty() ? "" : domain);
      if (version == graph.opsets.end())
        version = graph.opsets.find("ai.onnx");
      opset->set_version(version == graph.opsets.end() ? 1 : version->second);
    }
    if (!ok())
      return status();
    result.model = model.SerializeAsString();
    if (forHost) {
      passConstantsAsInputs(main);
      result.modelForHost = model.SerializeAsString();
    }
    return {};
  }

private:
  /// Replaces external constants by inputs of the model.
  static void passConstantsAsInputs(mpc_onnx::GraphProto &main) {
    auto *constants = main.mutable_initializer();
    for (int i = constants->size() - 1; i >= 0; --i) {
      const mpc_onnx::TensorProto &constant = constants->Get(i);
      if (!constant.has_data_location())
        continue;
      auto *input = main.add_input();
      input->set_name(constant.name());
      auto *tensor = input->mutable_type()->mutable_tensor_type();
      tensor->set_elem_type(constant.data_type());
      for (int64_t extent : constant.dims())
        tensor->mutable_shape()->add_dim()->set_dim_value(extent);
      constants->DeleteSubrange(i, 1);
    }
  }

  void addValue(const HostValue &value, bool withShape,
                mpc_onnx::ValueInfoProto *proto) {
    proto->set_name(value.name);
    if (value.kind != kOnnxTensor)
      return;
    auto *tensor = proto->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(value.dataType);
    if (!withShape || !value.hasRank)
      return;
    auto *shape = tensor->mutable_shape();
    for (size_t i = 0; i < value.shape.size(); ++i) {
      auto *dim = shape->add_dim();
      if (value.shape[i] >= 0)
        dim->set_dim_value(value.shape[i]);
      else if (!value.symbols[i].empty())
        dim->set_dim_param(value.symbols[i]);
    }
  }

  /// Sets type, shape and, unless `isExternal`, bytes of `tensor`.
  static void describe(const HostTensor &tensor, bool isExternal,
                       mpc_onnx::TensorProto &proto) {
    proto.set_data_type(tensor.dataType);
    for (int64_t extent : tensor.shape)
      proto.add_dims(extent);
    if (!isExternal)
      proto.set_raw_data(tensor.data, tensor.bytes);
  }

  /// Adds a constant to `owner`. Those of nested bodies are always copied:
  /// ONNX Runtime could not read the external data of `modelForHost`.
  void addConstant(const std::string &name, const OrtValueInfo *handle,
                   bool isNested, mpc_onnx::GraphProto &owner) {
    const OrtValue *value = get(api::getInitializerValue, handle);
    if (!ok() || !value)
      return check(api.give(Status(StatusCode::Internal, name,
                                   "the constant's value cannot be read")));
    Result<HostTensor> tensor = api.tensor(value);
    if (!tensor.ok())
      return check(api.give(tensor.status()));
    mpc_onnx::TensorProto &proto = *owner.add_initializer();
    proto.set_name(name);
    bool isExternal = !isNested && tensor->bytes > kMostInlineBytes;
    describe(*tensor, isExternal, proto);
    if (!isExternal)
      return;
    proto.set_data_location(1);
    // Names of constants may look like paths.
    std::string file = "constant" + std::to_string(result.constants.size());
    auto *location = proto.add_external_data();
    location->set_key("location");
    location->set_value(file);
    result.constants[file] = {
        name, {static_cast<const std::byte *>(tensor->data), tensor->bytes}};
  }

  void addAttribute(const OrtOpAttr *handle, mpc_onnx::NodeProto &node) {
    OrtOpAttrType type = get(api::getAttributeType, handle);
    if (type == kOrtAttrGraph)
      return;
    mpc_onnx::AttributeProto &proto = *node.add_attribute();
    proto.set_name(text(api::getAttributeName, handle));
    switch (type) {
    case kOrtAttrInt:
      proto.set_type(kInt);
      if (auto values = attribute<int64_t>(handle, type); !values.empty())
        proto.set_i(values[0]);
      return;
    case kOrtAttrInts:
      proto.set_type(kInts);
      for (int64_t value : attribute<int64_t>(handle, type))
        proto.add_ints(value);
      return;
    case kOrtAttrFloat:
      proto.set_type(kFloat);
      if (auto values = attribute<float>(handle, type); !values.empty())
        proto.set_f(values[0]);
      return;
    case kOrtAttrFloats:
      proto.set_type(kFloats);
      for (float value : attribute<float>(handle, type))
        proto.add_floats(value);
      return;
    case kOrtAttrString:
      proto.set_type(kString);
      proto.set_s(stringAttribute(handle));
      return;
    case kOrtAttrStrings: {
      proto.set_type(kStrings);
      std::vector<char> chars = attribute<char>(handle, type);
      for (size_t i = 0; i < chars.size(); i += strlen(&chars[i]) + 1)
        proto.add_strings(&chars[i]);
      return;
    }
    case kOrtAttrTensor: {
      proto.set_type(kTensor);
      OrtValue *value = get(api::getTensorAttribute, handle);
      if (!value)
        break;
      if (Result<HostTensor> tensor = api.tensor(value); tensor.ok())
        describe(*tensor, /*isExternal=*/false, *proto.mutable_t());
      else
        check(api.give(tensor.status()));
      api(api::releaseValue)(value);
      return;
    }
    case kOrtAttrUndefined:
    case kOrtAttrGraph:
      break;
    }
    check(
        api.give(Status(StatusCode::InvalidArgument, "",
                        "ONNX Runtime does not give the value of attribute '" +
                            proto.name() + "'")));
  }

  void addNode(const HostNode &node, mpc_onnx::NodeProto &proto) {
    // Overrides refer to names, so that they are kept where they are unique.
    std::string name = node.name;
    for (int i = 0; name.empty() || result.nodeOfName.contains(name); ++i)
      name = (node.name.empty() ? node.op : node.name) + "#" +
             std::to_string(node.id) + (i ? "." + std::to_string(i) : "");
    result.nodeOfName[name] = current;
    proto.set_name(name);
    proto.set_op_type(node.op);
    if (!node.domain.empty())
      proto.set_domain(node.domain);
    domains.insert(node.domain);
    for (const std::string &input : node.inputs)
      proto.add_input(input);
    for (const std::string &output : node.outputs)
      proto.add_output(output);
    for (const OrtOpAttr *attribute :
         list(api::attributeCount, api::getAttributes, node.handle))
      addAttribute(attribute, proto);
    if (node.hasSubgraphs)
      addSubgraphs(node, proto);
  }

  void addSubgraphs(const HostNode &node, mpc_onnx::NodeProto &proto) {
    std::vector<const OrtGraph *> bodies(get(api::subgraphCount, node.handle));
    std::vector<const char *> names(bodies.size());
    check(api(api::getSubgraphs)(node.handle, bodies.data(), bodies.size(),
                                 names.data()));
    for (size_t i = 0; ok() && i < bodies.size(); ++i) {
      mpc_onnx::AttributeProto &attribute = *proto.add_attribute();
      attribute.set_name(names[i]);
      attribute.set_type(kGraph);
      addBody(bodies[i], *attribute.mutable_g());
    }
  }

  void addBody(const OrtGraph *handle, mpc_onnx::GraphProto &proto) {
    Result<HostGraph> body = HostGraph::read(api, handle);
    if (!body.ok())
      return check(api.give(body.status()));
    proto.set_name("body");
    std::set<std::string> inputs;
    auto valueOf = [&](const OrtValueInfo *info) {
      HostValue value;
      value.name = text(api::getValueName, info);
      if (auto known = body->values.find(value.name);
          known != body->values.end())
        return known->second;
      return value;
    };
    for (const OrtValueInfo *input :
         list(api::inputCount, api::getInputs, handle)) {
      inputs.insert(text(api::getValueName, input));
      addValue(valueOf(input), /*withShape=*/true, proto.add_input());
    }
    for (const OrtValueInfo *output :
         list(api::outputCount, api::getOutputs, handle))
      addValue(valueOf(output), /*withShape=*/false, proto.add_output());
    for (const OrtValueInfo *constant :
         list(api::initializerCount, api::getInitializers, handle)) {
      std::string name = text(api::getValueName, constant);
      if (!inputs.contains(name))
        addConstant(name, constant, /*isNested=*/true, proto);
    }
    for (const HostNode &node : body->nodes) {
      if (isRandom(node))
        return check(api.give(Status(StatusCode::InvalidArgument,
                                     graph.nodes[current].describe(),
                                     "mpc would repeat the random numbers of " +
                                         node.describe() + " in each run")));
      addNode(node, *proto.add_node());
    }
  }

  const HostGraph &graph;
  EncodedGroup &result;
  /// Top-level node that is being encoded.
  size_t current = 0;
  std::set<std::string> domains;
};

} // namespace

Result<EncodedGroup> mpc::ort::encodeGroup(const HostApi &api,
                                           const HostGraph &graph,
                                           const NodeGroup &group,
                                           bool forHost) {
  EncodedGroup result;
  if (Status status = Encoder(api, graph, result).encode(group, forHost);
      !status.ok())
    return status;
  return result;
}
