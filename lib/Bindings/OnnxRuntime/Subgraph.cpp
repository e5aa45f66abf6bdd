//===- Subgraph.cpp - a compiled node group -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Subgraph.h"

#include "mpc/JIT/CompileFile.h"
#include "mpc/JIT/Signature.h"
#include "mpc/Support/ScopedTempFolder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <utility>

using namespace mpc;
using namespace mpc::ort;

/// Number of sets of shapes that one subgraph is compiled for; runs with others
/// fall back to ONNX Runtime, since compiling for each call would be slower.
static constexpr int64_t kMostSpecialisations = 64;

/// Number of sets of shapes whose failure is remembered.
static constexpr size_t kMostRefused = 4096;

/// Extents of dynamic dimensions in trial imports. Two, so that an error that
/// is due to the extents, which then differs, is told from one that is not.
static constexpr int64_t kSampleExtents[] = {64, 224};

//===----------------------------------------------------------------------===//
// Compilation with the session
//===----------------------------------------------------------------------===//

ModelSource Subgraph::makeSource() const {
  auto spans =
      std::make_shared<std::map<std::string, std::span<const std::byte>>>();
  for (const auto &[file, constant] : encoded.constants)
    (*spans)[file] = constant.bytes;
  return ModelSource::fromBytes(
      name, {std::as_bytes(std::span(encoded.model)), nullptr},
      [spans](const std::string &file) -> Result<SourceBytes> {
        auto span = spans->find(file);
        if (span == spans->end())
          return Status(StatusCode::NotFound, file, "is no constant");
        return SourceBytes{span->second, nullptr};
      });
}

std::optional<InputShapes> Subgraph::knownShapes(const HostGraph &graph,
                                                 const NodeGroup &group,
                                                 const ProviderOptions &options,
                                                 bool &usesDims) {
  InputShapes shapes;
  for (const std::string &input : group.inputs) {
    const HostValue &value = graph.values.at(input);
    std::vector<int64_t> shape = value.shape;
    if (!value.hasRank)
      return std::nullopt;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] >= 0)
        continue;
      auto bound = options.compile.dims.find(value.symbols[i]);
      if (value.symbols[i].empty() || bound == options.compile.dims.end())
        return std::nullopt;
      shape[i] = bound->second;
      usesDims = true;
    }
    shapes[input] = shape;
  }
  return shapes;
}

/// Returns the name of the model in messages and in the keys of the compile
/// cache.
static std::string nameOf(const HostGraph &graph) {
  std::filesystem::path path(graph.modelPath);
  return (path.stem().empty() ? "graph" : path.stem().string()) + ".onnx";
}

/// Returns true if a run may compile for the values of all of `inputs`: few
/// numbers that the caller gives, such as a shape or scales. Compiling for
/// data, or for what ONNX Runtime computes from data, would not end.
static bool mayCompileForValues(const HostGraph &graph,
                                const std::vector<std::string> &inputs) {
  constexpr int64_t kMostIntegers = 64, kMostFloats = 8;
  return std::all_of(inputs.begin(), inputs.end(), [&](const auto &name) {
    auto value = graph.values.find(name);
    if (value == graph.values.end() || !value->second.isGraphInput)
      return false;
    const std::vector<int64_t> &shape = value->second.shape;
    std::optional<ElementType> element = elementTypeOf(value->second.dataType);
    if (!element || !value->second.hasRank || shape.size() > 1)
      return false;
    return shape.empty() ||
           (isFloat(*element) ? shape[0] >= 0 && shape[0] <= kMostFloats
                              : shape[0] <= kMostIntegers);
  });
}

bool Subgraph::usesOverride(
    const std::pair<std::string, std::string> &set) const {
  return !unusedOverrides.contains(set.first + "=" + set.second);
}

bool Subgraph::checkSamples(const HostGraph &graph, const NodeGroup &group,
                            Failure &failure) const {
  CompileOptions options = compileOptions;
  std::string previous;
  for (int64_t sample : kSampleExtents) {
    for (const std::string &input : group.inputs) {
      const HostValue &value = graph.values.at(input);
      // The rank is unknown: only a run can tell.
      if (!value.hasRank)
        return true;
      std::vector<int64_t> shape = value.shape;
      for (size_t i = 0; i < shape.size(); ++i)
        if (shape[i] < 0) {
          auto bound = session.options.compile.dims.find(value.symbols[i]);
          // A leading dimension is a batch.
          shape[i] = bound != session.options.compile.dims.end() ? bound->second
                     : i == 0 && shape.size() > 1                ? 1
                                                                 : sample;
        }
      options.inputShapes[input] = shape;
    }
    ImportCheck check = checkImport(makeSource(), options);
    if (check.status.ok())
      return true;
    if (!check.neededInputs.empty() &&
        mayCompileForValues(graph, check.neededInputs))
      return true;
    auto node = encoded.nodeOfName.find(check.op);
    std::string text = check.op + check.status.text();
    if (node == encoded.nodeOfName.end() ||
        (!previous.empty() && text != previous))
      return true;
    previous = text;
    failure = {check.status, node->second};
  }
  return false;
}

