//===- Generate.cpp - mpc generate: autoregressive decoding ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generate.h"

#include "HelpFormatter.h"
#include "MatrixUnitReport.h"
#include "PeakRates.h"
#include "Reporter.h"
#include "TokenIds.h"

#include "mpc/JIT/Decoder.h"

#include <algorithm>
#include <chrono>

using namespace mpc;
using namespace mpc::tool;

void tool::addGenerateFlags(CLI::App &command, GenerateArguments &arguments) {
  addModelOptions(command, arguments.common);
  addList(command, "--prompt-ids", arguments.prompts,
          "token ids, separated by commas, or a file of them. Repeatable, for "
          "several sequences")
      ->option_text("IDS|FILE")
      ->required();
  command
      .add_option("--slots", arguments.slots,
                  "batch size. Sequences that are decoded together (continuous "
                  "batching)")
      ->check(CLI::Range(int64_t(1), int64_t(1024)))
      ->capture_default_str();
  command
      .add_option("--tokens", arguments.tokens,
                  "maximum number of tokens to generate")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31))
      ->capture_default_str();
  command
      .add_option("--temperature", arguments.sampling.temperature,
                  "divides the logits; 0 takes the most likely token")
      ->check(finiteNumber())
      ->capture_default_str();
  command
      .add_option("--top-k", arguments.sampling.topK,
                  "sample only from the K most likely tokens (0: all)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31))
      ->capture_default_str();
  command
      .add_option(
          "--top-p", arguments.sampling.topP,
          "sample only from tokens of this total probability. The most likely "
          "ones")
      ->check(finiteNumber())
      ->capture_default_str();
  command
      .add_option("--min-p", arguments.sampling.minP,
                  "sample only from tokens with at least this share of the "
                  "largest probability")
      ->check(finiteNumber())
      ->capture_default_str();
  command
      .add_option("--repetition-penalty", arguments.sampling.repetitionPenalty,
                  "divides positive logits of tokens in the text, and "
                  "multiplies negative ones; 1: no effect")
      ->check(finiteNumber())
      ->capture_default_str();
  command
      .add_option("--cache", arguments.cache,
                  "rows of the KV cache (default: the tokens of this run). At "
                  "least the model's attention window")
      ->check(CLI::Range(int64_t(2), int64_t(1) << 31));
  command
      .add_option("--chunk", arguments.chunk,
                  "tokens of the prompt per run. Chunked prefill; default: 64, "
                  "at most the rows of the cache")
      ->check(CLI::Range(int64_t(2), int64_t(1) << 20));
  command.add_option("--end-id", arguments.end,
                     "token id that ends a sequence (default: those that a "
                     "Hugging Face folder names)");
  hideFlags(command, {"--shape", "--dim", "--batch", "--step-loss-scale"});
}

static Result<std::vector<int64_t>> readPrompt(const std::string &argument) {
  if (argument.find_first_not_of("0123456789-, ") == std::string::npos)
    return parseTokens(argument, "--prompt-ids");
  return readTokens(argument);
}

/// Opens the decoder of the flags, with a cache for `needed` tokens.
static Result<Decoder> openDecoder(const GenerateArguments &arguments,
                                   const ModelSource &model,
                                   const Device &device, int64_t needed,
                                   Reporter &reporter) {
  Result<CompileOptions> compile =
      makeCompileOptions(arguments.common, device, reporter);
  if (!compile.ok())
    return compile.status();
  reportFastPath(*compile, reporter, !arguments.common.choosesPolicy);
  Result<Engine> engine = Engine::create(device);
  if (!engine.ok())
    return engine.status();
  DecoderOptions options{std::move(*compile)};
  constexpr int64_t kChunk = 64;
  options.chunk = arguments.chunk   ? arguments.chunk
                  : arguments.cache ? std::min(kChunk, arguments.cache)
                                    : kChunk;
  options.slots = arguments.slots;
  // Round the capacity up, so that similar lengths share a cached compile.
  constexpr int64_t kStep = 64;
  options.capacity =
      arguments.cache > 0
          ? arguments.cache
          : (std::max(needed, options.chunk) + kStep - 1) / kStep * kStep;
  // A sliding-window model needs no more rows than its window.
  options.endless = needed > options.capacity;
  return Decoder::open(*engine, model, options);
}

/// Returns the time of `call` in ms.
template <typename Call> static double timed(Call call) {
  auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now() - start)
      .count();
}

namespace {

/// A prompt and its generated tokens.
struct Text {
  std::vector<int64_t> prompt;
  Sampler sampler;
  std::vector<int64_t> written = {};
  double firstMs = 0;
  /// Set during generation.
  std::optional<Sequence> sequence = {};
};

/// Continuous batching: generates texts, as many at a time as the decoder has
/// slots.
class Writer {
public:
  /// A text ends with one of `ends`.
  Writer(const Decoder &decoder, const GenerateArguments &arguments,
         std::vector<int64_t> ends, std::vector<Text> texts)
      : decoder(decoder), arguments(arguments), ends(std::move(ends)),
        texts(std::move(texts)) {}

