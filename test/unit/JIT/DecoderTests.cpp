//===- DecoderTests.cpp - tests of autoregressive decoding ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"
#include "JIT/DecoderSignature.h"
#include "JIT/SlidingWindowCache.h"

#include "mpc/JIT/Decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <thread>

using namespace mpc;

namespace {

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

TEST(SlidingCacheTest, WindowStartsWithTheLastRows) {
  constexpr int64_t kRows = 5, kRow = 2, kSlack = 4;
  Stream stream = *Stream::create(*Device::cpu());
  // The surrounding bytes of the same allocation do not change.
  const TensorType type{ElementType::F32, {kRows, kRow}},
      bytes{ElementType::I8, {kRows, 3}};
  const std::vector<TensorType> types = {bytes, type, bytes};
  std::vector<SlidingWindowCache> caches =
      *SlidingWindowCache::create(stream, types, kSlack);
  SlidingWindowCache &cache = caches[1];
  std::vector<float> wanted(kRows * kRow);
  std::mt19937 random(1);
  float next = 1;
  // Long enough for the window to come back to the start some times.
  for (int step = 0; step < 40; ++step) {
    int64_t given = 1 + random() % kSlack, count = 1 + random() % given;
    std::vector<SlidingWindowCache> copies;
    if (step % 7 == 0) {
      copies = *SlidingWindowCache::create(stream, types, kSlack);
      ASSERT_TRUE(SlidingWindowCache::copyRows(caches, copies, kRows).ok());
    }
    std::vector<float> rows(given * kRow);
    for (float &value : rows)
      value = next++;
    for (SlidingWindowCache *each :
         {&cache, copies.empty() ? nullptr : &copies[1]}) {
      if (!each)
        continue;
      Buffer window = *each->window(given);
      ASSERT_EQ(window.type().shape,
                (std::vector<int64_t>{kRows + given, kRow}));
      std::span<float> values = window.as<float>();
      for (int64_t i = 0; i < kRows * kRow; ++i)
        ASSERT_EQ(values[i], *(wanted.end() - kRows * kRow + i))
            << step << ' ' << i;
      std::copy(rows.begin(), rows.end(), values.begin() + kRows * kRow);
      each->slide(count);
    }
    wanted.insert(wanted.end(), rows.begin(), rows.begin() + count * kRow);
    for (SlidingWindowCache *beside : {&caches[0], &caches[2]})
      for (int8_t value : beside->window(kSlack)->as<int8_t>())
        ASSERT_EQ(value, 0) << step;
    for (SlidingWindowCache &copy : copies) {
      copy.clear();
      Buffer window = *copy.window(kSlack);
      for (std::byte value : std::as_const(window).as<std::byte>())
        ASSERT_EQ(value, std::byte(0)) << step;
    }
  }
}

TEST(SlidingCacheTest, RowsWithoutASizeAreRefused) {
  Stream stream = *Stream::create(*Device::cpu());
  const TensorType huge{ElementType::F32, {INT64_MAX / 8, 1}};
  Result<std::vector<SlidingWindowCache>> caches =
      SlidingWindowCache::create(stream, std::vector<TensorType>(3, huge), 1);
  ASSERT_FALSE(caches.ok());
  EXPECT_NE(caches.status().toString().find("do not fit in memory"),
            std::string::npos)
      << caches.status().toString();
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

std::vector<ModelInput> decoderInputs() {
  return {{"input_ids", ElementType::I64, {-1, -1}, {"batch", "tokens"}},
          {"attention_mask", ElementType::I64, {-1, -1}, {"batch", "total"}},
          {"position_ids", ElementType::I32, {1, -1}, {"", "tokens"}},
          {"past_key_values.0.key", ElementType::F32, {-1, 2, -1, 4}, {}},
          {"past_key_values.0.value", ElementType::F32, {-1, 2, -1, 4}, {}}};
}

TEST(DecoderSignatureTest, FindsInputsByName) {
  std::vector<ModelInput> inputs = decoderInputs();
  inputs.push_back({"past_1", ElementType::F16, {1, -1, 8}, {}});
  Result<DecoderSignature> found = DecoderSignature::find(inputs, "m.onnx");
  ASSERT_TRUE(found.ok()) << found.status().toString();
  EXPECT_EQ(found->positions->name, "position_ids");
  ASSERT_EQ(found->caches.size(), 3u);
  EXPECT_EQ(found->caches[1].result, "present.0.value");
  EXPECT_EQ(found->caches[1].axis, 2);
  EXPECT_EQ(found->caches[2].result, "present_1");
  EXPECT_EQ(found->caches[2].axis, 1);
  auto shapes = found->shapes(5, 3, 16);
  EXPECT_EQ(shapes["attention_mask"], (std::vector<int64_t>{5, 19}));
  EXPECT_EQ(shapes["past_key_values.0.key"],
            (std::vector<int64_t>{5, 2, 16, 4}));
  EXPECT_FALSE(found->growing(1)[0].apart);
  EXPECT_TRUE(found->growing(5)[0].apart);
}

TEST(DecoderSignatureTest, SlotsWantTheBatchOpen) {
  std::vector<ModelInput> inputs = decoderInputs();
  Result<DecoderSignature> found = DecoderSignature::find(inputs, "m.onnx");
  EXPECT_NE(found->checkBatch("m.onnx").toString().find(
                "input 'position_ids' of shape [1,-1] has a batch of 1"),
            std::string::npos)
      << found->checkBatch("m.onnx").toString();
  inputs[2].shape[0] = -1;
  EXPECT_TRUE(
      DecoderSignature::find(inputs, "m.onnx")->checkBatch("m.onnx").ok());
  inputs[4].shape[0] = 1;
  EXPECT_NE(DecoderSignature::find(inputs, "m.onnx")
                ->checkBatch("m.onnx")
                .toString()
                .find("input 'past_key_values.0.value'"),
            std::string::npos);
}

TEST(DecoderSignatureTest, NamesWhatIsWrong) {
  auto textOf = [](const std::vector<ModelInput> &inputs) {
    Result<DecoderSignature> found = DecoderSignature::find(inputs, "m.onnx");
    return found.ok() ? std::string() : found.status().toString();
  };
  auto without = [&](size_t index) {
    std::vector<ModelInput> inputs = decoderInputs();
    inputs.erase(inputs.begin() + index);
    return textOf(inputs);
  };
  EXPECT_NE(without(0).find("no input 'input_ids'"), std::string::npos);
  EXPECT_NE(without(1).find("no input 'attention_mask'"), std::string::npos);
  EXPECT_EQ(without(2), "");
  std::vector<ModelInput> inputs = decoderInputs();
  inputs.resize(3);
  EXPECT_NE(textOf(inputs).find("name starts with 'past'"), std::string::npos);
  inputs = decoderInputs();
  inputs.push_back({"cache_position", ElementType::I64, {-1}, {}});
  EXPECT_NE(
      textOf(inputs).find("'cache_position' is not an input of a decoder"),
      std::string::npos);
  // Numbers of types that tokens, positions and masks have not.
  for (auto [index, element] : {std::pair{0, ElementType::I16},
                                {0, ElementType::I1},
                                {1, ElementType::F16},
                                {1, ElementType::UI8},
                                {2, ElementType::F32}}) {
    inputs = decoderInputs();
    inputs[index].element = element;
    EXPECT_NE(textOf(inputs).find("must be i64 or i32"), std::string::npos);
  }
  inputs = decoderInputs();
  inputs[3].shape[1] = -1;
  EXPECT_NE(
      textOf(inputs).find("one extent after the batch of 1 must be dynamic"),
      std::string::npos);
  inputs = decoderInputs();
  inputs[3].element = ElementType::I64;
  EXPECT_NE(textOf(inputs).find("must be floats"), std::string::npos);
  inputs = decoderInputs();
  inputs[0].shape = {1, 7};
  EXPECT_NE(textOf(inputs).find("with a dynamic N"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

class DecoderTest : public TemporaryFolder {
protected:
  void SetUp() override {
    const char *root = std::getenv("MPC_SOURCE_DIR");
    if (!root)
      GTEST_SKIP() << "MPC_SOURCE_DIR names no source tree";
    TemporaryFolder::SetUp();
    model = std::string(root) + "/test/Inputs/decoder/model.onnx";
    options.compile.useCache = false;
    options.capacity = 48;
    options.chunk = 8;
    draw(40);
  }

  void draw(size_t count) {
    std::mt19937 random(3);
    tokens.resize(count);
    for (int64_t &token : tokens)
      token = random() % 61;
  }

  /// A policy file with caches of this type.
  std::string policyWithCache(const std::string &type) const {
    std::string name = "cache-" + type + ".json";
    write(name, R"({"name": "narrow", "extends": "float32", "cache": ")" +
                    type + "\"}");
    return path(name);
  }

  /// Logits after each token, computed at once and without a cache.
  std::vector<float> whole() {
    CompileOptions compile;
    int64_t count = tokens.size();
    compile.inputShapes = {{"input_ids", {1, count}},
                           {"attention_mask", {1, count}},
                           {"position_ids", {1, count}}};
    for (const char *name : {"0.key", "0.value", "1.key", "1.value"})
      compile.inputShapes["past_key_values." + std::string(name)] = {1, 2, 0,
                                                                     4};
    Result<Executable> made = engine.compile(model, compile);
    EXPECT_TRUE(made.ok()) << made.status().toString();
    std::vector<Buffer> arguments;
    for (const ProgramValue &value : made->program().arguments) {
      arguments.push_back(*Buffer::allocate(value.type));
      if (value.type.element == ElementType::I64)
        for (int64_t i = 0; i < count; ++i)
          arguments.back().as<int64_t>()[i] =
              value.name == "input_ids"        ? tokens[i]
              : value.name == "attention_mask" ? 1
                                               : i;
    }
    Buffer logits = made->run(arguments)->front();
    std::span<const float> values = std::as_const(logits).as<float>();
    return {values.begin(), values.end()};
  }

  /// Feeds the tokens of a new sequence in chunks of these sizes, and compares
  /// the logits after each chunk with whole().
  void expectWhole(const Decoder &decoder, const std::vector<size_t> &pieces) {
    std::vector<float> all = whole();
    float largest = 0;
    for (float value : all)
      largest = std::max(largest, std::abs(value));
    Sequence sequence = *decoder.start();
    size_t fed = 0;
    for (size_t count : pieces) {
      Result<std::vector<float>> logits =
          sequence.feed(std::span(tokens).subspan(fed, count));
      ASSERT_TRUE(logits.ok()) << logits.status().toString();
      fed += count;
      // Dot products of depth at most 48, accumulated in another order.
      for (size_t i = 0; i < 61; ++i)
        ASSERT_NEAR((*logits)[i], all[(fed - 1) * 61 + i],
                    64 * 0x1p-24f * largest)
            << fed << ' ' << i;
    }
    EXPECT_EQ(sequence.length(), int64_t(tokens.size()));
  }

  /// One token after eight cached rows.
  static CompileOptions stepOptions() {
    CompileOptions compile;
    compile.useCache = false;
    compile.inputShapes = {{"input_ids", {1, 1}},
                           {"attention_mask", {1, 9}},
                           {"position_ids", {1, 1}}};
    for (const char *name : {"0.key", "0.value", "1.key", "1.value"})
      compile.inputShapes["past_key_values." + std::string(name)] = {1, 2, 8,
                                                                     4};
    return compile;
  }

  std::string model;
  DecoderOptions options;
  std::vector<int64_t> tokens = std::vector<int64_t>(40);
  Engine engine = *Engine::create(*Device::cpu({.threads = 2}));
};

TEST_F(DecoderTest, FedInAnyPiecesItComputesWhatTheWholeDoes) {
  Result<Decoder> decoder = Decoder::open(engine, model, options);
  ASSERT_TRUE(decoder.ok()) << decoder.status().toString();
  EXPECT_EQ(decoder->vocabulary(), 61);
  for (const std::vector<size_t> &pieces :
       {std::vector<size_t>(40, 1), {40}, {3, 8, 1, 9, 19}, {8, 16, 15, 1}})
    expectWhole(*decoder, pieces);
}

TEST_F(DecoderTest, ManyTokensOneByOneAreWhatTheWholeIs) {
  // Heads of queries share those of keys; tokens see 40.
  draw(512);
  options.capacity = 512;
  Decoder decoder = *Decoder::open(engine, model, options);
  expectWhole(decoder, std::vector<size_t>(512, 1));
}

TEST_F(DecoderTest, EndlessSequencesKeepTheirWindow) {
  // The model's tokens see 39 others.
  draw(300);
  options.capacity = 39;
  options.endless = true;
  Result<Decoder> decoder = Decoder::open(engine, model, options);
  ASSERT_TRUE(decoder.ok()) << decoder.status().toString();
  expectWhole(*decoder, std::vector<size_t>(300, 1));
  expectWhole(*decoder, {37, 8, 1, 1, 153, 1, 1, 1, 64, 8, 25});
  // Slots and forks go on as well.
  options.slots = 2;
  Decoder slots = *Decoder::open(engine, model, options);
  std::vector<Sequence> both = {*slots.start()};
  ASSERT_TRUE(both[0].feed(std::span(tokens).first(200)).ok());
  both.push_back(*both[0].fork());
  std::vector<std::vector<float>> logits =
      *slots.advance(both, std::vector{tokens[200], tokens[201]});
  EXPECT_NE(logits[0], logits[1]);
  EXPECT_EQ(logits[0], *([&] {
              Sequence alone = *slots.start();
              EXPECT_TRUE(alone.feed(std::span(tokens).first(200)).ok());
              return alone.feed(std::span(tokens).subspan(200, 1));
            }()));
}

TEST_F(DecoderTest, OnlyWindowsThatTheCacheHoldsAreEndless) {
  options.endless = true;
  auto textFor = [&](int64_t capacity) {
    options.capacity = capacity;
    return Decoder::open(engine, model, options).status().toString();
  };
  EXPECT_NE(
      textFor(38).find("attends to tokens further back than the 38 rows of the "
                       "KV cache, so sequences cannot be longer than the "
                       "cache; the attention window of the model needs 39"),
      std::string::npos)
      << textFor(38);
  // Whether what is looked at is a window's end is not seen here.
  EXPECT_TRUE(
      textFor(16).ends_with("sequences cannot be longer than the cache"))
      << textFor(16);
}

/// Scales go wherever the numbers do: through windows, forks and slots.
TEST_F(DecoderTest, CachesOfEightBitsSlideForkAndJoin) {
  draw(300);
  options.capacity = 39;
  options.endless = true;
  std::vector<float> all = whole();
  // A cached number has an error of half a step of 1/127, or half an ulp of
  // four bits; two layers amplify it to at most a whole step.
  for (auto [type, step] :
       {std::pair("int8", 1.0 / 127), std::pair("float8_e4m3fn", 1.0 / 8)}) {
    SCOPED_TRACE(type);
    options.compile.policy = policyWithCache(type);
    options.slots = 2;
    Result<Decoder> opened = Decoder::open(engine, model, options);
    ASSERT_TRUE(opened.ok()) << opened.status().toString();
    const Decoder &decoder = *opened;
    std::vector<Sequence> both = {*decoder.start()};
    double error = 0, size = 0;
    for (size_t fed = 0; fed < 200;) {
      size_t count = fed % 3 ? 1 : 7;
      std::vector<float> logits =
          *both[0].feed(std::span(tokens).subspan(fed, count));
      fed += count;
      for (size_t i = 0; i < 61; ++i) {
        double wanted = all[(fed - 1) * 61 + i], off = logits[i] - wanted;
        error += off * off;
        size += wanted * wanted;
      }
    }
    EXPECT_LT(std::sqrt(error / size), step);
    EXPECT_GT(error, 0);
    int64_t length = both[0].length();
    both.push_back(*both[0].fork());
    std::vector<int64_t> next = {tokens[length], tokens[length + 1]};
    std::vector<std::vector<float>> together = *decoder.advance(both, next);
    EXPECT_NE(together[0], together[1]);
    for (size_t i : {0, 1}) {
      Sequence alone = *decoder.start();
      for (size_t fed = 0; fed < size_t(length);) {
        size_t count = fed % 3 ? 1 : 7;
        ASSERT_TRUE(alone.feed(std::span(tokens).subspan(fed, count)).ok());
        fed += count;
      }
      EXPECT_EQ(*alone.feed({&next[i], 1}), together[i]) << i;
    }
  }
}

TEST_F(DecoderTest, SequencesAreIndependentAndForkAtTheirPosition) {
  Result<Decoder> decoder = Decoder::open(engine, model, options);
  ASSERT_TRUE(decoder.ok()) << decoder.status().toString();
  auto logitsOf = [&](size_t begin, size_t count) {
    Sequence alone = *decoder->start();
    return *alone.feed(std::span(tokens).subspan(begin, count));
  };
  std::vector<std::vector<float>> wanted(8);
  for (size_t i = 0; i < 8; ++i)
    wanted[i] = logitsOf(i, 5 + i);
  // Eight at once, of different lengths.
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::vector<std::vector<float>> found(8);
  for (size_t i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      Sequence own = *decoder->start();
      found[i] = *own.feed(std::span(tokens).subspan(i, 5 + i));
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(found, wanted);

  Sequence first = *decoder->start();
  ASSERT_TRUE(first.feed(std::span(tokens).first(9)).ok());
  Sequence second = *first.fork();
  std::vector<float> one = *first.feed(std::span(tokens).subspan(9, 1));
  EXPECT_EQ(*second.feed(std::span(tokens).subspan(9, 1)), one);
  EXPECT_NE(*second.feed(std::span(tokens).subspan(20, 1)),
            *first.feed(std::span(tokens).subspan(21, 1)));
  EXPECT_EQ(first.length(), 11);
}

TEST_F(DecoderTest, ForksAPrefix) {
  draw(64);
  options.capacity = 64;
  options.chunk = 8;
  Result<Decoder> decoder = Decoder::open(engine, model, options);
  ASSERT_TRUE(decoder.ok()) << decoder.status().toString();
  Sequence source = *decoder->start();
  ASSERT_TRUE(source.feed(std::span(tokens).first(24)).ok());
  // Single tokens move the window, so that the prefix begins before the buffer.
  for (size_t i = 24; i < 60; ++i)
    ASSERT_TRUE(source.feed(std::span(tokens).subspan(i, 1)).ok());
  for (int64_t length : {0, 8, 16, 24}) {
    Sequence prefix = *source.fork(length);
    EXPECT_EQ(prefix.length(), length);
    Sequence alone = *decoder->start();
    if (length > 0)
      ASSERT_TRUE(alone.feed(std::span(tokens).first(length)).ok());
    for (size_t count : {11, 1})
      EXPECT_EQ(*prefix.feed(std::span(tokens).subspan(30, count)),
                *alone.feed(std::span(tokens).subspan(30, count)))
          << length;
  }
  EXPECT_EQ(source.length(), 60);
  for (int64_t length : {-1, 61})
    EXPECT_NE(source.fork(length).status().text().find(
                  "a sequence of 60 tokens has no prefix of " +
                  std::to_string(length)),
              std::string::npos);
}

TEST_F(DecoderTest, SequencesInTheMemoryOfOthersAreNew) {
  draw(200);
  options.capacity = 39;
  options.endless = true;
  options.slots = 3;
  Result<Decoder> decoder = Decoder::open(engine, model, options);
  ASSERT_TRUE(decoder.ok()) << decoder.status().toString();
  std::vector<float> wanted;
  // The first ones leave their memory to the later ones.
  for (size_t length : {5, 200, 60, 9}) {
    Sequence sequence = *decoder->start();
    std::vector<float> first = *sequence.feed(std::span(tokens).first(5));
    if (wanted.empty())
      wanted = first;
    EXPECT_EQ(first, wanted) << length;
    for (size_t i = 5; i < length; ++i)
      ASSERT_TRUE(sequence.feed(std::span(tokens).subspan(i, 1)).ok());
  }
}

TEST_F(DecoderTest, SlotsGiveWhatEachSequenceGivesAlone) {
  // Sequence `i` has a prompt of 1 + 2 i tokens from place `i` on.
  auto promptOf = [&](size_t i) {
    return std::span<const int64_t>(tokens).subspan(i, 1 + 2 * i);
  };
  auto stepOf = [&](size_t i, size_t step) {
    return tokens[(3 * i + step) % tokens.size()];
  };
  constexpr size_t kSteps = 12;
  using Logits = std::vector<std::vector<float>>;
  auto runAlone = [&](const Decoder &decoder, size_t i) {
    Logits result;
    Sequence sequence = *decoder.start();
    result.push_back(*sequence.feed(promptOf(i)));
    for (size_t step = 0; step < kSteps; ++step) {
      int64_t token = stepOf(i, step);
      result.push_back(*sequence.feed({&token, 1}));
    }
    return result;
  };
  Decoder single = *Decoder::open(engine, model, options);
  std::mt19937 random(5);
  for (const auto &[policy, slots] :
       std::initializer_list<std::pair<std::string, size_t>>{
           {"float32", 2},
           {"float32", 3},
           {"float32", 8},
           {"mixed_bfloat16", 8},
           {policyWithCache("int8"), 3},
           {policyWithCache("float8_e4m3fn"), 2}}) {
    SCOPED_TRACE(policy + " " + std::to_string(slots));
    options.compile.policy = policy;
    options.slots = int64_t(slots);
    Result<Decoder> decoder = Decoder::open(engine, model, options);
    ASSERT_TRUE(decoder.ok()) << decoder.status().toString();
    EXPECT_EQ(decoder->slots(), int64_t(slots));
    // More sequences than slots: sequences start when others have finished, and
    // some wait for a while, in any order.
    size_t count = slots + 3, started = 0;
    std::vector<Logits> found(count);
    std::vector<std::pair<size_t, Sequence>> running;
    while (started < count || !running.empty()) {
      while (started < count && running.size() < slots && random() % 3) {
        running.emplace_back(started, *decoder->start());
        found[started].push_back(
            *running.back().second.feed(promptOf(started)));
        ++started;
      }
      if (running.empty())
        continue;
      std::shuffle(running.begin(), running.end(), random);
      size_t together = 1 + random() % running.size();
      std::vector<Sequence> sequences;
      std::vector<int64_t> next;
      for (size_t k = 0; k < together; ++k) {
        auto &[i, sequence] = running[k];
        sequences.push_back(sequence);
        next.push_back(stepOf(i, found[i].size() - 1));
      }
      Result<Logits> logits = decoder->advance(sequences, next);
      ASSERT_TRUE(logits.ok()) << logits.status().toString();
      for (size_t k = 0; k < together; ++k)
        found[running[k].first].push_back((*logits)[k]);
      std::erase_if(running, [&](const auto &each) {
        return found[each.first].size() > kSteps;
      });
    }
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(found[i], runAlone(*decoder, i)) << i;
      if (policy != "float32")
        continue;
      // A program of one row adds up in another order.
      Logits wanted = runAlone(single, i);
      for (size_t step = 0; step <= kSteps; ++step) {
        float largest = 0;
        for (float value : wanted[step])
          largest = std::max(largest, std::abs(value));
        for (size_t word = 0; word < 61; ++word)
          ASSERT_NEAR(found[i][step][word], wanted[step][word],
                      64 * 0x1p-24f * largest)
              << i << ' ' << step;
      }
    }
  }
}

TEST_F(DecoderTest, ReproducibleLogitsDependOnTheTokensOnly) {
  options.compile.reproducible = true;
  for (const std::string &policy :
       {std::string("float32"), std::string("mixed_bfloat16"),
        policyWithCache("int8")}) {
    SCOPED_TRACE(policy);
    options.compile.policy = policy;
    // Logits after the tokens of each piece.
    auto feed = [&](const Decoder &decoder, size_t size) {
      std::vector<std::vector<float>> logits(tokens.size());
      Sequence sequence = *decoder.start();
      for (size_t at = 0, count; at < tokens.size(); at += count) {
        count = std::min(size, tokens.size() - at);
        logits[at + count - 1] =
            *sequence.feed(std::span(tokens).subspan(at, count));
      }
      return logits;
    };
    options.slots = 1;
    std::vector<std::vector<float>> alone =
        feed(*Decoder::open(engine, model, options), 1);
    for (size_t size : {7, 40}) {
      options.chunk = int64_t(size);
      std::vector<std::vector<float>> pieces =
          feed(*Decoder::open(engine, model, options), size);
      for (size_t i = 0; i < tokens.size(); ++i)
        if (!pieces[i].empty())
          EXPECT_EQ(pieces[i], alone[i]) << size << ' ' << i;
    }
    // Eight sequences at once, each one token behind the one before.
    options.slots = 8;
    Decoder slots = *Decoder::open(engine, model, options);
    std::vector<Sequence> sequences;
    std::vector<int64_t> next;
    for (size_t i = 0; i < 8; ++i) {
      sequences.push_back(*slots.start());
      ASSERT_TRUE(sequences[i].feed(std::span(tokens).first(10 + i)).ok());
      next.push_back(tokens[10 + i]);
    }
    std::vector<std::vector<float>> logits = *slots.advance(sequences, next);
    for (size_t i = 0; i < 8; ++i)
      EXPECT_EQ(logits[i], alone[10 + i]) << i;
  }
}

TEST_F(DecoderTest, RefusesSlotsThatDoNotFit) {
  options.slots = 2;
  Decoder decoder = *Decoder::open(engine, model, options);
  std::vector<Sequence> both = {*decoder.start(), *decoder.start()};
  std::vector<int64_t> next = {1, 2, 3};
  auto textOf = [&](std::span<const Sequence> sequences, size_t count) {
    return decoder.advance(sequences, std::span(next).first(count))
        .status()
        .text();
  };
  EXPECT_NE(textOf(both, 3).find("2 sequences, but 3 tokens"),
            std::string::npos);
  EXPECT_NE(textOf({}, 0).find("at least one"), std::string::npos);
  std::vector<Sequence> three = {both[0], both[1], *decoder.start()};
  EXPECT_NE(textOf(three, 3).find("3 sequences exceed the 2 slots"),
            std::string::npos);
  std::vector<Sequence> twice = {both[1], both[1]};
  EXPECT_NE(textOf(twice, 2).find("index 1 is the same as the one at index 0"),
            std::string::npos);
  Decoder other = *Decoder::open(engine, model, options);
  std::vector<Sequence> strange = {both[0], *other.start()};
  EXPECT_NE(textOf(strange, 2).find("index 1 belongs to another decoder"),
            std::string::npos);
  next[1] = 61;
  EXPECT_NE(textOf(both, 2).find("token 61 at position 1"), std::string::npos);
  next[1] = 2;
  // A full cache blocks the batch, which continues without its sequence.
  ASSERT_TRUE(both[1].feed(tokens).ok());
  ASSERT_TRUE(both[1].feed(std::span(tokens).first(8)).ok());
  EXPECT_NE(
      textOf(both, 2).find("the sequence at index 1 of 48 tokens cannot "
                           "take 1 more tokens: the KV cache has 48 rows"),
      std::string::npos);
  EXPECT_EQ(both[0].length(), 0);
  EXPECT_TRUE(
      decoder.advance(std::span(both).first(1), std::span(next).first(1)).ok());
  EXPECT_EQ(both[0].length(), 1);
  options.slots = 0;
  EXPECT_FALSE(Decoder::open(engine, model, options).ok());
}

TEST_F(DecoderTest, RefusesWhatDoesNotFit) {
  Result<Decoder> decoder = Decoder::open(engine, model, options);
  ASSERT_TRUE(decoder.ok()) << decoder.status().toString();
  Sequence sequence = *decoder->start();
  ASSERT_TRUE(sequence.feed(tokens).ok());
  std::vector<int64_t> more(9, 1);
  Status status = sequence.feed(more).status();
  EXPECT_NE(status.text().find(
                "of 40 tokens cannot take 9 more tokens: the KV cache has 48 "
                "rows"),
            std::string::npos)
      << status.toString();
  EXPECT_EQ(sequence.length(), 40);
  EXPECT_TRUE(sequence.feed(std::span(more).first(8)).ok());
  EXPECT_FALSE(sequence.feed(std::span(more).first(1)).ok());
  more[2] = 61;
  Sequence other = *decoder->start();
  EXPECT_NE(other.feed(more).status().text().find("token 61 at position 2"),
            std::string::npos);
  EXPECT_FALSE(other.feed({}).ok());
  options.chunk = 64;
  EXPECT_FALSE(Decoder::open(engine, model, options).ok());
}

TEST_F(DecoderTest, CachesAreAsNarrowAsThePolicy) {
  auto typeUnder = [&](const std::string &policy,
                       std::vector<std::pair<std::string, std::string>> sets) {
    CompileOptions compile = stepOptions();
    compile.policy = policy;
    compile.sets = std::move(sets);
    compile.caches = {{"past_key_values.0.key", "present.0.key", 2}};
    Result<Executable> made = engine.compile(model, compile);
    EXPECT_TRUE(made.ok()) << made.status().toString();
    int index = made->argumentIndex("past_key_values.0.key");
    const ProgramValue &result =
        made->program().results[made->resultIndex("present.0.key")];
    EXPECT_EQ(result.alias, index);
    return made->program().arguments[index].type.toString();
  };
  EXPECT_EQ(typeUnder("float32", {}), "f32[9,1,2,4]");
  EXPECT_EQ(typeUnder("mixed_bfloat16", {}), "bf16[9,1,2,4]");
  EXPECT_EQ(typeUnder("mixed_float16", {}), "f16[9,1,2,4]");
  EXPECT_EQ(typeUnder(policyWithCache("int8"), {}), "i8[9,1,2,4]");
  EXPECT_EQ(typeUnder(policyWithCache("float8_e4m3fn"), {}), "ui8[9,1,2,4]");
  EXPECT_EQ(typeUnder(policyWithCache("bfloat16"), {}), "bf16[9,1,2,4]");
  // An override may keep attention in float32.
  EXPECT_EQ(typeUnder("mixed_bfloat16", {{"op:attention", "float32"}}),
            "f32[9,1,2,4]");
}

TEST_F(DecoderTest, CachesMustGrowAtTheirEnd) {
  CompileOptions compile = stepOptions();
  auto textWith = [&](const GrowingCache &cache) {
    compile.caches = {cache};
    return engine.compile(model, compile).status().toString();
  };
  EXPECT_NE(textWith({"past_key_values.0.key", "present.0.value", 2})
                .find("'present.0.value' is not a concatenation of input "
                      "'past_key_values.0.key'"),
            std::string::npos);
  EXPECT_NE(textWith({"past_key_values.0.key", "present.0.key", 1})
                .find("along dimension 1"),
            std::string::npos);
  EXPECT_NE(textWith({"past_key_values.7.key", "present.0.key", 2})
                .find("has no input 'past_key_values.7.key'"),
            std::string::npos);
  EXPECT_NE(
      textWith({"past_key_values.0.key", "present.0.key", 2, ElementType::I16})
          .find("cannot be stored as i16"),
      std::string::npos);
}

} // namespace