std::unique_ptr<Subgraph> Subgraph::prepare(const SessionState &session,
                                            const HostGraph &graph,
                                            const NodeGroup &group,
                                            Failure &failure) {
  std::unique_ptr<Subgraph> made(new Subgraph(session));
  made->name = nameOf(graph);
  made->inputs = group.inputs;
  made->outputs = group.outputs;
  bool usesDims = false;
  std::optional<InputShapes> shapes =
      knownShapes(graph, group, session.options, usesDims);
  Result<EncodedGroup> encoded =
      encodeGroup(session.api, graph, group, /*forHost=*/true);
  if (!encoded.ok()) {
    failure = {encoded.status()};
    for (size_t i : group.nodes)
      if (graph.nodes[i].describe() == encoded.status().where())
        failure.node = i;
    return nullptr;
  }
  made->encoded = std::move(*encoded);
  if (!shapes)
    return made->checkSamples(graph, group, failure) ? std::move(made)
                                                     : nullptr;
  CompileOptions options = made->compileOptions;
  options.inputShapes = *shapes;
  Result<Engine> engine = Engine::create(session.device);
  if (!engine.ok()) {
    failure = {engine.status()};
    return nullptr;
  }
  std::string op;
  options.onDiagnostic = [&](const Diagnostic &message) {
    if (message.severity == Diagnostic::Severity::Error && op.empty())
      op = message.op;
    if (!message.unusedOverride.empty())
      made->unusedOverrides.insert(message.unusedOverride);
  };
  Result<Executable> compiled = engine->compile(made->makeSource(), options);
  if (compiled.ok()) {
    made->compiled = *compiled;
    made->isStatic = !usesDims;
    return made;
  }
  options.onDiagnostic = nullptr;
  ImportCheck check = checkImport(made->makeSource(), options);
  if (!check.neededInputs.empty() &&
      mayCompileForValues(graph, check.neededInputs))
    return made;
  failure = {compiled.status()};
  if (auto node = made->encoded.nodeOfName.find(op);
      node != made->encoded.nodeOfName.end())
    failure.node = node->second;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Compiled models (EPContext)
//===----------------------------------------------------------------------===//

Status Subgraph::compileToFile(const std::string &file) const {
  if (!compiled)
    return Status(StatusCode::InvalidArgument, name,
                  "a compiled model needs static shapes, but the subgraph that "
                  "computes '" +
                      outputs.front() +
                      "' has dynamic ones; bind them by the provider option "
                      "'dims', such as dims=batch=1");
  CompileOptions options = compileOptions;
  for (const ProgramValue &argument : compiled->program().arguments)
    options.inputShapes[argument.name] = argument.type.shape;
  std::string target = options.target.empty() ? "cpu:native" : options.target;
  return mpc::compileToFile(makeSource(), file, {target}, options).status();
}

Result<std::string> Subgraph::compileToBytes() const {
  ScopedTempFolder folder("mpc");
  if (!folder.ok())
    return Status(StatusCode::NotFound, name,
                  "no temporary folder can be made");
  std::string file = folder.path("program.mpcx");
  if (Status status = compileToFile(file); !status.ok())
    return status;
  std::ifstream stream(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  std::error_code error;
  if (bytes.size() != std::filesystem::file_size(file, error))
    return Status(StatusCode::NotFound, file, "cannot be read");
  return bytes;
}

/// Fails unless each value of a program has the type that the graph declares
/// for it.
static Status checkTypes(const HostGraph &graph, const std::string &name,
                         const std::vector<ProgramValue> &values) {
  for (const ProgramValue &value : values) {
    auto declared = graph.values.find(value.name);
    // bind() reports values that the node lacks.
    if (declared == graph.values.end())
      continue;
    const std::vector<int64_t> &shape = declared->second.shape;
    bool fits = elementTypeOf(declared->second.dataType) == value.type.element;
    if (declared->second.hasRank)
      fits &= std::equal(shape.begin(), shape.end(), value.type.shape.begin(),
                         value.type.shape.end(), [](int64_t host, int64_t own) {
                           return host < 0 || host == own;
                         });
    if (!fits)
      return Status(StatusCode::InvalidArgument, name,
                    "the compiled program has the type " +
                        value.type.toString() + " for value '" + value.name +
                        "', but the model declares another");
  }
  return {};
}

Result<std::unique_ptr<Subgraph>> Subgraph::load(const SessionState &session,
                                                 const HostGraph &graph,
                                                 const std::string &name,
                                                 const ExecutableFile &file) {
  LoadOptions options;
  options.trusted = true;
  options.maxMemory = session.options.compile.maxMemory;
  Result<Executable> executable = file.load(session.device, options);
  if (!executable.ok())
    return executable.status();
  for (const auto *values :
       {&executable->program().arguments, &executable->program().results})
    if (Status status = checkTypes(graph, name, *values); !status.ok())
      return status;
  std::unique_ptr<Subgraph> made(new Subgraph(session));
  made->name = name;
  made->isStatic = true;
  made->compiled = *executable;
  for (const ProgramValue &value : executable->program().arguments)
    made->inputs.push_back(value.name);
  for (const ProgramValue &value : executable->program().results)
    made->outputs.push_back(value.name);
  return made;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

Status Subgraph::bind(const std::vector<std::string> &nodeInputs,
                      const std::vector<std::string> &nodeOutputs) {
  for (size_t i = 0; i < nodeInputs.size(); ++i)
    positionOfInput.try_emplace(nodeInputs[i], i);
  for (size_t i = 0; i < nodeOutputs.size(); ++i)
    positionOfOutput.try_emplace(nodeOutputs[i], i);
  auto find = [&](const std::vector<std::string> &names, const auto &positions,
                  std::vector<size_t> &found) -> Status {
    for (const std::string &value : names) {
      auto position = positions.find(value);
      if (position == positions.end())
        return Status(StatusCode::Internal, name,
                      "the node of ONNX Runtime lacks value '" + value + "'");
      found.push_back(position->second);
    }
    return {};
  };
  if (Status status = find(inputs, positionOfInput, inputPositions);
      !status.ok())
    return status;
  if (Status status = find(outputs, positionOfOutput, outputPositions);
      !status.ok())
    return status;
  if (compiled) {
    Result<BoundHandle> bound = makeBound(*compiled, {});
    if (!bound.ok())
      return bound.status();
    fixed = *bound;
  }
  if (isStatic)
    encoded = {};
  for (auto &[file, constant] : encoded.constants)
    constant.bytes = {};
  return {};
}

bool Subgraph::Bound::fits(const std::vector<Buffer> &buffers) const {
  const std::vector<ProgramValue> &declared = executable.program().arguments;
  for (size_t i = 0; i < declared.size(); ++i)
    if (buffers[arguments[i]].type() != declared[i].type)
      return false;
  for (const auto &[position, value] : values) {
    const Buffer &given = buffers[position];
    if (given.type() != value.type() ||
        std::memcmp(given.data(), value.data(), value.size()) != 0)
      return false;
  }
  return true;
}

Result<Subgraph::BoundHandle>
Subgraph::makeBound(Executable executable,
                    const std::vector<Buffer> &buffers) const {
  auto bound =
      std::make_shared<Bound>(Bound{std::move(executable), {}, {}, {}});
  const Program &program = bound->executable.program();
  for (const ProgramValue &argument : program.arguments) {
    auto position = std::find(inputs.begin(), inputs.end(), argument.name);
    if (position == inputs.end())
      return Status(StatusCode::Internal, name,
                    "the program has an unknown input '" + argument.name + "'");
    bound->arguments.push_back(position - inputs.begin());
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (std::find(bound->arguments.begin(), bound->arguments.end(), i) !=
        bound->arguments.end())
      continue;
    Result<Buffer> copy = Buffer::fromHost(
        buffers[i].type(),
        {static_cast<const std::byte *>(buffers[i].data()), buffers[i].size()});
    if (!copy.ok())
      return copy.status();
    bound->values.emplace_back(i, std::move(*copy));
  }
  for (const ProgramValue &result : program.results) {
    auto position = positionOfOutput.find(result.name);
    if (position == positionOfOutput.end() || result.alias >= 0)
      return Status(StatusCode::Internal, name,
                    "the program has an unknown output '" + result.name + "'");
    bound->results.push_back(position->second);
  }
  return BoundHandle(std::move(bound));
}

Result<const OrtValue *> Subgraph::inputAt(OrtKernelContext *context,
                                           size_t position) const {
  const OrtValue *value = nullptr;
  if (Status status = session.api.take(
          session.api(api::contextInput)(context, position, &value));
      !status.ok())
    return status;
  if (!value)
    return Status(StatusCode::InvalidArgument, name,
                  "input " + std::to_string(position) + " is absent");
  return value;
}

Status Subgraph::run(OrtKernelContext *context) {
  std::vector<Buffer> buffers;
  buffers.reserve(inputs.size());
  for (size_t position : inputPositions) {
    Result<const OrtValue *> value = inputAt(context, position);
    if (!value.ok())
      return value.status();
    Result<HostTensor> tensor = session.api.tensor(*value);
    if (!tensor.ok())
      return tensor.status();
    std::optional<ElementType> element = elementTypeOf(tensor->dataType);
    if (!element)
      return Status(StatusCode::InvalidArgument, name,
                    "input " + std::to_string(position) +
                        " has an unknown element type");
    Result<Buffer> buffer = Buffer::fromHost(
        {*element, {tensor->shape.begin(), tensor->shape.end()}},
        {static_cast<const std::byte *>(tensor->data), tensor->bytes},
        HostMemory::Borrow);
    if (!buffer.ok())
      return buffer.status();
    buffers.push_back(std::move(*buffer));
  }
  if (isStatic || (fixed && fixed->fits(buffers)))
    return runBound(*fixed, std::move(buffers), context);
  BoundHandle last;
  {
    std::lock_guard<std::mutex> lock(mutex);
    last = recent;
  }
  if (last && last->fits(buffers))
    return runBound(*last, std::move(buffers), context);
  Result<BoundHandle> found = boundFor(buffers, context);
  if (!found.ok())
    return runInHost(found.status(), context);
  return runBound(**found, std::move(buffers), context);
}

Status Subgraph::runBound(const Bound &bound, std::vector<Buffer> buffers,
                          OrtKernelContext *context) const {
  const HostApi &api = session.api;
  const Program &program = bound.executable.program();
  std::vector<Buffer> arguments, results;
  arguments.reserve(bound.arguments.size());
  for (size_t position : bound.arguments)
    arguments.push_back(std::move(buffers[position]));
  results.reserve(bound.results.size());
  // Results that are copied to ONNX Runtime's memory after the run.
  std::vector<std::pair<size_t, void *>> copies;
  for (size_t i = 0; i < bound.results.size(); ++i) {
    const TensorType &type = program.results[i].type;
    OrtValue *output = nullptr;
    if (Status status = api.take(api(api::contextOutput)(
            context, bound.results[i], type.shape.data(), type.shape.size(),
            &output));
        !status.ok())
      return status;
    Result<HostTensor> tensor = api.tensor(output);
    if (!tensor.ok())
      return tensor.status();
    size_t bytes = size_t(*type.byteCount());
    if (elementTypeOf(tensor->dataType) != type.element ||
        tensor->bytes != bytes)
      return Status(StatusCode::InvalidArgument, name,
                    "ONNX Runtime has memory of another type for output '" +
                        program.results[i].name + "', " + type.toString());
    auto *memory = static_cast<const std::byte *>(tensor->data);
    // A caller may bind the memory of an input or of another output.
    auto isShared = [&](const Buffer &other) {
      auto *data = static_cast<const std::byte *>(other.data());
      return std::less<>()(memory, data + other.size()) &&
             std::less<>()(data, memory + bytes);
    };
    bool overlaps = std::any_of(arguments.begin(), arguments.end(), isShared) ||
                    std::any_of(results.begin(), results.end(), isShared);
    Result<Buffer> buffer =
        overlaps ? Buffer::allocate(type)
                 : Buffer::fromHost(type, {memory, bytes}, HostMemory::Borrow);
    if (!buffer.ok())
      return buffer.status();
    if (overlaps)
      copies.emplace_back(i, tensor->data);
    results.push_back(std::move(*buffer));
  }
  Status status = bound.executable.runInto(arguments, results);
  if (status.ok())
    for (auto [i, memory] : copies)
      std::memcpy(memory, std::as_const(results[i]).data(), results[i].size());
  return status;
}

void Subgraph::warnOfOverride(const Diagnostic &message) {
  if (message.unusedOverride.empty())
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!unusedOverrides.insert(message.unusedOverride).second)
      return;
  }
  session.api.log(session.logger, kOrtWarning,
                  "mpc: " + message.where + ": " + message.text);
}

bool Subgraph::dependsOnTypesOnly(const NamedBuffers &arguments) const {
  CompileOptions options = compileOptions;
  for (const auto &[input, buffer] : arguments)
    options.inputShapes[input] = buffer.type().shape;
  return checkImport(makeSource(), options).neededInputs.empty();
}

Result<Subgraph::BoundHandle>
Subgraph::boundFor(const std::vector<Buffer> &buffers,
                   OrtKernelContext *context) {
  NamedBuffers arguments;
  std::string key;
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments[inputs[i]] = buffers[i];
    key += buffers[i].type().toString();
  }
  bool isKnown = false;
  std::optional<Model> opened;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto entry = refused.find(key); entry != refused.end())
      return entry->second;
    if (!model) {
      // ONNX Runtime keeps constants at the same address as long as the
      // session.
      for (auto &[file, constant] : encoded.constants) {
        auto position = positionOfInput.find(constant.value);
        if (position == positionOfInput.end())
          return Status(StatusCode::Internal, name,
                        "ONNX Runtime does not pass constant '" +
                            constant.value + "'");
        Result<const OrtValue *> value = inputAt(context, position->second);
        if (!value.ok())
          return value.status();
        Result<HostTensor> tensor = session.api.tensor(*value);
        if (!tensor.ok())
          return tensor.status();
        constant.bytes = {static_cast<const std::byte *>(tensor->data),
                          tensor->bytes};
      }
      EngineLimits limits;
      limits.specialisations = kMostSpecialisations;
      Result<Engine> made = Engine::create(session.device, limits);
      if (!made.ok())
        return made.status();
      engine = std::make_shared<Engine>(*made);
      CompileOptions options = compileOptions;
      options.onDiagnostic = [this](const Diagnostic &message) {
        warnOfOverride(message);
      };
      model = engine->open(makeSource(), options);
    }
    opened = model;
    isKnown = known.contains(key);
    int64_t compiles = model->counts().compiles;
    // Values of inputs may need compiles for known shapes, too.
    if (compiles >= kMostSpecialisations * (isKnown ? 4 : 1) &&
        makeFallback().ok())
      return Status(StatusCode::ResourceExhausted, name,
                    "was compiled for " + std::to_string(compiles) +
                        " different shapes or values of inputs");
  }
  Result<Executable> executable = opened->specialise(arguments);
  bool isLasting = !executable.ok() && dependsOnTypesOnly(arguments);
  std::lock_guard<std::mutex> lock(mutex);
  if (!executable.ok()) {
    if (refused.size() >= kMostRefused)
      refused.clear();
    if (isLasting)
      refused.emplace(key, executable.status());
    return executable.status();
  }
  if (!isKnown)
    known.insert(key);
  if (auto entry = programs.find(&executable->program());
      entry != programs.end())
    return recent = entry->second;
  Result<BoundHandle> made = makeBound(*executable, buffers);
  if (!made.ok())
    return made;
  // Handles keep programs alive that the engine has evicted.
  if (programs.size() >= size_t(kMostSpecialisations))
    programs.clear();
  return recent = programs[&executable->program()] = *made;
}

