//===- Models.cpp - C API: models, compilation, sessions ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Models.h"

#include "mpc/JIT/BestPolicy.h"
#include "mpc/JIT/CompileFile.h"
#include "mpc/JIT/PolicySummary.h"
#include "mpc/JIT/Signature.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>

using namespace mpc;
using namespace mpc::c;

int32_t mpc_has_compiler(void) { return 1; }

Status mpc::c::createEngine(const Device &device, EngineLimits limits,
                            std::optional<Engine> &engine) {
  Result<Engine> made = Engine::create(device, limits);
  MPC_RETURN_IF_FAILED(made.status());
  engine = std::move(*made);
  return {};
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

const Status &mpc_model::read() const {
  std::call_once(once, [&] {
    Result<std::vector<ModelInput>> result = readInputs(source);
    outcome = result.status();
    if (result.ok())
      inputs = std::move(*result);
    for (const ModelInput &input : inputs) {
      symbols.emplace_back();
      for (size_t i = 0; i < input.shape.size(); ++i)
        symbols.back().push_back(
            i < input.symbols.size() ? input.symbols[i].c_str() : "");
    }
    endTokens = source.endIds();
  });
  return outcome;
}

mpc_status mpc_model_open(const char *path, mpc_model **model) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("model", model));
    MPC_RETURN_IF_FAILED(checkPointer("path", path));
    if (!*path)
      return invalid("path", "is empty");
    return give(model, ModelSource(path));
  });
}

/// Calls `release` when the last user of a caller's memory is gone.
static std::shared_ptr<const void> ownerOf(const mpc_model_bytes &bytes) {
  // A null pointer would read as no owner.
  static const char anchor = 0;
  return {&anchor, [release = bytes.release, user = bytes.user](const void *) {
            release(user);
          }};
}

static ExternalDataReader readerOf(const mpc_model_bytes &bytes,
                                   const std::shared_ptr<const void> &owner) {
  if (bytes.external_folder)
    return readFilesIn(bytes.external_folder);
  if (!bytes.read_external)
    return {};
  return [read = bytes.read_external, user = bytes.user,
          owner](const std::string &name) -> Result<SourceBytes> {
    const void *data = nullptr;
    size_t size = 0;
    if (mpc_status status = read(user, name.c_str(), &data, &size);
        status != MPC_OK)
      return Status(status == MPC_NOT_FOUND ? StatusCode::NotFound
                                            : StatusCode::InvalidArgument,
                    name,
                    std::string("mpc_model_bytes.read_external returned ") +
                        mpc_status_name(status));
    std::span<const std::byte> span;
    MPC_RETURN_IF_FAILED(readArray(
        name.c_str(), static_cast<const std::byte *>(data), size, span));
    return owner ? SourceBytes{span, owner} : SourceBytes::copyOf(span);
  };
}

mpc_status mpc_model_from_bytes(const mpc_model_bytes *bytes,
                                mpc_model **model) {
  return call([&]() -> Status {
    mpc_model_bytes own;
    MPC_RETURN_IF_FAILED(checkPointer("mpc_model_bytes", bytes));
    Status read = readStruct("mpc_model_bytes", bytes, own);
    std::shared_ptr<const void> owner;
    if (own.release)
      owner = ownerOf(own);
    MPC_RETURN_IF_FAILED(read);
    MPC_RETURN_IF_FAILED(clear("model", model));
    MPC_RETURN_IF_FAILED(checkPointer("mpc_model_bytes.name", own.name));
    if (!*own.name)
      return invalid("mpc_model_bytes.name", "is empty");
    if (own.external_folder && own.read_external)
      return invalid("mpc_model_bytes",
                     "has both external_folder and read_external");
    std::span<const std::byte> span;
    MPC_RETURN_IF_FAILED(readArray("mpc_model_bytes.data",
                                   static_cast<const std::byte *>(own.data),
                                   own.bytes, span));
    SourceBytes source =
        owner ? SourceBytes{span, owner} : SourceBytes::copyOf(span);
    return give(model, ModelSource::fromBytes(own.name, std::move(source),
                                              readerOf(own, owner)));
  });
}

mpc_status mpc_model_input_count(const mpc_model *model, size_t *count) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("model", model));
    MPC_RETURN_IF_FAILED(checkPointer("count", count));
    MPC_RETURN_IF_FAILED(model->read());
    *count = model->inputs.size();
    return {};
  });
}

