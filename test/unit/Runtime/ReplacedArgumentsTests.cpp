//===- ReplacedArgumentsTests.cpp - results that alias arguments ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that update their arguments in place: a training step.
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Executable.h"

#include <gtest/gtest.h>

#include <array>

using namespace mpc;

namespace {

constexpr int64_t kCount = 100;
const TensorType kType{ElementType::F32, {kCount}};

/// w[i] = w[i] - g[i]; loss[i] = w[i] before that.
void stepKernel(void *const *buffers, int64_t begin, int64_t end, void *) {
  const auto *old = static_cast<const float *>(buffers[0]);
  const auto *gradient = static_cast<const float *>(buffers[1]);
  auto *loss = static_cast<float *>(buffers[2]);
  auto *parameter = static_cast<float *>(buffers[3]);
  for (int64_t i = begin; i < end; ++i) {
    float value = old[i];
    loss[i] = value;
    parameter[i] = value - gradient[i];
  }
}

Program makeStep() {
  auto ref = [](BufferRef::Kind kind, int64_t index, bool written) {
    return BufferRef{kind, index, 0, kCount * 4, written};
  };
  Program program;
  program.name = "step";
  program.target = "cpu:test";
  program.arguments = {{"w", kType, "parameter"}, {"g", kType, "input"}};
  program.results = {{"loss", kType, "loss"}, {"w", kType, "parameter"}};
  program.results[1].alias = 0;
  Launch launch;
  launch.kernel = "step";
  launch.kind = "update";
  launch.function = stepKernel;
  launch.buffers = {ref(BufferRef::Kind::Argument, 0, false),
                    ref(BufferRef::Kind::Argument, 1, false),
                    ref(BufferRef::Kind::Result, 0, true),
                    ref(BufferRef::Kind::Result, 1, true)};
  launch.items = kCount;
  launch.grain = 16;
  program.launches = {launch};
  return program;
}

Executable makeExecutable() {
  return *Executable::create(*Device::cpu({.threads = 2}),
                             std::make_shared<const Program>(makeStep()));
}

Buffer filled(float value) {
  Buffer buffer = *Buffer::allocate(kType);
  for (float &element : buffer.as<float>())
    element = value;
  return buffer;
}

} // namespace

TEST(ReplacedArguments, AResultIsTheArgumentsBuffer) {
  Executable executable = makeExecutable();
  std::array arguments = {filled(5), filled(1)};
  for (float expected : {4.0f, 3.0f, 2.0f}) {
    Result<std::vector<Buffer>> results = executable.run(arguments);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    EXPECT_EQ((*results)[1].address(), arguments[0].address());
    EXPECT_EQ((*results)[0].as<float>()[kCount - 1], expected + 1);
    for (float value : arguments[0].as<float>())
      ASSERT_EQ(value, expected);
  }
}

TEST(ReplacedArguments, RunIntoTakesTheArgumentOrNothing) {
  Executable executable = makeExecutable();
  std::array arguments = {filled(5), filled(1)};
  std::array results = {filled(0), Buffer()};
  ASSERT_TRUE(executable.runInto(arguments, results).ok());
  EXPECT_EQ(results[1].address(), arguments[0].address());
  // The updated argument is passed again.
  ASSERT_TRUE(executable.runInto(arguments, results).ok());
  EXPECT_EQ(arguments[0].as<float>()[0], 3);
  results[1] = filled(0);
  Status status = executable.runInto(arguments, results);
  EXPECT_EQ(status.toString(),
            "output 'w': replaces input 'w', but has another buffer; give the "
            "buffer of the input or a null buffer");
  EXPECT_EQ(arguments[0].as<float>()[0], 3);
}

TEST(ReplacedArguments, WhatIsWrittenIsNoOtherArgument) {
  Executable executable = makeExecutable();
  Buffer both = filled(5);
  std::array arguments = {both, both};
  Status status = executable.run(arguments).status();
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.text(), "shares memory with input 'w', but the program "
                           "writes one of them; give them separate buffers");
}

TEST(ReplacedArguments, ValidateRefusesSenselessOnes) {
  auto refusal = [](auto change) {
    Program program = makeStep();
    change(program);
    return validate(program, true).toString();
  };
  EXPECT_TRUE(validate(makeStep(), true).ok());
  EXPECT_EQ(refusal([](Program &p) { p.results[1].alias = 2; }),
            "step: w: replaces argument 2, but there are 2");
  EXPECT_EQ(refusal([](Program &p) { p.results[1].alias = -2; }),
            "step: w: replaces argument -2, but there are 2");
  EXPECT_EQ(refusal([](Program &p) { p.results[0].alias = 0; }),
            "step: w: replaces argument 'w', which another result replaces");
  EXPECT_EQ(refusal([](Program &p) {
              p.arguments[0].type.element = ElementType::I32;
            }),
            "step: w: of type f32[100] replaces argument 'w' of type i32[100]");
  EXPECT_EQ(refusal([](Program &p) { p.arguments[1].alias = 0; }),
            "step: g: is an argument and replaces argument 0");
  // An argument is written by its name as a result only.
  EXPECT_NE(refusal([](Program &p) {
              p.launches[0].buffers[0].written = true;
            }).find("writes an argument"),
            std::string::npos);
}

TEST(ReplacedArguments, AValueWrittenInPlaceIsLiveOnce) {
  auto arena = [](int64_t offset, int64_t bytes, bool written) {
    return BufferRef{BufferRef::Kind::Arena, 0, offset, bytes, written};
  };
  auto launch = [](std::vector<BufferRef> buffers) {
    Launch made;
    made.buffers = std::move(buffers);
    return made;
  };
  Program program;
  program.launches = {
      launch({arena(0, 256, true)}),
      launch({arena(0, 256, false), arena(0, 256, true)}),
      launch({arena(0, 256, false), arena(256, 64, true)}),
      launch({arena(256, 64, false)}),
  };
  EXPECT_EQ(program.liveArenaBytes(), 320);
}
