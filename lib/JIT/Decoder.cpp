//===- Decoder.cpp - autoregressive decoding with a KV cache --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/Decoder.h"

#include "AttentionWindowCheck.h"
#include "Compiler.h"
#include "DecoderSignature.h"
#include "DecoderState.h"

#include <algorithm>
#include <bit>
#include <utility>

using namespace mpc;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static constexpr const char *kLogits = "logits";
/// Name that no model input has.
static constexpr const char *kLastToken = "last token";

static Result<DecoderForm>
compileForm(const Engine &engine, const ModelSource &model,
            CompileOptions options, const DecoderSignature &signature,
            int64_t batch, int64_t count, const DecoderOptions &decoder) {
  int64_t capacity = decoder.capacity;
  options.inputShapes = signature.shapes(batch, count, capacity);
  options.caches = signature.growing(batch);
  options.padded = signature.padded(batch, count, capacity, decoder.endless);
  // Only the logits of the last prompt token are used, and the LM head is among
  // the largest GEMMs.
  if (count > 1)
    options.chosen = {{kLogits, /*axis=*/1, count, kLastToken}};
  Result<Executable> made = engine.compile(model, options);
  if (!made.ok())
    return made.status();
  DecoderForm form{std::move(*made), batch, count};
  form.tokens = form.executable.argumentIndex(signature.tokens.name);
  form.mask = form.executable.argumentIndex(signature.mask.name);
  form.last = form.executable.argumentIndex(kLastToken);
  form.positions = form.executable.argumentIndex(DecoderSignature::kPositions);
  for (const GrowingCache &cache : options.caches) {
    std::vector<int> numbers, scales;
    for (int64_t i = 0; i < batch; ++i) {
      std::string name = cache.apart ? GrowingCache::nameAt(cache.argument, i)
                                     : cache.argument;
      numbers.push_back(form.executable.argumentIndex(name));
      int scale = form.executable.argumentIndex(scaleNameOf(name));
      if (scale >= 0)
        scales.push_back(scale);
    }
    for (const std::vector<int> &each : {numbers, scales})
      form.caches.insert(form.caches.end(), each.begin(), each.end());
  }
  // A mask that is read only for its shape hides nothing.
  auto readsMask = [&](const Launch &launch) {
    return std::ranges::any_of(launch.buffers, [&](const BufferRef &ref) {
      return ref.kind == BufferRef::Kind::Argument && ref.index == form.mask;
    });
  };
  if (std::ranges::none_of(form.executable.program().launches, readsMask))
    return Status(
        StatusCode::InvalidArgument, model.name(),
        "the values of input '" + signature.mask.name +
            "' are not used, so unfilled rows of the KV cache are not masked");
  form.logits = std::max(form.executable.resultIndex(kLogits), 0);
  const mpc::TensorType &logits = form.result(form.logits);
  if (logits.element != ElementType::F32 || logits.shape.size() != 3 ||
      logits.shape[0] != batch || logits.shape[1] != 1)
    return Status(
        StatusCode::InvalidArgument, model.name(),
        "output '" + form.executable.program().results[form.logits].name +
            "' is " + logits.toString() + ", but logits must be f32 [" +
            std::to_string(batch) + ", tokens, vocabulary]");
  return form;
}

/// Returns the bounds check of the smallest table that is indexed with
/// positions.
static const RunCheck *
smallestTable(std::initializer_list<const DecoderForm *> forms) {
  const RunCheck *found = nullptr;
  for (const DecoderForm *form : forms)
    for (const RunCheck &check : form->executable.program().checks)
      if (check.kind == RunCheck::Kind::IndexInRange && form->positions >= 0 &&
          check.argument == form->positions &&
          (!found || check.number < found->number))
        found = &check;
  return found;
}