Status Subgraph::makeFallback() {
  if (!fallback) {
    if (fallbackFailure.ok() && !session.options.fallsBack)
      fallbackFailure =
          Status(StatusCode::Unavailable, name,
                 "the session does not fall back to ONNX Runtime's provider");
    if (!fallbackFailure.ok())
      return fallbackFailure;
    Result<std::unique_ptr<HostSession>> made = HostSession::create(
        session.api, encoded.modelForHost, session.options.threads.value_or(0));
    if (!made.ok())
      return fallbackFailure = made.status();
    fallback = std::move(*made);
  }
  return {};
}

Status Subgraph::runInHost(const Status &why, OrtKernelContext *context) {
  std::vector<std::string> names = inputs;
  std::vector<size_t> positions = inputPositions;
  for (const auto &[file, constant] : encoded.constants) {
    names.push_back(constant.value);
    auto position = positionOfInput.find(constant.value);
    if (position == positionOfInput.end())
      return why;
    positions.push_back(position->second);
  }
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (Status status = makeFallback(); !status.ok())
      return session.options.fallsBack ? why.withNote(status.toString()) : why;
    if (!hasWarned)
      session.api.log(session.logger, kOrtWarning,
                      "mpc: a subgraph runs in ONNX Runtime's CPU provider: " +
                          why.toString());
    hasWarned = true;
  }
  std::vector<const OrtValue *> values;
  for (size_t position : positions) {
    Result<const OrtValue *> value = inputAt(context, position);
    if (!value.ok())
      return value.status();
    values.push_back(*value);
  }
  return fallback->run(names, values, outputs, outputPositions, context);
}