mpc_status mpc_model_input(const mpc_model *model, size_t index,
                           mpc_value_info *info) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("model", model));
    MPC_RETURN_IF_FAILED(model->read());
    MPC_RETURN_IF_FAILED(checkIndex("inputs", index, model->inputs.size()));
    const ModelInput &input = model->inputs[index];
    mpc_value_info own = {};
    own.name = input.name.c_str();
    own.element = input.element ? elementNumber(*input.element) : 0;
    own.is_optional = input.isOptional;
    own.shape = input.shape.data();
    own.rank = input.shape.size();
    own.symbols = model->symbols[index].data();
    own.role = "input";
    own.alias = -1;
    return writeStruct("mpc_value_info", info, own);
  });
}

mpc_status mpc_model_end_tokens(const mpc_model *model, const int64_t **tokens,
                                size_t *count) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("model", model));
    MPC_RETURN_IF_FAILED(
        checkPointer("tokens", static_cast<const void *>(tokens)));
    MPC_RETURN_IF_FAILED(checkPointer("count", count));
    MPC_RETURN_IF_FAILED(model->read());
    *tokens = model->endTokens.data();
    *count = model->endTokens.size();
    return {};
  });
}

void mpc_model_destroy(mpc_model *model) { destroy(model); }

//===----------------------------------------------------------------------===//
// Policies
//===----------------------------------------------------------------------===//

static const std::vector<std::string> &policies() {
  static const std::vector<std::string> names = builtinPolicies();
  return names;
}

const char *mpc_policy_name(size_t index) {
  return index < policies().size() ? policies()[index].c_str() : nullptr;
}

mpc_status mpc_best_policy(const char *target, const char **policy) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("policy", policy));
    Result<std::string> best = bestPolicy(textOr(target, ""));
    MPC_RETURN_IF_FAILED(best.status());
    auto found = std::find(policies().begin(), policies().end(), *best);
    if (found == policies().end())
      return Status(StatusCode::Internal, *best, "is not a built-in policy");
    *policy = found->c_str();
    return {};
  });
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

static constexpr uint32_t kCompileFlags =
    MPC_RELAXED_ROUNDING | MPC_NO_CACHE | MPC_VERIFY_FILES | MPC_PART_OF_MODEL;

/// Formats "mpc_compile_options.FIELD".
static std::string fieldName(const char *field) {
  return std::string("mpc_compile_options.") + field;
}

/// Fails unless `value` is one of two texts.
static Status checkChoice(const char *field, const std::string &value,
                          std::array<const char *, 2> texts) {
  if (value == texts[0] || value == texts[1])
    return {};
  return invalid(fieldName(field), "is '" + value + "', but must be " +
                                       texts[0] + " or " + texts[1]);
}

static Status readDims(const char *name, const mpc_dim *data, size_t count,
                       std::map<std::string, int64_t> &dims) {
  std::span<const mpc_dim> list;
  MPC_RETURN_IF_FAILED(readArray(name, data, count, list));
  for (const mpc_dim &dim : list) {
    MPC_RETURN_IF_FAILED(checkPointer(name, dim.name));
    dims[dim.name] = dim.extent;
  }
  return {};
}

/// Passes diagnostics on as structs.
static void passOn(const mpc_compile_options &own, const Diagnostic &message) {
  std::vector<const char *> notes;
  notes.reserve(message.notes.size());
  for (const std::string &note : message.notes)
    notes.push_back(note.c_str());
  mpc_diagnostic diagnostic = {sizeof(mpc_diagnostic),
                               int32_t(message.severity),
                               0,
                               message.stage.c_str(),
                               message.where.c_str(),
                               message.op.c_str(),
                               message.text.c_str(),
                               notes.data(),
                               notes.size(),
                               message.unusedOverride.c_str()};
  own.on_diagnostic(own.user, &diagnostic);
}
static_assert(int(Diagnostic::Severity::Remark) == MPC_REMARK);