Result<Decoder> Decoder::open(const Engine &engine, const ModelSource &model,
                              const DecoderOptions &options) {
  if (options.chunk < 2 || options.capacity < options.chunk)
    return Status(StatusCode::InvalidArgument, model.name(),
                  "a cache of " + std::to_string(options.capacity) +
                      " rows and a chunk of " + std::to_string(options.chunk) +
                      " tokens do not fit: the chunk must have at least 2 "
                      "tokens and at most the rows of the cache");
  constexpr int64_t kMostSlots = 1024;
  if (options.slots < 1 || options.slots > kMostSlots)
    return Status(StatusCode::InvalidArgument, model.name(),
                  std::to_string(options.slots) +
                      " slots, but the number of slots must be from 1 to " +
                      std::to_string(kMostSlots));
  Result<std::vector<ModelInput>> inputs = readInputs(model);
  if (!inputs.ok())
    return inputs.status();
  Result<bool> counts = countsPositions(model);
  if (!counts.ok())
    return counts.status();
  Result<DecoderSignature> signature =
      DecoderSignature::find(*inputs, model.name(), *counts);
  if (!signature.ok())
    return signature.status();
  // Batch rows are tiled, and rows in equal positions reduce in the same order;
  // a power of two makes results independent of the row.
  auto batch = int64_t(std::bit_ceil(uint64_t(options.slots)));
  if (batch > 1)
    if (Status status = signature->checkBatch(model.name()); !status.ok())
      return status;
  // The step's weights may be quantized, which is decided by the bytes of the
  // piece's: those are stored by then.
  Result<DecoderForm> piece =
      compileForm(engine, model, options.compile, *signature, /*batch=*/1,
                  options.chunk, options);
  Result<DecoderForm> one =
      compileForm(engine, model, options.compile, *signature, batch,
                  /*count=*/1, options);
  if (options.endless && !signature->positions &&
      (!one.ok() || one->positions < 0)) {
    Status status(
        StatusCode::InvalidArgument, model.name(),
        "has no input 'position_ids', so sequences cannot be longer than the "
        "cache; export it with position_ids, or use a larger cache");
    return one.ok() ? status : status.withNote(one.status().toString());
  }
  if (!one.ok())
    return one.status();
  if (options.endless) {
    // Probe the mask with twice the capacity of past rows.
    CompileOptions kept = options.compile;
    kept.inputShapes =
        signature->shapes(/*batch=*/1, options.chunk, 2 * options.capacity);
    kept.caches = signature->growing(/*batch=*/1);
    if (Status status = checkAttentionWindow(
            model, std::move(kept), signature->mask.name, options.capacity);
        !status.ok())
      return status;
  }
  if (!piece.ok())
    return piece.status();
  auto state = std::make_shared<mpc::detail::DecoderState>(
      model.name(), engine.device(), std::move(*one), std::move(*piece));
  state->capacity = options.capacity;
  state->vocabulary = state->one.result(state->one.logits).shape[2];
  state->slots = options.slots;
  state->endless = options.endless;
  state->positions = smallestTable({&state->one, &state->piece});
  state->showsFilling = signature->countsPositions;
  return Decoder(std::move(state));
}

int64_t Decoder::capacity() const { return state->capacity; }
std::optional<int64_t> Decoder::positions() const {
  return state->positions ? std::optional(state->positions->number)
                          : std::nullopt;
}
int64_t Decoder::vocabulary() const { return state->vocabulary; }
int64_t Decoder::slots() const { return state->slots; }
const Executable &Decoder::step() const { return state->one.executable; }
const Executable &Decoder::piece() const { return state->piece.executable; }

//===----------------------------------------------------------------------===//
// Caches
//===----------------------------------------------------------------------===//

Result<mpc::detail::Caches>
mpc::detail::DecoderState::makeCaches(const Stream &stream) const {
  std::vector<mpc::TensorType> types;
  for (int index : piece.caches) {
    mpc::TensorType &type = types.emplace_back(piece.argument(index));
    type.shape[0] = capacity;
  }
  // Slack: rows are moved back once per capacity / 4 tokens, about four moved
  // rows per written row.
  return SlidingWindowCache::create(stream, types,
                                    std::max(piece.count, capacity / 4));
}

Result<mpc::detail::Caches>
mpc::detail::DecoderState::takeCaches(const Stream &stream) const {
  Caches taken;
  if (!device.hasOwnMemory()) {
    std::scoped_lock lock(mutex);
    if (!idle.empty()) {
      taken = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (taken.empty())
    return makeCaches(stream);
  for (SlidingWindowCache &cache : taken)
    cache.clear();
  return taken;
}

void mpc::detail::DecoderState::recycle(Caches caches) const {
  std::scoped_lock lock(mutex);
  if (!device.hasOwnMemory() && int64_t(idle.size()) < one.batch)
    idle.push_back(std::move(caches));
}

Result<mpc::detail::Caches>
mpc::detail::DecoderState::acquireIdleBuffer(const Stream &stream) const {
  {
    std::scoped_lock lock(mutex);
    if (!idle.empty()) {
      Caches taken = std::move(idle.back());
      idle.pop_back();
      return taken;
    }
  }
  return makeCaches(stream);
}

void mpc::detail::DecoderState::releaseIdleBuffer(Caches caches) const {
  std::scoped_lock lock(mutex);
  idle.push_back(std::move(caches));
}
