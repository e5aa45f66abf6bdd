//===- CudaFileTests.cpp - .mpcx files with kernels for GPUs --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Container/Container.h"
#include "DeviceImpl.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

using namespace mpc;
using namespace mpc::container;

namespace {

using Bytes = std::vector<std::byte>;

Bytes bytesOf(const std::string &text) {
  auto bytes = std::as_bytes(std::span(text));
  return Bytes(bytes.begin(), bytes.end());
}

/// A kernel and a library GEMM.
Program makeProgram(const std::string &architecture) {
  TensorType type{ElementType::F32, {8, 8}};
  Program program;
  program.name = "main";
  program.target = "cuda:" + architecture;
  program.arguments = {{"x", type}};
  program.results = {{"y", type}};
  program.arenaBytes = 256;
  Launch kernel;
  kernel.kernel = "k_one";
  kernel.kind = "elementwise";
  kernel.buffers = {{BufferRef::Kind::Argument, 0, 0, 256, false},
                    {BufferRef::Kind::Arena, 0, 0, 256, true}};
  kernel.grid = {{3, 2, 1}, 96, 70000, true};
  kernel.scratchBytes = 48;
  Launch product;
  product.kernel = "gemm";
  product.kind = "library";
  product.buffers = {{BufferRef::Kind::Arena, 0, 0, 256, false},
                     {BufferRef::Kind::Argument, 0, 0, 256, false},
                     {BufferRef::Kind::Result, 0, 0, 256, true}};
  GemmProblem &gemm = product.gemm.emplace();
  gemm.m = gemm.n = gemm.k = 8;
  gemm.transposeB = true;
  gemm.activation = GemmProblem::Activation::Relu;
  gemm.compute = GemmProblem::Compute::Tf32;
  program.launches = {kernel, product};
  auto code = std::make_shared<CudaCode>();
  code->prelude = "prelude";
  code->kernels = {{"k_one", "text of one"}, {"k_two", "text of two"}};
  code->binaries = {
      {architecture, {"k_two", "k_one"}, bytesOf("code for " + architecture)}};
  program.cuda = code;
  return program;
}

Contents makeContents(const std::vector<std::string> &architectures) {
  Contents contents;
  contents.specialisations.emplace_back();
  contents.name = "main";
  contents.model = "m.onnx";
  contents.policy = "tf32";
  contents.compiler = "mpc test";
  TensorType type{ElementType::F32, {8, 8}};
  contents.specialisations[0].arguments = {{"x", type, "input", 0}};
  contents.specialisations[0].results = {{"y", type, "output", 0}};
  for (const std::string &architecture : architectures)
    contents.specialisations[0].programs.push_back(
        {makeProgram(architecture), {}});
  return contents;
}

/// A GPU that loads programs but runs none.
class RecordingGpu : public detail::DeviceImpl {
public:
  explicit RecordingGpu(std::string architecture)
      : gpuArchitecture(std::move(architecture)) {}
  const std::string &name() const override { return deviceName; }
  int threads() const override { return 1; }
  bool needsCode() const override { return true; }
  bool needsFunctions() const override { return false; }
  const std::string &architecture() const override { return gpuArchitecture; }
  Result<std::shared_ptr<detail::LoadedProgram>>
  load(std::shared_ptr<DeviceImpl> self,
       std::shared_ptr<const Program> program) override {
    return detail::loadOnHost(std::move(self), std::move(program));
  }

private:
  std::string deviceName = "cuda";
  std::string gpuArchitecture;
};

Device gpu(const std::string &architecture) {
  return detail::DeviceAccess::make(
      std::make_shared<RecordingGpu>(architecture));
}

/// The target that a GPU of `architecture` selects, or the diagnostic.
std::string chosen(const ExecutableFile &file,
                   const std::string &architecture) {
  Result<Executable> loaded = file.load(gpu(architecture), {.trusted = true});
  return loaded.ok() ? loaded->program().target : loaded.status().text();
}

std::string refusal(const Contents &contents) {
  Result<Bytes> bytes = encode(contents);
  if (!bytes.ok())
    return bytes.status().toString();
  Result<ExecutableFile> file = ExecutableFile::fromBytes(*bytes, "m.mpcx");
  return file.ok() ? "" : file.status().toString();
}

} // namespace

