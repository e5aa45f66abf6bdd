//===- Decoders.cpp - C API: decoders, sequences, samplers ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Models.h"

#include "mpc/JIT/Decoder.h"
#include "mpc/JIT/Sampler.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::c;

struct mpc_decoder : Object<0x6465636f> {
  Decoder decoder;
};

struct mpc_sequence : Object<0x73657175> {
  Decoder decoder;
  Sequence sequence;
};

struct mpc_sampler : Object<0x73616d70> {
  Sampler sampler;
};

//===----------------------------------------------------------------------===//
// Decoders
//===----------------------------------------------------------------------===//

mpc_status mpc_decoder_open(const mpc_device *device, const mpc_model *model,
                            const mpc_decoder_options *options,
                            mpc_decoder **decoder) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("decoder", decoder));
    MPC_RETURN_IF_FAILED(check("device", device));
    MPC_RETURN_IF_FAILED(check("model", model));
    mpc_decoder_options own;
    MPC_RETURN_IF_FAILED(readStruct("mpc_decoder_options", options, own));
    MPC_RETURN_IF_FAILED(
        checkReserved("mpc_decoder_options.reserved", own.reserved));
    DecoderOptions open;
    MPC_RETURN_IF_FAILED(readOptions(own.compile, open.compile));
    if (own.capacity)
      open.capacity = own.capacity;
    if (own.chunk)
      open.chunk = own.chunk;
    if (own.slots)
      open.slots = own.slots;
    open.endless = own.endless != 0;
    Result<Decoder> made = Decoder::open(*device->engine, model->source, open);
    MPC_RETURN_IF_FAILED(made.status());
    return give(decoder, std::move(*made));
  });
}

mpc_status mpc_decoder_describe(const mpc_decoder *decoder,
                                mpc_decoder_info *info) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("decoder", decoder));
    const Decoder &described = decoder->decoder;
    return writeStruct("mpc_decoder_info", info,
                       {0, described.vocabulary(), described.capacity(),
                        described.slots(), described.positions().value_or(0)});
  });
}

/// Fails unless `logits` has room for the logits of `count` tokens.
static Status checkLogits(const Decoder &decoder, size_t count,
                          const float *logits, size_t logitCount) {
  MPC_RETURN_IF_FAILED(checkPointer("logits", logits));
  auto vocabulary = size_t(decoder.vocabulary());
  if (logitCount % vocabulary == 0 && logitCount / vocabulary == count)
    return {};
  return invalid("logit_count", "is " + std::to_string(logitCount) +
                                    ", but there are " + std::to_string(count) +
                                    " times " + std::to_string(vocabulary) +
                                    " logits");
}

mpc_status mpc_decoder_step(const mpc_decoder *decoder,
                            mpc_sequence *const *sequences,
                            const int64_t *tokens, size_t count, float *logits,
                            size_t logit_count) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("decoder", decoder));
    std::span<mpc_sequence *const> handles;
    MPC_RETURN_IF_FAILED(readArray("sequences", sequences, count, handles));
    std::span<const int64_t> appended;
    MPC_RETURN_IF_FAILED(readArray("tokens", tokens, count, appended));
    MPC_RETURN_IF_FAILED(
        checkLogits(decoder->decoder, count, logits, logit_count));
    std::vector<Sequence> batch;
    for (const mpc_sequence *sequence : handles) {
      MPC_RETURN_IF_FAILED(check("sequences[]", sequence));
      batch.push_back(sequence->sequence);
    }
    auto rows = decoder->decoder.advance(batch, appended);
    MPC_RETURN_IF_FAILED(rows.status());
    for (const std::vector<float> &row : *rows)
      logits = std::copy(row.begin(), row.end(), logits);
    return {};
  });
}

void mpc_decoder_destroy(mpc_decoder *decoder) { destroy(decoder); }

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

mpc_status mpc_sequence_create(const mpc_decoder *decoder,
                               mpc_sequence **sequence) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("sequence", sequence));
    MPC_RETURN_IF_FAILED(check("decoder", decoder));
    Result<Sequence> made = decoder->decoder.start();
    MPC_RETURN_IF_FAILED(made.status());
    return give(sequence, decoder->decoder, std::move(*made));
  });
}

mpc_status mpc_sequence_prefill(mpc_sequence *sequence, const int64_t *tokens,
                                size_t count, float *logits,
                                size_t logit_count) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("sequence", sequence));
    std::span<const int64_t> appended;
    MPC_RETURN_IF_FAILED(readArray("tokens", tokens, count, appended));
    MPC_RETURN_IF_FAILED(
        checkLogits(sequence->decoder, 1, logits, logit_count));
    Result<std::vector<float>> row = sequence->sequence.feed(appended);
    MPC_RETURN_IF_FAILED(row.status());
    std::copy(row->begin(), row->end(), logits);
    return {};
  });
}

mpc_status mpc_sequence_length(const mpc_sequence *sequence, int64_t *length) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("sequence", sequence));
    MPC_RETURN_IF_FAILED(checkPointer("length", length));
    *length = sequence->sequence.length();
    return {};
  });
}

mpc_status mpc_sequence_fork(const mpc_sequence *sequence, int64_t length,
                             mpc_sequence **fork) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("fork", fork));
    MPC_RETURN_IF_FAILED(check("sequence", sequence));
    Result<Sequence> made = sequence->sequence.fork(length);
    MPC_RETURN_IF_FAILED(made.status());
    return give(fork, sequence->decoder, std::move(*made));
  });
}

mpc_status mpc_sequence_reset(mpc_sequence *sequence) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("sequence", sequence));
    Result<Sequence> made = sequence->decoder.start();
    MPC_RETURN_IF_FAILED(made.status());
    sequence->sequence = std::move(*made);
    return {};
  });
}

void mpc_sequence_destroy(mpc_sequence *sequence) { destroy(sequence); }

//===----------------------------------------------------------------------===//
// Samplers
//===----------------------------------------------------------------------===//

mpc_status mpc_sampler_create(const mpc_sampler_options *options,
                              mpc_sampler **sampler) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("sampler", sampler));
    mpc_sampler_options own;
    MPC_RETURN_IF_FAILED(readStruct("mpc_sampler_options", options, own));
    SamplingOptions sampling;
    sampling.temperature = own.temperature;
    sampling.topK = own.top_k;
    if (own.top_p != 0)
      sampling.topP = own.top_p;
    sampling.minP = own.min_p;
    if (own.repetition_penalty != 0)
      sampling.repetitionPenalty = own.repetition_penalty;
    sampling.seed = own.seed;
    Result<Sampler> made = Sampler::create(sampling);
    MPC_RETURN_IF_FAILED(made.status());
    return give(sampler, std::move(*made));
  });
}

mpc_status mpc_sampler_observe(mpc_sampler *sampler, const int64_t *tokens,
                               size_t count) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("sampler", sampler));
    std::span<const int64_t> observed;
    MPC_RETURN_IF_FAILED(readArray("tokens", tokens, count, observed));
    sampler->sampler.observe(observed);
    return {};
  });
}

mpc_status mpc_sampler_next(mpc_sampler *sampler, const float *logits,
                            size_t logit_count, int64_t *token) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("sampler", sampler));
    MPC_RETURN_IF_FAILED(checkPointer("token", token));
    std::span<const float> row;
    MPC_RETURN_IF_FAILED(readArray("logits", logits, logit_count, row));
    Result<int64_t> next = sampler->sampler.next(row);
    MPC_RETURN_IF_FAILED(next.status());
    *token = *next;
    return {};
  });
}

void mpc_sampler_destroy(mpc_sampler *sampler) { destroy(sampler); }
