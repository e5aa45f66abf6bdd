//===- Decoder.cpp - sequences that grow token by token -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/Decoder.h"

#include "DecoderSignature.h"
#include "SlidingCache.h"

#include <algorithm>
#include <cassert>
#include <utility>

using namespace mpc;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

namespace {

/// A program that takes `count` tokens, and where its arguments and results
/// stand.
struct Form {
  Executable executable;
  int64_t count = 0;
  int tokens = -1, mask = -1, positions = -1, logits = 0;
  std::vector<int> caches = {};

  const TensorType &argument(int index) const {
    return executable.program().arguments[index].type;
  }
  const TensorType &result(int index) const {
    return executable.program().results[index].type;
  }
};

} // namespace

struct detail::DecoderState {
  std::string name;
  Device device;
  DecoderSignature signature;
  int64_t capacity = 0, vocabulary = 0;
  Form one, piece;
};

static Result<Form> compileForm(const Engine &engine, const ModelSource &model,
                                CompileOptions options,
                                const DecoderSignature &signature,
                                int64_t count, int64_t capacity) {
  options.inputShapes = signature.shapes(count, capacity);
  options.caches = signature.growing();
  Result<Executable> made = engine.compile(model, options);
  if (!made.ok())
    return made.status();
  Form form{std::move(*made), count};
  form.tokens = form.executable.argumentIndex(signature.tokens.name);
  form.mask = form.executable.argumentIndex(signature.mask.name);
  if (signature.positions)
    form.positions = form.executable.argumentIndex(signature.positions->name);
  for (const DecoderSignature::Cache &cache : signature.caches)
    form.caches.push_back(form.executable.argumentIndex(cache.input.name));
  // A mask that only gives its size hides nothing.
  auto readsMask = [&](const Launch &launch) {
    return std::ranges::any_of(launch.buffers, [&](const BufferRef &ref) {
      return ref.kind == BufferRef::Kind::Argument && ref.index == form.mask;
    });
  };
  if (std::ranges::none_of(form.executable.program().launches, readsMask))
    return Status(StatusCode::InvalidArgument, model.name(),
                  "the values of input '" + signature.mask.name +
                      "' are not read, so that it hides no row of a cache that "
                      "is not filled yet");
  form.logits = std::max(form.executable.resultIndex("logits"), 0);
  const TensorType &logits = form.result(form.logits);
  if (logits.element != ElementType::F32 || logits.shape.size() != 3 ||
      logits.shape[0] != 1 || logits.shape[1] != count)
    return Status(
        StatusCode::InvalidArgument, model.name(),
        "output '" + form.executable.program().results[form.logits].name +
            "' is " + logits.toString() + ", but logits are f32 [1, " +
            std::to_string(count) + ", vocabulary]");
  return form;
}

Result<Decoder> Decoder::open(const Engine &engine, const ModelSource &model,
                              const DecoderOptions &options) {
  if (options.chunk < 2 || options.capacity < options.chunk)
    return Status(StatusCode::InvalidArgument, model.name(),
                  "a cache of " + std::to_string(options.capacity) +
                      " rows and pieces of " + std::to_string(options.chunk) +
                      " tokens do not go together: pieces have at least 2 and "
                      "no more than the cache has rows");
  Result<std::vector<ModelInput>> inputs = readInputs(model);
  if (!inputs.ok())
    return inputs.status();
  Result<DecoderSignature> signature =
      DecoderSignature::find(*inputs, model.name());
  if (!signature.ok())
    return signature.status();
  Result<Form> one = compileForm(engine, model, options.compile, *signature, 1,
                                 options.capacity);
  if (!one.ok())
    return one.status();
  Result<Form> piece = compileForm(engine, model, options.compile, *signature,
                                   options.chunk, options.capacity);
  if (!piece.ok())
    return piece.status();
  int64_t vocabulary = one->result(one->logits).shape[2];
  return Decoder(std::make_shared<const detail::DecoderState>(
      detail::DecoderState{model.name(), engine.device(), std::move(*signature),
                           options.capacity, vocabulary, std::move(*one),
                           std::move(*piece)}));
}

int64_t Decoder::capacity() const { return state->capacity; }
int64_t Decoder::vocabulary() const { return state->vocabulary; }
const Executable &Decoder::step() const { return state->one.executable; }
const Executable &Decoder::piece() const { return state->piece.executable; }

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

struct detail::SequenceState {
  std::shared_ptr<const DecoderState> decoder;
  Stream stream;
  std::vector<SlidingCache> caches;
  int64_t length = 0;

  /// Runs `tokens`, at most the form's count, behind what there is, and gives
  /// the last one's logits.
  Result<std::vector<float>> run(const Form &form,
                                 std::span<const int64_t> tokens);
  Result<std::vector<Buffer>> arguments(const Form &form,
                                        std::span<const int64_t> tokens);
  Result<std::vector<Buffer>> execute(const Form &form,
                                      std::vector<Buffer> arguments);
};

Result<Sequence> Decoder::start() const {
  Result<Stream> stream = Stream::create(state->device);
  if (!stream.ok())
    return stream.status();
  auto sequence = std::make_shared<detail::SequenceState>(
      detail::SequenceState{state, std::move(*stream), {}});
  // The rows move back once in so many: four for each one that is written.
  int64_t slack = std::max(state->piece.count, state->capacity / 4);
  for (int index : state->one.caches) {
    TensorType type = state->one.argument(index);
    type.shape[0] = state->capacity;
    Result<SlidingCache> cache =
        SlidingCache::create(sequence->stream, type, slack);
    if (!cache.ok())
      return cache.status();
    sequence->caches.push_back(std::move(*cache));
  }
  return Sequence(std::move(sequence));
}

