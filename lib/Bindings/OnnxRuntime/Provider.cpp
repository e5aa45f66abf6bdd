//===- Provider.cpp - execution provider of one session -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Provider.h"

#include "HostThreads.h"
#include "Partition.h"

#include <nettle/base64.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

using namespace mpc;
using namespace mpc::ort;

/// Number of nodes that are left to ONNX Runtime one at a time, after which the
/// group of a failing node is.
static constexpr int kMostAttempts = 32;
/// Number of nodes that a message names.
static constexpr size_t kMostNamed = 4;

namespace {

/// A compiled node.
struct ComputeInfo : OrtNodeComputeInfo {
  ComputeInfo(const HostApi &api, std::unique_ptr<Subgraph> compiled)
      : api(api), subgraph(std::move(compiled)) {
    createState = [](OrtNodeComputeInfo *info, OrtNodeComputeContext *,
                     void **state) -> OrtStatus * {
      *state = info;
      return nullptr;
    };
    compute = [](OrtNodeComputeInfo *info, void *,
                 OrtKernelContext *context) -> OrtStatus * {
      auto *self = static_cast<ComputeInfo *>(info);
      RunningNode running(context);
      return self->api.give(self->subgraph->run(context));
    };
    releaseState = [](OrtNodeComputeInfo *, void *) {};
  }

  const HostApi &api;
  std::unique_ptr<Subgraph> subgraph;
};

} // namespace

Provider::Provider(const HostApi &api, const OrtLogger *logger,
                   ProviderOptions options, Device device)
    : session{api, logger, std::move(options), std::move(device)} {
  getName = [](const OrtEp *) { return kProviderName; };
  getCapability = [](OrtEp *ep, const OrtGraph *graph,
                     OrtEpGraphSupportInfo *support) {
    auto *self = static_cast<Provider *>(ep);
    return self->session.api.give(self->claim(graph, support));
  };
  compile = [](OrtEp *ep, const OrtGraph **, const OrtNode **fused,
               size_t count, OrtNodeComputeInfo **infos, OrtNode **contexts) {
    auto *self = static_cast<Provider *>(ep);
    return self->session.api.give(
        self->compileAll(fused, count, infos, contexts));
  };
  releaseNodeComputeInfos = [](OrtEp *, OrtNodeComputeInfo **infos,
                               size_t count) {
    for (size_t i = 0; i < count; ++i)
      delete static_cast<ComputeInfo *>(infos[i]);
  };
}

//===----------------------------------------------------------------------===//
// Claims
//===----------------------------------------------------------------------===//

Status Provider::addGroup(const HostGraph &graph,
                          const std::vector<size_t> &nodes, bool dropsConstants,
                          OrtEpGraphSupportInfo *support) const {
  std::vector<const OrtNode *> handles;
  handles.reserve(nodes.size());
  for (size_t node : nodes)
    handles.push_back(graph.nodes[node].handle);
  OrtNodeFusionOptions fusion;
  fusion.dropsConstants = dropsConstants;
  return session.api.take(session.api.ep(epApi::addNodesToFuse)(
      support, handles.data(), handles.size(), &fusion));
}

Status Provider::claim(const OrtGraph *handle, OrtEpGraphSupportInfo *support) {
  Result<HostGraph> graph = HostGraph::read(session.api, handle);
  if (!graph.ok())
    return graph.status();
  Result<bool> hasContexts = claimContexts(*graph, support);
  if (!hasContexts.ok())
    return hasContexts.status();
  // The body of a loop is compiled with its node, or runs in ONNX Runtime.
  if (*hasContexts || graph->nodes.empty() || graph->isNested)
    return {};
  Claims claims = findClaims(*graph);
  report(*graph, claims);
  if (Status status = checkUse(*graph, claims.subgraphs); !status.ok())
    return claimFailure(*graph, status, support);
  for (size_t i = 0; i < claims.subgraphs.size(); ++i) {
    std::unique_ptr<Subgraph> &subgraph = claims.subgraphs[i];
    if (Status status = addGroup(*graph, claims.groups[i].nodes,
                                 subgraph->dropsConstants(), support);
        !status.ok())
      return status;
    std::string output = subgraph->outputNames().front();
    claimed.insert_or_assign(std::move(output), std::move(subgraph));
  }
  return {};
}