  Status write();

  const std::vector<Text> &results() const { return texts; }
  /// Tokens generated by decode steps, number of these runs and their time.
  int64_t stepped = 0, runs = 0;
  double stepsMs = 0;

private:
  /// Prefills the prompt and generates a token.
  Status begin(Text &text);
  /// Generates a token for each unfinished text.
  Status step();
  Status append(Text &text, std::span<const float> logits);

  const Decoder &decoder;
  const GenerateArguments &arguments;
  std::vector<int64_t> ends;
  std::vector<Text> texts;
  std::vector<Text *> running;
};

} // namespace

Status Writer::append(Text &text, std::span<const float> logits) {
  Result<int64_t> token = text.sampler.next(logits);
  if (!token.ok())
    return token.status();
  text.written.push_back(*token);
  if (std::ranges::find(ends, *token) != ends.end() ||
      int64_t(text.written.size()) == arguments.tokens) {
    // Frees its KV cache for the next text.
    text.sequence.reset();
    std::erase(running, &text);
  }
  return {};
}

Status Writer::begin(Text &text) {
  Result<Sequence> sequence = decoder.start();
  if (!sequence.ok())
    return sequence.status();
  text.sequence = *sequence;
  running.push_back(&text);
  Status status;
  text.firstMs = timed([&] {
    Result<std::vector<float>> logits = text.sequence->feed(text.prompt);
    status = logits.ok() ? append(text, *logits) : logits.status();
  });
  return status;
}

Status Writer::step() {
  std::vector<Sequence> sequences;
  std::vector<int64_t> tokens;
  for (const Text *text : running) {
    sequences.push_back(*text->sequence);
    tokens.push_back(text->written.back());
  }
  Result<std::vector<std::vector<float>>> logits =
      decoder.advance(sequences, tokens);
  if (!logits.ok())
    return logits.status();
  stepped += int64_t(tokens.size());
  ++runs;
  std::vector<Text *> stepping = running;
  for (size_t i = 0; i < stepping.size(); ++i)
    if (Status status = append(*stepping[i], (*logits)[i]); !status.ok())
      return status;
  return {};
}

Status Writer::write() {
  auto next = texts.begin();
  while (next != texts.end() || !running.empty()) {
    Status status;
    if (next != texts.end() && int64_t(running.size()) < decoder.slots())
      status = begin(*next++);
    else
      stepsMs += timed([&] { status = step(); });
    if (!status.ok())
      return status;
  }
  return {};
}

/// Returns the prompts of the flags.
static Result<std::vector<Text>> readTexts(const GenerateArguments &arguments) {
  SamplingOptions sampling = arguments.sampling;
  sampling.seed = arguments.common.seed;
  Result<Sampler> sampler = Sampler::create(sampling);
  const char *unused = sampling.topK != 0   ? "--top-k"
                       : sampling.topP != 1 ? "--top-p"
                       : sampling.minP != 0 ? "--min-p"
                                            : nullptr;
  if (sampler.ok() && sampling.temperature == 0 && unused)
    return Status(StatusCode::InvalidArgument, "--temperature",
                  "is 0, which always takes the most likely token, so that " +
                      std::string(unused) +
                      " has no effect; give a temperature above 0");
  std::vector<Text> texts;
  for (const std::string &argument : arguments.prompts) {
    Result<std::vector<int64_t>> prompt = readPrompt(argument);
    if (!prompt.ok())
      return prompt.status();
    if (!sampler.ok())
      return sampler.status();
    Text &text = texts.emplace_back(Text{std::move(*prompt), *sampler});
    text.sampler.observe(text.prompt);
  }
  return texts;
}

static Json describe(const Text &text) {
  return {{"prompt_tokens", text.prompt.size()},
          {"tokens", text.written},
          {"first_token_ms", text.firstMs}};
}

/// Checks flags against the decoder.
static Status checkEnd(const GenerateArguments &arguments,
                       const Decoder &decoder) {
  if (!arguments.end ||
      (*arguments.end >= 0 && *arguments.end < decoder.vocabulary()))
    return {};
  return Status(StatusCode::InvalidArgument, "--end-id",
                std::to_string(*arguments.end) +
                    " is outside the vocabulary of " +
                    std::to_string(decoder.vocabulary()) +
                    ", so that no text would end with it");
}