/// Writes `value` as element `index` of a buffer of one of the types that
/// DecoderSignature lets in.
static void setNumber(Buffer &buffer, int64_t index, int64_t value) {
  switch (buffer.type().element) {
  case ElementType::I32:
    buffer.as<int32_t>()[index] = int32_t(value);
    break;
  case ElementType::F32:
    buffer.as<float>()[index] = float(value);
    break;
  case ElementType::I1:
    buffer.as<uint8_t>()[index] = uint8_t(value);
    break;
  default:
    assert(buffer.type().element == ElementType::I64);
    buffer.as<int64_t>()[index] = value;
    break;
  }
}

Result<std::vector<Buffer>>
detail::SequenceState::arguments(const Form &form,
                                 std::span<const int64_t> tokens) {
  std::vector<Buffer> result(form.executable.program().arguments.size());
  for (int index : {form.tokens, form.mask, form.positions}) {
    if (index < 0)
      continue;
    Result<Buffer> made = Buffer::allocate(form.argument(index));
    if (!made.ok())
      return made.status();
    result[index] = std::move(*made);
  }
  int64_t capacity = decoder->capacity, count = tokens.size();
  // Tokens that fill up a piece stand behind the others: causal attention keeps
  // them out of what those see, the mask out of what stands in the cache.
  for (int64_t i = 0; i < form.count; ++i) {
    setNumber(result[form.tokens], i, i < count ? tokens[i] : tokens.back());
    if (form.positions >= 0)
      setNumber(result[form.positions], i,
                length + std::min<int64_t>(i, count - 1));
  }
  for (int64_t i = capacity - length; i < capacity + count; ++i)
    setNumber(result[form.mask], i, 1);
  for (size_t i = 0; i < caches.size(); ++i) {
    Result<Buffer> window = caches[i].window(form.count);
    if (!window.ok())
      return window.status();
    result[form.caches[i]] = std::move(*window);
  }
  return result;
}

Result<std::vector<Buffer>>
detail::SequenceState::execute(const Form &form,
                               std::vector<Buffer> arguments) {
  if (!decoder->device.hasOwnMemory())
    return form.executable.run(arguments);
  for (Buffer &argument : arguments)
    if (!argument.onDevice()) {
      Result<Buffer> own = Buffer::allocateOn(stream, argument.type());
      if (!own.ok())
        return own.status();
      if (Status status = own->copyFrom(argument, stream); !status.ok())
        return status;
      argument = std::move(*own);
    }
  std::vector<Buffer> results;
  for (const ProgramValue &value : form.executable.program().results) {
    if (value.alias >= 0) {
      results.emplace_back();
      continue;
    }
    Result<Buffer> own = Buffer::allocateOn(stream, value.type);
    if (!own.ok())
      return own.status();
    results.push_back(std::move(*own));
  }
  if (Status status = form.executable.runAsync(arguments, results, stream);
      !status.ok())
    return status;
  Result<Buffer> logits = results[form.logits].toHost(stream);
  if (!logits.ok())
    return logits.status();
  results[form.logits] = std::move(*logits);
  return results;
}

Result<std::vector<float>>
detail::SequenceState::run(const Form &form, std::span<const int64_t> tokens) {
  Result<std::vector<Buffer>> given = arguments(form, tokens);
  if (!given.ok())
    return given.status();
  Result<std::vector<Buffer>> results = execute(form, std::move(*given));
  if (!results.ok())
    return results.status();
  for (SlidingCache &cache : caches)
    cache.slide(int64_t(tokens.size()));
  length += int64_t(tokens.size());
  std::span<const float> all =
      std::as_const((*results)[form.logits]).as<float>();
  std::span<const float> last = all.subspan(
      (tokens.size() - 1) * decoder->vocabulary, decoder->vocabulary);
  return std::vector<float>(last.begin(), last.end());
}

Result<std::vector<float>> Sequence::feed(std::span<const int64_t> tokens) {
  const detail::DecoderState &decoder = *state->decoder;
  if (tokens.empty())
    return Status(StatusCode::InvalidArgument, decoder.name,
                  "a sequence is fed no tokens; give at least one");
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= decoder.vocabulary)
      return Status(StatusCode::InvalidArgument, decoder.name,
                    "token " + std::to_string(tokens[i]) + " at place " +
                        std::to_string(i) + " is outside the vocabulary of " +
                        std::to_string(decoder.vocabulary));
  if (int64_t(tokens.size()) > decoder.capacity - state->length)
    return Status(StatusCode::InvalidArgument, decoder.name,
                  "a sequence of " + std::to_string(state->length) +
                      " tokens takes no " + std::to_string(tokens.size()) +
                      " more: the cache has " +
                      std::to_string(decoder.capacity) +
                      " rows; open the decoder with a larger one");
  while (true) {
    const Form &form = tokens.size() == 1 ? decoder.one : decoder.piece;
    size_t count = std::min<size_t>(tokens.size(), form.count);
    Result<std::vector<float>> logits = state->run(form, tokens.first(count));
    tokens = tokens.subspan(count);
    if (!logits.ok() || tokens.empty())
      return logits;
  }
}

int64_t Sequence::length() const { return state->length; }

Result<Sequence> Sequence::fork() const {
  auto other = std::make_shared<detail::SequenceState>(
      detail::SequenceState{state->decoder, state->stream, {}, state->length});
  for (const SlidingCache &cache : state->caches) {
    Result<SlidingCache> copy = cache.copy();
    if (!copy.ok())
      return copy.status();
    other->caches.push_back(std::move(*copy));
  }
  return Sequence(std::move(other));
}