Status Provider::claimFailure(const HostGraph &graph, const Status &failure,
                              OrtEpGraphSupportInfo *support) {
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const std::string &output : graph.nodes[i].outputs)
      if (!graph.nodes[i].isAssigned && !output.empty()) {
        claimed.insert_or_assign(output, failure);
        return addGroup(graph, {i}, /*dropsConstants=*/true, support);
      }
  return failure;
}

Status Provider::checkUse(
    const HostGraph &graph,
    const std::vector<std::unique_ptr<Subgraph>> &subgraphs) const {
  const CompileOptions &options = session.options.compile;
  for (const auto &[symbol, extent] : options.dims)
    if (std::none_of(graph.values.begin(), graph.values.end(),
                     [&, &symbol = symbol](const auto &entry) {
                       const std::vector<std::string> &symbols =
                           entry.second.symbols;
                       return entry.second.isGraphInput &&
                              std::find(symbols.begin(), symbols.end(),
                                        symbol) != symbols.end();
                     }))
      return Status(StatusCode::InvalidArgument, "provider option 'dims'",
                    "no input has a symbolic dimension named '" + symbol + "'");
  // Runs compile the others and report it.
  for (const auto &set : options.sets)
    if (!subgraphs.empty() &&
        std::none_of(subgraphs.begin(), subgraphs.end(), [&](const auto &each) {
          return !each->isCompiled() || each->usesOverride(set);
        }))
      return Status(StatusCode::InvalidArgument, "provider option 'set'",
                    "override '" + set.first + "=" + set.second +
                        "' matches no op that mpc compiles");
  return {};
}

bool Provider::markBoundary(const HostGraph &graph, const NodeGroup &group,
                            std::vector<std::string> &obstacles) {
  bool found = false;
  for (const auto *boundary : {&group.inputs, &group.outputs})
    for (const std::string &name : *boundary) {
      std::string obstacle = findBoundaryObstacle(graph.values.at(name));
      if (obstacle.empty())
        continue;
      for (size_t i : group.nodes) {
        const HostNode &node = graph.nodes[i];
        for (const auto *names :
             {&node.inputs, &node.implicitInputs, &node.outputs})
          if (std::find(names->begin(), names->end(), name) != names->end())
            obstacles[i] = obstacle;
      }
      found = true;
    }
  return found;
}

Provider::Claims Provider::findClaims(const HostGraph &graph) const {
  Claims claims;
  for (const HostNode &node : graph.nodes)
    claims.obstacles.push_back(findObstacle(graph, node));
  std::vector<std::string> &obstacles = claims.obstacles;
  std::vector<std::vector<size_t>> consumers = consumersOf(graph);
  // Groups that need no second attempt, by their nodes.
  std::map<std::vector<size_t>, std::unique_ptr<Subgraph>> prepared;
  int attempts = 0;
  for (bool isDone = false; !isDone;) {
    isDone = true;
    claims.groups.clear();
    std::vector<bool> isSupported;
    isSupported.reserve(obstacles.size());
    for (const std::string &obstacle : obstacles)
      isSupported.push_back(obstacle.empty());
    for (std::vector<size_t> &nodes : partition(consumers, isSupported)) {
      bool isWhole = nodes.size() == graph.nodes.size();
      NodeGroup group = makeGroup(graph, std::move(nodes));
      auto refuse = [&](const std::string &obstacle) {
        for (size_t i : group.nodes)
          obstacles[i] = obstacle;
      };
      if (markBoundary(graph, group, obstacles)) {
        isDone = false;
        continue;
      }
      int gain = 0;
      bool isNeeded = isWhole;
      for (size_t i : group.nodes) {
        gain += gainOf(graph.nodes[i]);
        isNeeded |= needsMpc(graph, graph.nodes[i]);
      }
      if (group.outputs.empty() || (!isNeeded && gain < kLeastGain)) {
        refuse("it is in a group too small to gain from fusion");
        isDone = false;
        continue;
      }
      if (!prepared.contains(group.nodes)) {
        Subgraph::Failure failure;
        std::unique_ptr<Subgraph> subgraph =
            Subgraph::prepare(session, graph, group, failure);
        if (!subgraph) {
          isDone = false;
          std::string obstacle = failure.status.toString();
          if (failure.node && ++attempts <= kMostAttempts)
            obstacles[*failure.node] = obstacle;
          else
            refuse(obstacle);
          continue;
        }
        prepared[group.nodes] = std::move(subgraph);
      }
      claims.groups.push_back(std::move(group));
    }
  }
  for (const NodeGroup &group : claims.groups)
    claims.subgraphs.push_back(std::move(prepared[group.nodes]));
  return claims;
}

