//===- DecodingSequence.cpp - decode and prefill runs of a sequence -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecoderState.h"

#include <algorithm>
#include <cassert>
#include <utility>

using namespace mpc;
using mpc::detail::Caches;
using mpc::detail::DecoderState;
using mpc::detail::SequenceState;

//===----------------------------------------------------------------------===//
// One run
//===----------------------------------------------------------------------===//

namespace {

/// A batch row: a sequence and its new tokens, at most the form's count.
struct Lane {
  SequenceState *sequence;
  std::span<const int64_t> tokens;
};

/// A run of a program for up to `form.batch` lanes; the other batch rows are
/// idle.
class Run {
public:
  Run(const DecoderState &decoder, const DecoderForm &form,
      std::span<const Lane> lanes)
      : decoder(decoder), form(form), lanes(lanes),
        stream(lanes.front().sequence->stream) {}

  /// Appends the tokens and returns the logits after each lane's last one.
  Result<std::vector<std::vector<float>>> run();

private:
  Status makeArguments();
  /// Fills row `row` of the inputs for `tokens` after `length` earlier ones,
  /// and binds windows of `caches`.
  Status setRow(int64_t row, std::span<const int64_t> tokens, int64_t length,
                Caches &caches);
  Result<std::vector<Buffer>> execute();

  const DecoderState &decoder;
  const DecoderForm &form;
  std::span<const Lane> lanes;
  Stream stream;
  std::vector<Buffer> arguments;
  std::vector<Caches> idle;
};

} // namespace

/// Writes `value` to element `index` of a buffer of one of the types that
/// DecoderSignature accepts.
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

Status Run::setRow(int64_t row, std::span<const int64_t> tokens, int64_t length,
                   Caches &caches) {
  int64_t capacity = decoder.capacity, count = tokens.size();
  // Padding tokens come last in a chunk: causal attention hides them from the
  // earlier tokens, the mask from later runs.
  for (int64_t i = 0; i < form.count; ++i) {
    int64_t index = row * form.count + i;
    setNumber(arguments[form.tokens], index,
              i < count ? tokens[i] : tokens.back());
    if (form.positions >= 0)
      setNumber(arguments[form.positions], index,
                length + std::min<int64_t>(i, count - 1));
  }
  // An endless sequence shows only the last rows.
  int64_t shown = decoder.showsFilling ? form.count : count;
  for (int64_t i = std::max<int64_t>(capacity - length, 0);
       i < capacity + shown; ++i)
    setNumber(arguments[form.mask], row * (capacity + form.count) + i, 1);
  if (form.last >= 0)
    setNumber(arguments[form.last], row, count - 1);
  for (size_t i = 0; i < caches.size(); ++i) {
    Result<Buffer> window = caches[i].window(form.count);
    if (!window.ok())
      return window.status();
    arguments[form.caches[i * form.batch + row]] = std::move(*window);
  }
  return {};
}

Status Run::makeArguments() {
  arguments.resize(form.executable.program().arguments.size());
  for (int index : {form.tokens, form.mask, form.positions, form.last}) {
    if (index < 0)
      continue;
    Result<Buffer> made = Buffer::allocate(form.argument(index));
    if (!made.ok())
      return made.status();
    arguments[index] = std::move(*made);
  }
  int64_t used = lanes.size();
  for (int64_t row = 0; row < used; ++row) {
    SequenceState &sequence = *lanes[row].sequence;
    if (Status status =
            setRow(row, lanes[row].tokens, sequence.length, sequence.caches);
        !status.ok())
      return status;
    // The cache rows may still be moving back on the sequence's own stream.
    if (row > 0 && decoder.device.hasOwnMemory())
      if (Status status = sequence.stream.synchronize(); !status.ok())
        return status;
  }
  static constexpr int64_t kAnyToken = 0;
  for (int64_t row = used; row < form.batch; ++row) {
    Result<Caches> taken = decoder.acquireIdleBuffer(stream);
    if (!taken.ok())
      return taken.status();
    idle.push_back(std::move(*taken));
    if (Status status = setRow(row, {&kAnyToken, 1}, 0, idle.back());
        !status.ok())
      return status;
  }
  return {};
}

