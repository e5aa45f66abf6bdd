//===- Generate.cpp - mpc generate: a decoder, token by token -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generate.h"

#include "Ceilings.h"
#include "FastPath.h"
#include "Reporter.h"

#include "mpc/JIT/Decoder.h"
#include "mpc/Support/Files.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <chrono>

using namespace mpc;
using namespace mpc::tool;

void tool::addGenerateFlags(CLI::App &command, GenerateArguments &arguments) {
  addOutputOptions(command, arguments.common);
  addModelOptions(command, arguments.common);
  command
      .add_option("--prompt-ids", arguments.prompt,
                  "tokens to begin with: numbers between commas, or a file of "
                  "numbers")
      ->required();
  command.add_option("--tokens", arguments.tokens, "tokens to write at most")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31))
      ->capture_default_str();
  command
      .add_option("--temperature", arguments.sampling.temperature,
                  "divides the logits before a token is drawn; 0 takes the "
                  "most likely one")
      ->check(finiteNumber())
      ->capture_default_str();
  command
      .add_option("--top-k", arguments.sampling.topK,
                  "draw from the K most likely tokens alone (0: all)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31))
      ->capture_default_str();
  command
      .add_option("--top-p", arguments.sampling.topP,
                  "draw from the most likely tokens that have this part of the "
                  "probability together")
      ->check(finiteNumber())
      ->capture_default_str();
  command
      .add_option("--cache", arguments.cache,
                  "tokens that the cache has room for (default: those of this "
                  "run)")
      ->check(CLI::Range(int64_t(2), int64_t(1) << 31));
  command
      .add_option("--chunk", arguments.chunk,
                  "tokens of the prompt that are computed at once")
      ->check(CLI::Range(int64_t(2), int64_t(1) << 20))
      ->capture_default_str();
  command.add_option("--end-id", arguments.end,
                     "the token behind which nothing more is written");
}

/// Reads numbers with commas or white space between them; `where` names them in
/// errors.
static Result<std::vector<int64_t>> parseTokens(const std::string &text,
                                                const std::string &where) {
  static constexpr const char *kSpace = ", \t\r\n";
  std::vector<int64_t> tokens;
  for (size_t at = text.find_first_not_of(kSpace); at != std::string::npos;) {
    size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    int64_t token = 0;
    auto [rest, error] =
        std::from_chars(text.data() + at, text.data() + end, token);
    if (error != std::errc() || rest != text.data() + end)
      return Status(StatusCode::InvalidArgument, where,
                    "'" + text.substr(at, std::min<size_t>(end - at, 40)) +
                        "' is no token: a prompt is made of numbers with "
                        "commas or spaces between them");
    tokens.push_back(token);
    at = text.find_first_not_of(kSpace, end);
  }
  if (tokens.empty())
    return Status(StatusCode::InvalidArgument, where,
                  "has no tokens; a prompt has at least one");
  return tokens;
}

static Result<std::vector<int64_t>> readPrompt(const std::string &argument) {
  if (argument.find_first_not_of("0123456789-, ") == std::string::npos)
    return parseTokens(argument, "--prompt-ids");
  Result<std::string> text = readWholeFile(argument);
  if (!text.ok())
    return text.status();
  return parseTokens(*text, argument);
}

/// The decoder that the flags ask for, with room for `needed` tokens.
static Result<Decoder> openDecoder(const GenerateArguments &arguments,
                                   const Device &device, int64_t needed,
                                   Reporter &reporter) {
  Result<CompileOptions> compile =
      makeCompileOptions(arguments.common, device, reporter);
  if (!compile.ok())
    return compile.status();
  reportFastPath(*compile, reporter);
  Result<Engine> engine = Engine::create(device);
  if (!engine.ok())
    return engine.status();
  DecoderOptions options{std::move(*compile)};
  options.chunk = arguments.chunk;
  // Sizes that differ little share what was compiled for them before.
  constexpr int64_t kStep = 64;
  options.capacity =
      arguments.cache > 0
          ? arguments.cache
          : (std::max(needed, options.chunk) + kStep - 1) / kStep * kStep;
  return Decoder::open(*engine, arguments.common.model, options);
}