void Provider::report(const HostGraph &graph, const Claims &claims) const {
  size_t count = 0, unassigned = 0;
  for (const NodeGroup &group : claims.groups)
    count += group.nodes.size();
  std::string others;
  size_t left = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const HostNode &node = graph.nodes[i];
    if (node.isAssigned)
      continue;
    ++unassigned;
    if (claims.obstacles[i].empty())
      continue;
    if (++left <= kMostNamed)
      others += "; " + node.describe() + ": " + claims.obstacles[i];
  }
  if (left > kMostNamed)
    others += "; and " + std::to_string(left - kMostNamed) + " more";
  std::string text = "mpc: compiles " + std::to_string(count) + " of " +
                     std::to_string(unassigned) + " nodes in " +
                     std::to_string(claims.groups.size()) + " subgraphs";
  if (left)
    text += "; ONNX Runtime runs the others" + others;
  session.api.log(session.logger, left ? kOrtWarning : kOrtInfo, text);
}

//===----------------------------------------------------------------------===//
// EPContext nodes
//===----------------------------------------------------------------------===//

/// Encodes a file as text: some versions of ONNX Runtime end a string attribute
/// at its first zero.
static std::string encodeContext(const std::string &bytes) {
  std::string text(BASE64_ENCODE_RAW_LENGTH(bytes.size()), '\0');
  base64_encode_raw(text.data(), bytes.size(),
                    reinterpret_cast<const uint8_t *>(bytes.data()));
  return text;
}

/// Reverses encodeContext(); fails at `where` on other text.
static Result<std::string> decodeContext(const std::string &text,
                                         const std::string &where) {
  base64_decode_ctx state;
  base64_decode_init(&state);
  std::string bytes(BASE64_DECODE_LENGTH(text.size()), '\0');
  size_t count = bytes.size();
  if (!base64_decode_update(&state, &count,
                            reinterpret_cast<uint8_t *>(bytes.data()),
                            text.size(), text.data()) ||
      !base64_decode_final(&state))
    return Status(StatusCode::InvalidArgument, where,
                  "the compiled program is not base64 text");
  bytes.resize(count);
  return bytes;
}