Status mpc::c::readOptions(const mpc_compile_options *given,
                           CompileOptions &options) {
  mpc_compile_options own;
  MPC_RETURN_IF_FAILED(readStruct("mpc_compile_options", given, own));
  options.caller = Caller::C;
  options.policy = textOr(own.policy, options.policy.c_str());
  if (Status status = summarisePolicy(options.policy).status(); !status.ok())
    return Status(status.code(), fieldName("policy"), status.text());
  std::span<const mpc_override> overrides;
  MPC_RETURN_IF_FAILED(readArray(fieldName("overrides").c_str(), own.overrides,
                                 own.override_count, overrides));
  for (const mpc_override &each : overrides) {
    MPC_RETURN_IF_FAILED(
        checkPointer(fieldName("overrides[].selector").c_str(), each.selector));
    MPC_RETURN_IF_FAILED(
        checkPointer(fieldName("overrides[].type").c_str(), each.type));
    options.sets.emplace_back(each.selector, each.type);
  }
  MPC_RETURN_IF_FAILED(readDims(fieldName("dims").c_str(), own.dims,
                                own.dim_count, options.dims));
  MPC_RETURN_IF_FAILED(readExtents(fieldName("shapes").c_str(), own.shapes,
                                   own.shape_count, options.inputShapes));
  MPC_RETURN_IF_FAILED(readTensors(fieldName("values").c_str(), own.values,
                                   own.value_count, options.inputValues));
  MPC_RETURN_IF_FAILED(readExtents(fieldName("buckets").c_str(), own.buckets,
                                   own.bucket_count, options.buckets));
  for (const auto &[symbol, extents] : options.buckets)
    if (extents.empty() || extents.front() < 1 ||
        std::adjacent_find(extents.begin(), extents.end(),
                           std::greater_equal<>()) != extents.end())
      return invalid(fieldName("buckets"),
                     "of dimension '" + symbol +
                         "' are not positive and increasing");
  std::span<const mpc_specialization> specializations;
  MPC_RETURN_IF_FAILED(readArray(fieldName("specializations").c_str(),
                                 own.specializations, own.specialization_count,
                                 specializations));
  for (const mpc_specialization &each : specializations)
    MPC_RETURN_IF_FAILED(readDims(fieldName("specializations[].dims").c_str(),
                                  each.dims, each.dim_count,
                                  options.specialisations.emplace_back()));
  if (own.batch < 0 || own.max_memory < 0 || own.threads < 0)
    return invalid("mpc_compile_options",
                   "has a negative batch, max_memory or threads");
  if (own.batch)
    options.batch = own.batch;
  if (own.flags & ~kCompileFlags)
    return invalid(fieldName("flags"), "has a flag that does not exist");
  if (own.flags & MPC_RELAXED_ROUNDING)
    options.rounding = RoundingMode::Relaxed;
  options.useCache = !(own.flags & MPC_NO_CACHE);
  options.verifyFiles = own.flags & MPC_VERIFY_FILES;
  options.isPartOfModel = own.flags & MPC_PART_OF_MODEL;
  options.target = textOr(own.target, "");
  options.gemm = textOr(own.gemm, options.gemm.c_str());
  MPC_RETURN_IF_FAILED(checkChoice("gemm", options.gemm, {"own", "library"}));
  options.schedules = textOr(own.schedules, "");
  options.castPlacement =
      textOr(own.cast_placement, options.castPlacement.c_str());
  MPC_RETURN_IF_FAILED(checkChoice("cast_placement", options.castPlacement,
                                   {"mincut", "propagate"}));
  options.stepLossScale = textOr(own.step_loss_scale, "");
  options.dumpDir = textOr(own.dump_folder, "");
  options.maxMemory = own.max_memory;
  options.threads = own.threads;
  if (own.on_diagnostic)
    options.onDiagnostic = [own](const Diagnostic &message) {
      passOn(own, message);
    };
  if (own.on_stage)
    options.onStage = [own](const std::string &stage) {
      own.on_stage(own.user, stage.c_str());
    };
  if (own.should_stop)
    options.shouldStop = [own] { return own.should_stop(own.user) != 0; };
  return {};
}

Status mpc::c::readTensors(const char *name, const mpc_tensor *data,
                           size_t count, NamedBuffers &buffers) {
  std::span<const mpc_tensor> tensors;
  MPC_RETURN_IF_FAILED(readArray(name, data, count, tensors));
  for (const mpc_tensor &tensor : tensors) {
    MPC_RETURN_IF_FAILED(
        checkPointer((std::string(name) + "[].name").c_str(), tensor.name));
    std::string where = std::string(name) + " '" + tensor.name + "'";
    Result<Buffer> buffer = borrow(tensor);
    if (!buffer.ok())
      return Status(buffer.status().code(), where, buffer.status().text());
    if (!buffers.emplace(tensor.name, std::move(*buffer)).second)
      return invalid(where, "is given twice");
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// Fails if there are buckets, which have no effect on one program.
static Status checkNoBuckets(const CompileOptions &options) {
  if (options.buckets.empty())
    return {};
  return invalid(fieldName("buckets"),
                 "are for sessions; give the extents of a program in dims");
}

mpc_status mpc_compile(const mpc_device *device, const mpc_model *model,
                       const mpc_compile_options *options,
                       mpc_program **program) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("program", program));
    MPC_RETURN_IF_FAILED(check("device", device));
    MPC_RETURN_IF_FAILED(check("model", model));
    CompileOptions own;
    MPC_RETURN_IF_FAILED(readOptions(options, own));
    MPC_RETURN_IF_FAILED(checkNoBuckets(own));
    Result<Executable> made = device->engine->compile(model->source, own);
    MPC_RETURN_IF_FAILED(made.status());
    return mpc_program::create(std::move(*made), program);
  });
}

