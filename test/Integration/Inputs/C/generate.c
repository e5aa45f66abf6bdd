//===- generate.c - a C program that generates tokens ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Continues a prompt of token ids, the same text in two sequences of a batch,
// then again after a reset.
// usage: generate MODEL TOKENS PROMPT-ID...
//
//===----------------------------------------------------------------------===//

#include <mpc/C/mpc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(mpc_status status) {
  if (status == MPC_OK)
    return;
  fprintf(stderr, "generate: %s\n", mpc_error_text());
  exit(1);
}

/// Greedy decoding: writes `count` tokens after the prompt of the sequence,
/// whose last logits are given, to `tokens`.
static void decode(const mpc_decoder *decoder, mpc_sequence *sequence,
                   float *logits, size_t vocabulary, int64_t *tokens,
                   size_t count) {
  mpc_sampler *sampler;
  check(mpc_sampler_create(NULL, &sampler));
  for (size_t i = 0; i < count; ++i) {
    check(mpc_sampler_next(sampler, logits, vocabulary, &tokens[i]));
    check(mpc_decoder_step(decoder, &sequence, &tokens[i], 1, logits,
                           vocabulary));
  }
  mpc_sampler_destroy(sampler);
}

/// Steps two sequences together.
static void decode_both(const mpc_decoder *decoder,
                        mpc_sequence *const sequences[2], const float *logits,
                        size_t vocabulary, int64_t *tokens, size_t count) {
  float *rows = malloc(2 * vocabulary * sizeof(float));
  mpc_sampler *sampler;
  if (!rows)
    exit(1);
  memcpy(rows, logits, vocabulary * sizeof(float));
  check(mpc_sampler_create(NULL, &sampler));
  for (size_t i = 0; i < count; ++i) {
    int64_t next[2];
    check(mpc_sampler_next(sampler, rows, vocabulary, &tokens[i]));
    next[0] = next[1] = tokens[i];
    check(mpc_decoder_step(decoder, sequences, next, 2, rows, 2 * vocabulary));
    if (memcmp(rows, rows + vocabulary, vocabulary * sizeof(float)) != 0) {
      fprintf(stderr, "generate: the rows of a batch differ\n");
      exit(1);
    }
  }
  mpc_sampler_destroy(sampler);
  free(rows);
}

int main(int argc, char **argv) {
  if (argc < 4)
    return 2;
  size_t count = (size_t)atoi(argv[2]), prompt_length = (size_t)argc - 3;
  int64_t *prompt = malloc(prompt_length * sizeof(*prompt));
  int64_t *tokens = malloc(2 * count * sizeof(*tokens));
  if (!prompt || !tokens)
    return 1;
  for (size_t i = 0; i < prompt_length; ++i)
    prompt[i] = atoi(argv[i + 3]);

  mpc_device *device;
  check(mpc_device_create(NULL, &device));
  mpc_model *model;
  check(mpc_model_open(argv[1], &model));
  mpc_decoder_options options = {.size = sizeof(options)};
  options.capacity = 64;
  options.slots = 2;
  mpc_decoder *decoder;
  check(mpc_decoder_open(device, model, &options, &decoder));
  mpc_decoder_info info = {.size = sizeof(info)};
  check(mpc_decoder_describe(decoder, &info));

  size_t vocabulary = (size_t)info.vocabulary;
  float *logits = malloc(vocabulary * sizeof(float));
  if (!logits)
    return 1;
  mpc_sequence *sequence, *fork;
  check(mpc_sequence_create(decoder, &sequence));
  check(mpc_sequence_prefill(sequence, prompt, prompt_length, logits,
                             vocabulary));
  check(mpc_sequence_fork(sequence, (int64_t)prompt_length, &fork));
  mpc_sequence *both[2] = {sequence, fork};
  decode_both(decoder, both, logits, vocabulary, tokens, count);
  mpc_sequence_destroy(fork);

  // The same text again, in the same memory.
  check(mpc_sequence_reset(sequence));
  check(mpc_sequence_prefill(sequence, prompt, prompt_length, logits,
                             vocabulary));
  decode(decoder, sequence, logits, vocabulary, tokens + count, count);
  if (memcmp(tokens, tokens + count, count * sizeof(*tokens)) != 0)
    return 1;
  int64_t length;
  check(mpc_sequence_length(sequence, &length));
  for (size_t i = 0; i < count; ++i)
    printf(i ? ",%lld" : "%lld", (long long)tokens[i]);
  printf("\n%lld of %lld tokens, %lld slots\n", (long long)length,
         (long long)info.capacity, (long long)info.slots);

  mpc_sequence_destroy(sequence);
  mpc_decoder_destroy(decoder);
  mpc_model_destroy(model);
  mpc_device_destroy(device);
  free(logits);
  free(prompt);
  free(tokens);
  return 0;
}