/// Milliseconds of `call`.
template <typename Call> static double timed(Call call) {
  auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now() - start)
      .count();
}

int tool::generateCommand(const GenerateArguments &arguments) {
  Reporter reporter(arguments.common.json, arguments.common.quiet);
  Result<std::vector<int64_t>> prompt = readPrompt(arguments.prompt);
  if (!prompt.ok())
    return reporter.fail(prompt.status());
  SamplingOptions sampling = arguments.sampling;
  sampling.seed = arguments.common.seed;
  Result<Sampler> sampler = Sampler::create(sampling);
  if (!sampler.ok())
    return reporter.fail(sampler.status());
  Result<Device> device = makeDevice(arguments.common);
  if (!device.ok())
    return reporter.fail(device.status());

  int64_t needed = int64_t(prompt->size()) + arguments.tokens;
  std::optional<Result<Decoder>> decoder;
  double compileMs = timed(
      [&] { decoder = openDecoder(arguments, *device, needed, reporter); });
  if (!decoder->ok())
    return reporter.fail(decoder->status());
  Result<Sequence> sequence = (*decoder)->start();
  if (!sequence.ok())
    return reporter.fail(sequence.status());
  if (needed > (*decoder)->capacity())
    return reporter.fail(Status(
        StatusCode::InvalidArgument, arguments.common.model,
        "a prompt of " + std::to_string(prompt->size()) + " tokens and " +
            std::to_string(arguments.tokens) + " more need a cache for " +
            std::to_string(needed) + ", but --cache is " +
            std::to_string((*decoder)->capacity())));

  std::vector<int64_t> written;
  std::vector<int64_t> next = *prompt;
  double promptMs = 0, stepsMs = 0;
  while (int64_t(written.size()) < arguments.tokens) {
    Status status;
    double took = timed([&] {
      Result<std::vector<float>> logits = sequence->feed(next);
      Result<int64_t> token =
          logits.ok() ? sampler->next(*logits) : logits.status();
      if (token.ok())
        next = {*token};
      else
        status = token.status();
    });
    if (!status.ok())
      return reporter.fail(status);
    (written.empty() ? promptMs : stepsMs) += took;
    written.push_back(next.front());
    if (next.front() == arguments.end)
      break;
  }

  int64_t bytes = 0;
  for (const Launch &launch : (*decoder)->step().program().launches)
    bytes += launch.bytes;
  size_t steps = written.size() - 1;
  double perSecond = steps > 0 ? 1e3 * double(steps) / stepsMs : 0;
  Json document = {{"model", arguments.common.model},
                   {"policy", arguments.common.policy},
                   {"device", device->name()},
                   {"prompt_tokens", prompt->size()},
                   {"tokens", written},
                   {"first_token_ms", promptMs},
                   {"tokens_per_second", jsonNumber(perSecond)},
                   {"bytes_per_token", bytes},
                   {"compile_ms", compileMs}};
  std::string line;
  for (int64_t token : written)
    line += (line.empty() ? "" : ",") + std::to_string(token);
  reporter.line(line);
  std::string speed = "prompt of " + std::to_string(prompt->size()) +
                      " tokens: first token after " + shortNumber(promptMs) +
                      " ms";
  if (steps > 0)
    speed += "; then " + shortNumber(perSecond) + " tokens/s, " +
             shortBytes(double(bytes)) + " each";
  // Ceilings are measured where the kernels run, which is the processor alone.
  if (steps > 0 && device->architecture().empty() && device->needsCode()) {
    Ceilings ceilings = measureCeilings(arguments.common.isa, /*ofBf16=*/false,
                                        device->threads());
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
