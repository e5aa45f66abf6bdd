//===- MessageFileTests.cpp - tests of files with messages ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Communication/MessageProgram.h"

#include "Container/Container.h"
#include "mpc/Runtime/ExecutableFile.h"

#include <gtest/gtest.h>

#include <fstream>

using namespace mpc;
using namespace mpc::testing;

using Kind = Collective::Kind;
using Reduction = Collective::Reduction;

namespace {

container::Contents contentsOf(const Collective &how,
                               std::span<const std::byte> code) {
  container::Contents contents;
  contents.name = "main";
  container::StoredSpecialisation &stored =
      contents.specialisations.emplace_back();
  Program program = messageProgram(how, {8, 6});
  program.target = "cpu:avx2";
  for (const ProgramValue &value : program.arguments)
    stored.arguments.push_back({value.name, value.type, "input", 0});
  for (const ProgramValue &value : program.results)
    stored.results.push_back({value.name, value.type, "output", 0});
  stored.programs.push_back({program, code});
  return contents;
}

Result<ExecutableFile> fileOf(const container::Contents &contents) {
  return ExecutableFile::fromBytes(*container::encode(contents), "m.mpcx");
}

} // namespace

TEST(MessageFile, KeepsEveryFact) {
  for (const Collective &how :
       {Collective{Kind::ReduceScatter, Reduction::Mean, ElementType::BF16,
                   ElementType::F64, 3},
        Collective{Kind::Broadcast, Reduction::Sum, ElementType::I8,
                   ElementType::F32, 9, 7}}) {
    Result<ExecutableFile> file = fileOf(contentsOf(how, {}));
    ASSERT_TRUE(file.ok()) << file.status().toString();
    EXPECT_EQ(file->targets()[0].kernels, 0);
    Result<Executable> loaded = file->load(Device::null());
    ASSERT_TRUE(loaded.ok()) << loaded.status().toString();
    EXPECT_EQ(loaded->program().launches[0].collective, how);
  }
}

TEST(MessageFile, RunsWhatWasWritten) {
  if (!__builtin_cpu_supports("avx2"))
    GTEST_SKIP() << "no AVX2";
  std::ifstream library(MPC_TEST_KERNELS, std::ios::binary);
  std::string code((std::istreambuf_iterator<char>(library)), {});
  Result<ExecutableFile> file =
      fileOf(contentsOf({.ranks = 1}, std::as_bytes(std::span(code))));
  ASSERT_TRUE(file.ok()) << file.status().toString();
  Result<Executable> loaded =
      file->load(*Device::cpu({.threads = 1}), {.trusted = true});
  ASSERT_TRUE(loaded.ok()) << loaded.status().toString();
  Result<std::vector<Bytes>> results = runMessage(*loaded, 0, nullptr);
  ASSERT_TRUE(results.ok()) << results.status().toString();
  EXPECT_EQ((*results)[1], draw(ElementType::F32, 6, 0, 1));
}

TEST(MessageFile, RefusesWhatMakesNoSense) {
  auto refused = [](auto change) {
    container::Contents contents = contentsOf({.ranks = 4}, {});
    Launch &launch =
        contents.specialisations[0].programs[0].program.launches[0];
    change(*launch.collective);
    Result<ExecutableFile> file = fileOf(contents);
    return file.ok() ? "" : file.status().text();
  };
  EXPECT_EQ(refused([](Collective &) {}), "");
  EXPECT_EQ(refused([](Collective &how) { how.kind = Kind(4); }),
            "has a collective of an unknown kind");
  EXPECT_EQ(refused([](Collective &how) { how.reduction = Reduction(4); }),
            "has a collective of an unknown kind");
  EXPECT_NE(refused([](Collective &how) { how.ranks = -1; }), "");
  EXPECT_NE(refused([](Collective &how) { how.element = ElementType::F64; }),
            "");
}