Result<std::optional<ExecutableFile>>
Provider::readContext(const HostGraph &graph, const HostNode &node) {
  HostReader reader(session.api);
  std::string source;
  const OrtOpAttr *contextAttribute = nullptr;
  int64_t isEmbedded = 1;
  for (const OrtOpAttr *attribute :
       reader.list(api::attributeCount, api::getAttributes, node.handle)) {
    std::string name = reader.text(api::getAttributeName, attribute);
    if (name == "source")
      source = reader.stringAttribute(attribute);
    else if (name == "ep_cache_context")
      contextAttribute = attribute;
    else if (name == "embed_mode")
      for (int64_t value : reader.attribute<int64_t>(attribute, kOrtAttrInt))
        isEmbedded = value;
  }
  if (!reader.ok())
    return reader.status();
  if (source != kProviderName)
    return std::optional<ExecutableFile>();
  if (!session.options.trusted)
    return Status(StatusCode::InvalidArgument, node.describe(),
                  "the model contains machine code, which would run in this "
                  "process; set the provider option trusted=1 if its origin is "
                  "trusted");
  if (graph.isNested)
    return Status(StatusCode::InvalidArgument, node.describe(),
                  "a compiled program is only supported in the main graph, not "
                  "in the body of a control-flow node");
  std::string context;
  if (contextAttribute)
    context = reader.stringAttribute(contextAttribute);
  if (!reader.ok())
    return reader.status();
  auto asOptional =
      [](Result<ExecutableFile> file) -> Result<std::optional<ExecutableFile>> {
    if (!file.ok())
      return file.status();
    return std::optional<ExecutableFile>(std::move(*file));
  };
  if (isEmbedded) {
    Result<std::string> bytes = decodeContext(context, node.describe());
    if (!bytes.ok())
      return bytes.status();
    return asOptional(ExecutableFile::fromBytes(
        std::as_bytes(std::span(*bytes)), node.describe()));
  }
  // The name is from the model: neither another folder nor a link.
  std::filesystem::path file(context);
  if (file.is_absolute() || file != file.filename())
    return Status(StatusCode::InvalidArgument, node.describe(),
                  "the file of the compiled program, '" + context +
                      "', is not beside the model");
  file = std::filesystem::path(graph.modelPath).parent_path() / file;
  std::error_code error;
  if (std::filesystem::symlink_status(file, error).type() !=
      std::filesystem::file_type::regular)
    return Status(StatusCode::NotFound, node.describe(),
                  "the file of the compiled program, '" + context +
                      "', is not a regular file");
  Result<ExecutableFile> opened = ExecutableFile::open(file.string());
  if (!opened.ok())
    return Status(opened.status().code(), node.describe(),
                  "the file of the compiled program, '" + context +
                      "': " + opened.status().text());
  return asOptional(std::move(opened));
}

Result<bool> Provider::claimContexts(const HostGraph &graph,
                                     OrtEpGraphSupportInfo *support) {
  bool found = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const HostNode &node = graph.nodes[i];
    if (node.op != "EPContext" || node.domain != "com.microsoft" ||
        node.isAssigned)
      continue;
    Result<std::optional<ExecutableFile>> file = readContext(graph, node);
    if (file.ok() && !*file)
      continue;
    // Outputs may be omitted.
    auto output = std::find_if(node.outputs.begin(), node.outputs.end(),
                               [](const auto &name) { return !name.empty(); });
    if (output == node.outputs.end())
      continue;
    if (Status status = addGroup(graph, {i}, true, support); !status.ok())
      return status;
    claimed.insert_or_assign(
        *output, file.ok()
                     ? Subgraph::load(session, graph, node.describe(), **file)
                     : file.status());
    found = true;
  }
  return found;
}