TEST(CudaFile, KeepsEveryFact) {
  Result<Bytes> bytes = encode(makeContents({"sm_80", "sm_90a"}));
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, *encode(makeContents({"sm_80", "sm_90a"})));
  Result<ExecutableFile> file = ExecutableFile::fromBytes(*bytes, "m.mpcx");
  ASSERT_TRUE(file.ok()) << file.status().toString();
  ASSERT_EQ(file->targets().size(), 2u);
  EXPECT_EQ(file->targets()[1].name, "cuda:sm_90a");
  EXPECT_EQ(file->targets()[1].kernels, 1);
  EXPECT_EQ(file->targets()[1].codeBytes, int64_t(strlen("code for sm_90a")));

  Result<Executable> loaded = file->load(gpu("sm_80"), {.trusted = true});
  ASSERT_TRUE(loaded.ok()) << loaded.status().toString();
  const Program &program = loaded->program(), expected = makeProgram("sm_80");
  ASSERT_EQ(program.launches.size(), 2u);
  const Launch &kernel = program.launches[0];
  EXPECT_EQ(kernel.grid.blocks, expected.launches[0].grid.blocks);
  EXPECT_EQ(kernel.grid.threads, 96);
  EXPECT_EQ(kernel.grid.sharedBytes, 70000);
  EXPECT_TRUE(kernel.grid.cooperative);
  EXPECT_EQ(kernel.scratchBytes, 48);
  EXPECT_FALSE(kernel.gemm);
  ASSERT_TRUE(program.launches[1].gemm);
  EXPECT_EQ(*program.launches[1].gemm, *expected.launches[1].gemm);
  ASSERT_TRUE(program.cuda);
  EXPECT_EQ(program.cuda->prelude, "prelude");
  ASSERT_EQ(program.cuda->kernels.size(), 2u);
  EXPECT_EQ(program.cuda->kernels[1].name, "k_two");
  EXPECT_EQ(program.cuda->kernels[1].source, "text of two");
  ASSERT_EQ(program.cuda->binaries.size(), 1u);
  EXPECT_EQ(program.cuda->binaries[0].architecture, "sm_80");
  EXPECT_EQ(program.cuda->binaries[0].kernels,
            (std::vector<std::string>{"k_two", "k_one"}));
  EXPECT_EQ(program.cuda->binaries[0].cubin, bytesOf("code for sm_80"));
}

/// A file with one GEMM only; buffers are parts of the arena and of the
/// result.
Contents withProduct(const GemmProblem &problem) {
  Contents contents = makeContents({"sm_90"});
  Program &program = contents.specialisations[0].programs[0].program;
  Launch product = program.launches[1];
  product.gemm = problem;
  product.buffers.clear();
  int64_t offset = 0;
  std::vector<GemmProblem::Slot> slots = *problem.slots();
  for (const GemmProblem::Slot &slot : slots) {
    product.buffers.push_back(
        {BufferRef::Kind::Arena, 0, offset, slot.bytes, slot.written});
    offset += (slot.bytes + 63) / 64 * 64;
  }
  program.arenaBytes = offset;
  program.launches = {product};
  return contents;
}

TEST(CudaFile, KeepsEveryFactOfProducts) {
  GemmProblem kept;
  kept.m = 3;
  kept.n = 24;
  kept.k = 5;
  kept.batch = 2;
  kept.operandA = kept.operandB = ElementType::F16;
  kept.transposeA = kept.sharedB = kept.bias = kept.auxiliary = true;
  kept.activation = GemmProblem::Activation::GeluTanh;
  GemmProblem back;
  back.n = 8;
  back.transposeB = true;
  back.activation = GemmProblem::Activation::GeluTanhGradient;
  back.biasGradient = GemmProblem::BiasGradient::Result;
  back.compute = GemmProblem::Compute::Bf16x9;
  GemmProblem reduced;
  reduced.m = reduced.n = reduced.k = 16;
  reduced.operandA = ElementType::F8E5M2;
  reduced.operandB = reduced.result = ElementType::F8E4M3FN;
  reduced.transposeB = reduced.scales = reduced.resultScale = reduced.amax =
      true;
  GemmProblem sums;
  sums.sharedA = sums.transposeB = true;
  sums.biasGradient = GemmProblem::BiasGradient::A;
  for (const GemmProblem &problem : {kept, back, reduced, sums}) {
    SCOPED_TRACE(problem.toString());
    Result<ExecutableFile> file =
        ExecutableFile::fromBytes(*encode(withProduct(problem)), "m.mpcx");
    ASSERT_TRUE(file.ok()) << file.status().toString();
    Result<Executable> loaded = file->load(gpu("sm_90"), {.trusted = true});
    ASSERT_TRUE(loaded.ok()) << loaded.status().toString();
    ASSERT_TRUE(loaded->program().launches[0].gemm);
    EXPECT_EQ(*loaded->program().launches[0].gemm, problem);
  }
}

TEST(CudaFile, TakesTheProgramThatSuitsTheGpu) {
  ExecutableFile file = *ExecutableFile::fromBytes(
      *encode(makeContents({"sm_80", "sm_90a", "sm_90", "sm_75"})), "m.mpcx");
  EXPECT_EQ(chosen(file, "sm_90"), "cuda:sm_90a");
  EXPECT_EQ(chosen(file, "sm_80"), "cuda:sm_80");
  EXPECT_EQ(chosen(file, "sm_86"), "cuda:sm_80");
  EXPECT_EQ(chosen(file, "sm_120"), "cuda:sm_90");
  EXPECT_EQ(chosen(file, "sm_75"), "cuda:sm_75");
  EXPECT_EQ(
      chosen(file, "sm_70"),
      "contains code for cuda:sm_80, cuda:sm_90a, cuda:sm_90, cuda:sm_75, "
      "but device cuda runs cuda:sm_70; also compile the model for "
      "it");
  Result<Executable> onCpu = file.load(*Device::cpu(), {.trusted = true});
  ASSERT_FALSE(onCpu.ok());
  EXPECT_EQ(onCpu.status().code(), StatusCode::Unavailable);
}