Result<std::vector<Buffer>> Run::execute() {
  if (!decoder.device.hasOwnMemory())
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

Result<std::vector<std::vector<float>>> Run::run() {
  Status status = makeArguments();
  Result<std::vector<Buffer>> results =
      status.ok() ? execute() : Result<std::vector<Buffer>>(status);
  for (Caches &caches : idle)
    decoder.releaseIdleBuffer(std::move(caches));
  if (!results.ok())
    return results.status();
  std::span<const float> all =
      std::as_const((*results)[form.logits]).as<float>();
  std::vector<std::vector<float>> logits;
  for (size_t row = 0; row < lanes.size(); ++row) {
    SequenceState &sequence = *lanes[row].sequence;
    auto count = int64_t(lanes[row].tokens.size());
    for (SlidingWindowCache &cache : sequence.caches)
      cache.slide(count);
    sequence.length += count;
    std::span<const float> last =
        all.subspan(row * decoder.vocabulary, decoder.vocabulary);
    logits.emplace_back(last.begin(), last.end());
  }
  return logits;
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

static Status refusal(const DecoderState &decoder, std::string text) {
  return Status(StatusCode::InvalidArgument, decoder.name, std::move(text));
}

static Status checkTokens(const DecoderState &decoder,
                          std::span<const int64_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= decoder.vocabulary)
      return refusal(decoder, "token " + std::to_string(tokens[i]) +
                                  " at position " + std::to_string(i) +
                                  " is outside the vocabulary of " +
                                  std::to_string(decoder.vocabulary));
  return {};
}

/// Fails unless the sequence has capacity for `count` more tokens; `which`
/// names it.
static Status checkCacheCapacity(const SequenceState &sequence, size_t count,
                                 const std::string &which) {
  const DecoderState &decoder = *sequence.decoder;
  if (const RunCheck *table = decoder.positions;
      table && int64_t(count) > table->number - sequence.length)
    return refusal(decoder, which + " of " + std::to_string(sequence.length) +
                                " tokens cannot take " + std::to_string(count) +
                                " more tokens: '" + table->op +
                                "' has a position table of " +
                                std::to_string(table->number) + " rows");
  if (decoder.endless || int64_t(count) <= decoder.capacity - sequence.length)
    return {};
  return refusal(decoder, which + " of " + std::to_string(sequence.length) +
                              " tokens cannot take " + std::to_string(count) +
                              " more tokens: the KV cache has " +
                              std::to_string(decoder.capacity) +
                              " rows; open the decoder with a larger cache");
}

Result<Sequence> Decoder::start() const {
  Result<Stream> stream = Stream::create(state->device);
  if (!stream.ok())
    return stream.status();
  Result<Caches> caches = state->takeCaches(*stream);
  if (!caches.ok())
    return caches.status();
  return Sequence(std::make_shared<SequenceState>(state, std::move(*stream),
                                                  std::move(*caches)));
}

Result<std::vector<float>> Sequence::feed(std::span<const int64_t> tokens) {
  const DecoderState &decoder = *state->decoder;
  if (tokens.empty())
    return refusal(decoder, "a sequence needs at least one token");
  if (Status status = checkTokens(decoder, tokens); !status.ok())
    return status;
  if (Status status = checkCacheCapacity(*state, tokens.size(), "a sequence");
      !status.ok())
    return status;
  while (true) {
    const DecoderForm &form = tokens.size() == 1 ? decoder.one : decoder.piece;
    Lane lane{state.get(),
              tokens.first(std::min<size_t>(tokens.size(), form.count))};
    Result<std::vector<std::vector<float>>> logits =
        Run(decoder, form, {&lane, 1}).run();
    if (!logits.ok())
      return logits.status();
    tokens = tokens.subspan(lane.tokens.size());
    if (tokens.empty())
      return std::move(logits->front());
  }
}

Result<std::vector<std::vector<float>>>
Decoder::advance(std::span<const Sequence> sequences,
                 std::span<const int64_t> tokens) const {
  const DecoderState &decoder = *state;
  if (sequences.empty() || sequences.size() != tokens.size())
    return refusal(
        decoder,
        std::to_string(sequences.size()) + " sequences, but " +
            std::to_string(tokens.size()) +
            " tokens; give one token per sequence and at least one sequence");
  if (int64_t(sequences.size()) > decoder.slots)
    return refusal(decoder, std::to_string(sequences.size()) +
                                " sequences exceed the " +
                                std::to_string(decoder.slots) +
                                " slots; open the decoder with more slots");
  if (Status status = checkTokens(decoder, tokens); !status.ok())
    return status;
  std::vector<Lane> lanes;
  for (size_t i = 0; i < sequences.size(); ++i) {
    SequenceState *sequence = sequences[i].state.get();
    std::string which = "the sequence at index " + std::to_string(i);
    if (sequence->decoder != state)
      return refusal(decoder, which + " belongs to another decoder");
    for (size_t j = 0; j < i; ++j)
      if (lanes[j].sequence == sequence)
        return refusal(decoder, which + " is the same as the one at index " +
                                    std::to_string(j));
    if (Status status = checkCacheCapacity(*sequence, 1, which); !status.ok())
      return status;
    lanes.push_back({sequence, tokens.subspan(i, 1)});
  }
  return Run(decoder, decoder.one, lanes).run();
}

int64_t Sequence::length() const { return state->length; }

Result<Sequence> Sequence::fork(std::optional<int64_t> length) const {
  const DecoderState &decoder = *state->decoder;
  int64_t kept = length.value_or(state->length);
  if (kept < 0 || kept > state->length)
    return refusal(decoder, "a sequence of " + std::to_string(state->length) +
                                " tokens has no prefix of " +
                                std::to_string(kept) + " tokens");
  if (kept < state->length && state->length > decoder.capacity)
    return refusal(decoder,
                   "a prefix of " + std::to_string(kept) +
                       " tokens has left the KV cache: the sequence has " +
                       std::to_string(state->length) + " tokens, the cache " +
                       std::to_string(decoder.capacity) + " rows");
  Result<Caches> caches = decoder.takeCaches(state->stream);
  if (!caches.ok())
    return caches.status();
  if (Status status = SlidingWindowCache::copyRows(
          state->caches, *caches, std::min(kept, decoder.capacity),
          state->length - kept);
      !status.ok())
    return status;
  return Sequence(std::make_shared<SequenceState>(state->decoder, state->stream,
                                                  std::move(*caches), kept));
}