Result<OrtNode *>
Provider::makeContextNode(const Subgraph &subgraph, const std::string &name,
                          const std::vector<std::string> &inputs,
                          const std::vector<std::string> &outputs) {
  const HostApi &api = session.api;
  std::string context;
  if (session.options.embedsContext) {
    Result<std::string> bytes = subgraph.compileToBytes();
    if (!bytes.ok())
      return bytes.status();
    context = encodeContext(*bytes);
  } else {
    std::filesystem::path path = session.options.contextPath;
    if (path.empty())
      return Status(StatusCode::InvalidArgument, "ep.context_file_path",
                    "must name the compiled model, beside which its programs "
                    "are written");
    path.replace_filename(path.stem().string() + "_" +
                          std::to_string(contextFiles++) + ".mpcx");
    // ONNX Runtime replaces no model either.
    std::error_code error;
    if (std::filesystem::symlink_status(path, error).type() !=
        std::filesystem::file_type::not_found)
      return Status(StatusCode::InvalidArgument, path.string(),
                    "exists already; remove it, or choose another "
                    "ep.context_file_path");
    if (Status status = subgraph.compileToFile(path.string()); !status.ok())
      return status;
    context = path.filename().string();
  }
  HostReader reader(api);
  std::vector<OrtOpAttr *> attributes;
  auto add = [&](const char *key, const void *data, size_t count,
                 OrtOpAttrType type) {
    OrtOpAttr *attribute = nullptr;
    reader.check(
        api(api::createAttribute)(key, data, int(count), type, &attribute));
    if (attribute)
      attributes.push_back(attribute);
  };
  int64_t isMain = 1, isEmbedded = session.options.embedsContext;
  std::string source = kProviderName;
  add("ep_cache_context", context.data(), context.size(), kOrtAttrString);
  add("main_context", &isMain, 1, kOrtAttrInt);
  add("embed_mode", &isEmbedded, 1, kOrtAttrInt);
  add("partition_name", name.data(), name.size(), kOrtAttrString);
  add("source", source.data(), source.size(), kOrtAttrString);
  std::vector<const char *> inputNames, outputNames;
  for (const std::string &input : inputs)
    inputNames.push_back(input.c_str());
  for (const std::string &output : outputs)
    outputNames.push_back(output.c_str());
  OrtNode *node = nullptr;
  if (reader.ok())
    reader.check(api.editor(editorApi::createNode)(
        "EPContext", "com.microsoft", name.c_str(), inputNames.data(),
        inputNames.size(), outputNames.data(), outputNames.size(),
        attributes.data(), attributes.size(), &node));
  for (OrtOpAttr *attribute : attributes)
    api(api::releaseAttribute)(attribute);
  if (!reader.ok())
    return reader.status();
  return node;
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

Status Provider::compileAll(const OrtNode **fused, size_t count,
                            OrtNodeComputeInfo **infos,
                            OrtNode **contextNodes) {
  HostReader reader(session.api);
  auto namesOf = [&](const std::vector<const OrtValueInfo *> &values) {
    std::vector<std::string> names;
    names.reserve(values.size());
    for (const OrtValueInfo *value : values)
      names.push_back(value ? reader.text(api::getValueName, value) : "");
    return names;
  };
  std::vector<std::unique_ptr<ComputeInfo>> made;
  for (size_t i = 0; i < count; ++i) {
    std::string name = reader.text(api::getNodeName, fused[i]);
    std::vector<std::string> inputs =
        namesOf(reader.list(api::nodeInputCount, api::getNodeInputs, fused[i]));
    std::vector<std::string> outputs = namesOf(
        reader.list(api::nodeOutputCount, api::getNodeOutputs, fused[i]));
    if (!reader.ok())
      return reader.status();
    std::unique_ptr<Subgraph> subgraph;
    for (const std::string &output : outputs)
      if (auto entry = claimed.find(output); entry != claimed.end()) {
        if (!entry->second.ok())
          return entry->second.status();
        subgraph = *std::move(entry->second);
        claimed.erase(entry);
        break;
      }
    if (!subgraph)
      return Status(StatusCode::Internal, name,
                    "ONNX Runtime compiles nodes that were not claimed");
    if (session.options.writesContext) {
      Result<OrtNode *> node =
          makeContextNode(*subgraph, name, inputs, outputs);
      if (!node.ok())
        return node.status();
      contextNodes[i] = *node;
    }
    if (Status status = subgraph->bind(inputs, outputs); !status.ok())
      return status;
    made.push_back(
        std::make_unique<ComputeInfo>(session.api, std::move(subgraph)));
  }
  for (size_t i = 0; i < count; ++i)
    infos[i] = made[i].release();
  return {};
}