/// Fails if the longest text exceeds the model's position tables; a text with
/// an end token is checked while generating.
static Status checkPositions(const GenerateArguments &arguments,
                             const Decoder &decoder, bool hasEnd,
                             size_t longest) {
  std::optional<int64_t> rows = decoder.positions();
  // The last token is sampled, but not fed.
  int64_t needed = int64_t(longest) + arguments.tokens - 1;
  if (!rows || hasEnd || needed <= *rows)
    return {};
  return Status(StatusCode::InvalidArgument, arguments.common.model,
                "a prompt of " + std::to_string(longest) + " tokens and " +
                    std::to_string(arguments.tokens) + " more look up " +
                    std::to_string(needed) +
                    " positions, but the model's table has rows for " +
                    std::to_string(*rows) + "; ask for fewer --tokens");
}

int tool::generateCommand(const GenerateArguments &arguments) {
  Reporter reporter(arguments.common.json, arguments.common.quiet);
  Result<std::vector<Text>> texts = readTexts(arguments);
  if (!texts.ok())
    return reporter.fail(texts.status());
  Result<Device> device = makeDevice(arguments.common);
  if (!device.ok())
    return reporter.fail(device.status());

  size_t longest = 0, promptTokens = 0;
  for (const Text &text : *texts) {
    longest = std::max(longest, text.prompt.size());
    promptTokens += text.prompt.size();
  }
  int64_t needed = int64_t(longest) + arguments.tokens;
  ModelSource model(arguments.common.model);
  std::optional<Result<Decoder>> decoder;
  double compileMs = timed([&] {
    decoder = openDecoder(arguments, model, *device, needed, reporter);
  });
  if (!decoder->ok() && arguments.cache > 0 && needed > arguments.cache)
    return reporter.fail(
        {Status(StatusCode::InvalidArgument, arguments.common.model,
                "a prompt of " + std::to_string(longest) + " tokens and " +
                    std::to_string(arguments.tokens) +
                    " more need a cache for " + std::to_string(needed) +
                    ", but --cache is " + std::to_string(arguments.cache)),
         decoder->status()});
  if (!decoder->ok())
    return reporter.fail(decoder->status());
  if (Status status = checkEnd(arguments, **decoder); !status.ok())
    return reporter.fail(status);
  std::vector<int64_t> ends =
      arguments.end ? std::vector<int64_t>{*arguments.end} : model.endIds();
  if (Status status =
          checkPositions(arguments, **decoder, !ends.empty(), longest);
      !status.ok())
    return reporter.fail(status);
  Writer writer(**decoder, arguments, std::move(ends), std::move(*texts));
  if (Status status = writer.write(); !status.ok())
    return reporter.fail(status);

  int64_t bytes = 0;
  for (const Launch &launch : (*decoder)->step().program().launches)
    bytes += launch.bytes;
  // The bytes of a run are shared by its sequences.
  if (writer.stepped > 0)
    bytes = bytes * writer.runs / writer.stepped;
  double perSecond =
      writer.stepped > 0 ? 1e3 * double(writer.stepped) / writer.stepsMs : 0;
  Json document = {{"model", arguments.common.model},
                   {"policy", arguments.common.policy},
                   {"device", device->name()},
                   {"slots", arguments.slots}};
  const std::vector<Text> &written = writer.results();
  if (written.size() == 1)
    document.update(describe(written.front()));
  else
    for (const Text &text : written)
      document["sequences"].push_back(describe(text));
  document["tokens_per_second"] = jsonNumber(perSecond);
  document["bytes_per_token"] = bytes;
  document["compile_ms"] = compileMs;
  double promptMs = 0;
  for (const Text &text : written) {
    promptMs += text.firstMs;
    std::string line;
    for (int64_t token : text.written)
      line += (line.empty() ? "" : ",") + std::to_string(token);
    reporter.line(line);
  }
  std::string speed =
      (written.size() == 1
           ? std::string("prompt of ")
           : std::to_string(written.size()) + " prompts of together ") +
      std::to_string(promptTokens) + " tokens: first token after " +
      shortNumber(promptMs / double(written.size())) + " ms";
  if (writer.stepped > 0)
    speed += "; then " + shortNumber(perSecond) + " tokens/s, " +
             shortBytes(double(bytes)) + " each";
  // Peak rates are measured where the kernels run, on the CPU only.
  if (writer.stepped > 0 && device->architecture().empty() &&
      device->needsCode()) {
    PeakRates ceilings = measurePeakRates(arguments.common.isa,
                                          /*ofBf16=*/false, device->threads());
    double ceiling = ceilings.bytesPerSecond.back().second;
    double share = double(bytes) * perSecond / ceiling;
    document["memory_bytes_per_second"] = ceiling;
    document["fraction_of_ceiling"] = share;
    speed += " (" + shortNumber(100 * share) + " % of the memory's " +
             shortNumber(ceiling * 1e-9) + " GB/s)";
  }
  reporter.line(speed);
  reporter.document(document);
  return reporter.finish(kDone);
}