mpc_status mpc_compile_file(const mpc_model *model, const char *output,
                            const char *const *targets, size_t target_count,
                            const mpc_compile_options *options) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("model", model));
    MPC_RETURN_IF_FAILED(checkPointer("output", output));
    std::span<const char *const> list;
    MPC_RETURN_IF_FAILED(readArray("targets", targets, target_count, list));
    std::vector<std::string> names;
    for (const char *target : list) {
      MPC_RETURN_IF_FAILED(checkPointer("targets[]", target));
      names.emplace_back(target);
    }
    CompileOptions own;
    MPC_RETURN_IF_FAILED(readOptions(options, own));
    MPC_RETURN_IF_FAILED(checkNoBuckets(own));
    return compileToFile(model->source, output, names, own).status();
  });
}

//===----------------------------------------------------------------------===//
// Sessions
//===----------------------------------------------------------------------===//

struct mpc_session : Object<0x73657373> {
  Model model;
  /// Inputs whose values the options have.
  std::set<std::string> bound;

  /// Returns why a call with these arguments failed: an input that it lacks, or
  /// else `failure`.
  Status explain(const Status &failure, const NamedBuffers &arguments) const {
    Result<std::vector<ModelInput>> inputs = readInputs(model.source());
    if (!inputs.ok())
      return failure;
    std::string missing;
    size_t found = 0;
    for (const ModelInput &input : *inputs)
      if (arguments.contains(input.name))
        ++found;
      else if (!input.isOptional && !bound.contains(input.name))
        missing = input.name;
    // A misspelled name is the cause of a missing input, too.
    if (!missing.empty() && found == arguments.size())
      return invalid("inputs", "lack the model's input '" + missing + "'");
    return failure;
  }
};

struct mpc_results : Object<0x72657375> {
  std::vector<std::pair<std::string, Buffer>> buffers;
};

mpc_status mpc_session_open(const mpc_device *device, const mpc_model *model,
                            const mpc_compile_options *options,
                            mpc_session **session) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("session", session));
    MPC_RETURN_IF_FAILED(check("device", device));
    MPC_RETURN_IF_FAILED(check("model", model));
    CompileOptions own;
    MPC_RETURN_IF_FAILED(readOptions(options, own));
    // The session outlives the caller's memory of the values.
    std::set<std::string> bound;
    for (auto &[name, buffer] : own.inputValues) {
      bound.insert(name);
      Result<Buffer> copy = Buffer::fromHost(
          buffer.type(), std::as_bytes(std::as_const(buffer).as<char>()));
      MPC_RETURN_IF_FAILED(copy.status());
      buffer = std::move(*copy);
    }
    return give(session, device->engine->open(model->source, own),
                std::move(bound));
  });
}

mpc_status mpc_session_specialize(const mpc_session *session,
                                  const mpc_tensor *inputs, size_t input_count,
                                  mpc_program **program) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("program", program));
    MPC_RETURN_IF_FAILED(check("session", session));
    NamedBuffers arguments;
    MPC_RETURN_IF_FAILED(readTensors("inputs", inputs, input_count, arguments));
    Result<Executable> made = session->model.specialise(arguments);
    if (!made.ok())
      return session->explain(made.status(), arguments);
    return mpc_program::create(std::move(*made), program);
  });
}

mpc_status mpc_session_run(const mpc_session *session, const mpc_tensor *inputs,
                           size_t input_count, mpc_results **results) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("results", results));
    MPC_RETURN_IF_FAILED(check("session", session));
    NamedBuffers arguments;
    MPC_RETURN_IF_FAILED(readTensors("inputs", inputs, input_count, arguments));
    Result<NamedBuffers> made = session->model.run(arguments);
    if (!made.ok())
      return session->explain(made.status(), arguments);
    return give(results, std::vector<std::pair<std::string, Buffer>>(
                             made->begin(), made->end()));
  });
}

void mpc_session_destroy(mpc_session *session) { destroy(session); }

mpc_status mpc_results_count(const mpc_results *results, size_t *count) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("results", results));
    MPC_RETURN_IF_FAILED(checkPointer("count", count));
    *count = results->buffers.size();
    return {};
  });
}

mpc_status mpc_results_get(const mpc_results *results, size_t index,
                           mpc_tensor *tensor) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("results", results));
    MPC_RETURN_IF_FAILED(checkPointer("tensor", tensor));
    MPC_RETURN_IF_FAILED(checkIndex("results", index, results->buffers.size()));
    const auto &[name, buffer] = results->buffers[index];
    const TensorType &type = buffer.type();
    *tensor = {name.c_str(),
               elementNumber(type.element),
               0,
               type.shape.data(),
               type.shape.size(),
               {const_cast<void *>(buffer.data()), buffer.size()}};
    return {};
  });
}

void mpc_results_destroy(mpc_results *results) { destroy(results); }