TEST(CudaFile, CodeNeedsTrust) {
  ExecutableFile file =
      *ExecutableFile::fromBytes(*encode(makeContents({"sm_80"})), "m.mpcx");
  Result<Executable> loaded = file.load(gpu("sm_80"));
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.status().text().find("trusted"), std::string::npos);
  EXPECT_TRUE(file.load(Device::null()).ok());
}

TEST(CudaFile, RefusesWhatMakesNoSense) {
  Contents contents = makeContents({"sm_80"});
  contents.specialisations[0].programs[0].program.launches[0].kernel =
      "k_three";
  EXPECT_EQ(refusal(contents), "m.mpcx: target 0: lacks kernel 'k_three'");
  contents = makeContents({"sm_80"});
  contents.specialisations[0].programs[0].program.cuda = nullptr;
  EXPECT_EQ(refusal(contents), "m.mpcx: target 0: contains no GPU kernels");
  contents = makeContents({"sm_80"});
  contents.specialisations[0].programs[0].program.target = "cpu:avx2";
  EXPECT_EQ(
      refusal(contents),
      "m.mpcx: target 0: contains GPU kernels but its target is not a GPU");
  for (LaunchGrid grid :
       {LaunchGrid{{-1, 1, 1}, 32, 0}, LaunchGrid{{1, 70000, 1}, 32, 0},
        LaunchGrid{{1, 1, 1}, 0, 0}, LaunchGrid{{1, 1, 1}, 1025, 0},
        LaunchGrid{{1, 1, 1}, 32, -1},
        LaunchGrid{{int64_t(1) << 31, 1, 1}, 32, 0}}) {
    contents = makeContents({"sm_80"});
    contents.specialisations[0].programs[0].program.launches[0].grid = grid;
    EXPECT_NE(refusal(contents).find("grid"), std::string::npos);
  }
  contents = makeContents({"sm_80"});
  contents.specialisations[0].programs[0].program.launches[1].gemm->k = 9;
  EXPECT_NE(refusal(contents).find("buffer 0 has 256 bytes"),
            std::string::npos);
  contents = makeContents({"sm_80"});
  contents.specialisations[0].programs[0].program.launches[1].gemm->amax = true;
  EXPECT_NE(refusal(contents).find(
                "has a result scale or amax of a result that is not 8-bit"),
            std::string::npos);
  contents = makeContents({"sm_80"});
  contents.specialisations[0].programs[0].program.launches[1].gemm->bias = true;
  EXPECT_NE(refusal(contents).find("has 3 buffers, GEMM"), std::string::npos);
  contents = makeContents({"sm_80"});
  contents.specialisations[0].programs[0].program.launches[1].buffers[1] = {
      BufferRef::Kind::Arena, 0, 0, 256, true};
  EXPECT_NE(refusal(contents).find("buffer 1 is written, which GEMM"),
            std::string::npos);
  for (auto change :
       {+[](GemmProblem &gemm) {
          gemm.activation = GemmProblem::Activation(5);
        },
        +[](GemmProblem &gemm) {
          gemm.biasGradient = GemmProblem::BiasGradient(4);
        },
        +[](GemmProblem &gemm) { gemm.compute = GemmProblem::Compute(3); }}) {
    contents = makeContents({"sm_80"});
    change(*contents.specialisations[0].programs[0].program.launches[1].gemm);
    EXPECT_NE(refusal(contents).find("has an unknown enumerator"),
              std::string::npos);
  }
}

// With any bytes changed, opening fails with a status or the file is intact.
TEST(CudaFile, ChangedBytesNeverCrash) {
  Bytes good = *encode(makeContents({"sm_80", "sm_90a"}));
  std::mt19937 random(1);
  int opened = 0;
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = good;
    for (int change = 0; change < 1 + round % 3; ++change)
      bytes[kHeaderBytes + random() % (bytes.size() - kHeaderBytes)] =
          std::byte(random() & 255);
    Digest digest = digestOf(bytes);
    std::memcpy(bytes.data() + kDigestAt, digest.data(), digest.size());
    Result<ExecutableFile> file = ExecutableFile::fromBytes(bytes, "m.mpcx");
    opened += file.ok() && file->load(gpu("sm_90"), {.trusted = true}).ok();
  }
  EXPECT_GT(opened, 0) << "constants and code may hold any bytes";
}
