//===- CudaLaunchesTests.cpp - tests of a program's code on a GPU ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Selection of machine code, rejected launches, and GEMMs that a library
// computes.
//
//===----------------------------------------------------------------------===//

#include "CudaTestProgram.h"

using namespace mpc;
using namespace mpc::recording;

using CudaLaunches = CudaTest;

//===----------------------------------------------------------------------===//
// Machine code
//===----------------------------------------------------------------------===//

TEST_F(CudaLaunches, CompilesTextForTheDevice) {
  std::vector<std::string> asked;
  Device device = *makeCudaDevice(
      {}, {[&](const CudaCode &code, const std::string &architecture) {
             asked.push_back(architecture);
             return compileTexts(code, architecture);
           },
           {}});
  ASSERT_TRUE(makeCudaExecutable(device, makeCudaProgram()).ok());
  EXPECT_EQ(asked, std::vector<std::string>{"sm_90a"});
}

TEST_F(CudaLaunches, TakesMachineCodeThatIsThere) {
  Device device = *makeCudaDevice({}, {});
  Program program = makeCudaProgram();
  CudaCode code = *program.cuda;
  for (const char *architecture : {"sm_80", "sm_90"}) {
    std::vector<CudaCode::Binary> made = *compileTexts(code, architecture);
    code.binaries.insert(code.binaries.end(), made.begin(), made.end());
  }
  program.cuda = std::make_shared<const CudaCode>(code);
  Result<Executable> executable = makeCudaExecutable(device, program);
  ASSERT_TRUE(executable.ok()) << executable.status().toString();
  EXPECT_EQ(count("cuModuleLoadData"), 2);
}

TEST_F(CudaLaunches, MachineCodeForOtherGpusAloneIsUnavailable) {
  Device device = *makeCudaDevice({}, {});
  Program program = makeCudaProgram();
  CudaCode code = *program.cuda;
  code.binaries = *compileTexts(code, "sm_80");
  program.cuda = std::make_shared<const CudaCode>(code);
  Status status = makeCudaExecutable(device, program).status();
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.toString(),
            "main: has machine code for sm_80, which does not run on Recording "
            "GPU (sm_90); compile it for that architecture");
}

TEST_F(CudaLaunches, ACompilersFailureIsPassedOn) {
  Device device = *makeCudaDevice(
      {}, {[](const CudaCode &,
              const std::string &) -> Result<std::vector<CudaCode::Binary>> {
             return Status(StatusCode::Unavailable, "nvrtc", "is missing");
           },
           {}});
  EXPECT_EQ(makeCudaExecutable(device, makeCudaProgram()).status().toString(),
            "nvrtc: is missing");
}

//===----------------------------------------------------------------------===//
// What is refused
//===----------------------------------------------------------------------===//

TEST_F(CudaLaunches, RefusesLaunchesThatTheDeviceCannotDo) {
  Device device = *makeCudaDevice();
  auto refused = [&](void (*change)(Launch &)) {
    Program program = makeCudaProgram();
    change(program.launches[1]);
    return makeCudaExecutable(device, program).status().toString();
  };
  EXPECT_EQ(refused([](Launch &launch) { launch.grid.sharedBytes = 1 << 20; }),
            "main: kernel 'add' (bias, relu): shared memory of a block, in "
            "bytes, is 1048576, but must lie between 0 and 232448 on Recording "
            "GPU");
  for (auto change : {+[](Launch &launch) { launch.grid.threads = 2048; },
                      +[](Launch &launch) { launch.grid.blocks[1] = 65536; },
                      +[](Launch &launch) { launch.grid.blocks[0] = -1; }})
    EXPECT_NE(refused(change), "ok");
  EXPECT_EQ(refused([](Launch &launch) { launch.kernel = "other"; }),
            "main: kernel 'other' (bias, relu): has no code for this device");
}

// A block of 200 KB has a multiprocessor alone, of which there are 132.
TEST_F(CudaLaunches, BlocksThatWaitForEachOtherRunAtOnce) {
  Device device = *makeCudaDevice();
  Program program = makeCudaProgram();
  LaunchGrid &grid = program.launches[0].grid;
  grid.cooperative = true;
  grid.sharedBytes = 200 << 10;
  grid.blocks = {133, 1, 1};
  EXPECT_EQ(
      makeCudaExecutable(device, program).status().toString(),
      "main: kernel 'double' (mul): has 133 co-resident blocks "
      "(grid barrier), but Recording GPU runs 132 at once; use a whole GPU, or "
      "the CPU");
  grid.blocks = {132, 1, 1};
  Result<Executable> executable = makeCudaExecutable(device, program);
  ASSERT_TRUE(executable.ok()) << executable.status().toString();
}

TEST_F(CudaLaunches, RefusesAProgramForAnotherTarget) {
  Device device = *makeCudaDevice();
  Program program = makeCudaProgram();
  program.target = "cpu:avx2";
  program.cuda = nullptr;
  EXPECT_EQ(makeCudaExecutable(device, program).status().toString(),
            "main: was compiled for cpu:avx2, not for an NVIDIA GPU");
}

//===----------------------------------------------------------------------===//
// Products by a library
//===----------------------------------------------------------------------===//

namespace {

/// y = x * w of one element by a library.
Program makeProduct() {
  TensorType scalar = {ElementType::F32, {1}};
  Program program;
  program.name = "main";
  program.arguments = {{"x", scalar}, {"w", scalar}};
  program.results = {{"y", scalar}};
  Launch product;
  product.kernel = "fc";
  product.kind = "library";
  product.ops = {"MatMul"};
  product.gemm = GemmProblem();
  product.buffers = {{BufferRef::Kind::Argument, 0, 0, 4, false},
                     {BufferRef::Kind::Argument, 1, 0, 4, false},
                     {BufferRef::Kind::Result, 0, 0, 4, true}};
  program.launches = {product, product};
  return program;
}

/// A library whose GEMM by w copies x on the stream.
class CopyingLibrary : public detail::GemmLibrary {
public:
  struct Product : detail::PreparedGemm {
    explicit Product(CopyingLibrary &library) : library(library) {}
    int64_t workspaceBytes() const override { return 1000; }
    Status enqueue(std::span<const detail::CuAddress> buffers,
                   detail::CuAddress workspace,
                   detail::CuHandle stream) override {
      library.workspaces.push_back(workspace);
      if (library.fails)
        return Status(StatusCode::Internal, "library", "is out of order");
      EXPECT_EQ(driver().memcpyDtoDAsync(buffers[2], buffers[0], 4, stream), 0);
      return {};
    }
    CopyingLibrary &library;
  };
  Result<std::shared_ptr<detail::PreparedGemm>>
  prepare(const GemmProblem &, std::span<const size_t> alignments,
          const std::string &where) override {
    prepared.push_back(where);
    aligned.assign(alignments.begin(), alignments.end());
    return std::shared_ptr<detail::PreparedGemm>(
        std::make_shared<Product>(*this));
  }

  std::vector<std::string> prepared;
  /// Alignments of the buffers of the last GEMM.
  std::vector<size_t> aligned;
  std::vector<detail::CuAddress> workspaces;
  bool fails = false;
};

Device deviceWith(std::shared_ptr<detail::GemmLibrary> library) {
  return *makeCudaDevice({},
                         {compileTexts,
                          [library](std::shared_ptr<detail::CudaContext>)
                              -> Result<std::shared_ptr<detail::GemmLibrary>> {
                            return library;
                          }});
}

} // namespace

TEST_F(CudaLaunches, AProductNeedsALibrary) {
  Device device = *makeCudaDevice();
  Status status = makeCudaExecutable(device, makeProduct()).status();
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.toString(),
            "main: kernel 'fc' (MatMul): is a library GEMM, but no library is "
            "available; compile with --gemm=own");
}

TEST_F(CudaLaunches, AMissingLibrarySaysSo) {
  Device device = *makeCudaDevice(
      {}, {compileTexts,
           [](std::shared_ptr<detail::CudaContext>)
               -> Result<std::shared_ptr<detail::GemmLibrary>> {
             return Status(StatusCode::Unavailable, "cublasLt", "is missing");
           }});
  EXPECT_EQ(makeCudaExecutable(device, makeProduct()).status().toString(),
            "cublasLt: is missing");
  // Programs without GEMMs do not need a library.
  EXPECT_TRUE(makeCudaExecutable(device, makeCudaProgram()).ok());
}

TEST_F(CudaLaunches, ProductsAreCapturedInTheGraph) {
  auto library = std::make_shared<CopyingLibrary>();
  Device device = deviceWith(library);
  Executable executable = *makeCudaExecutable(device, makeProduct());
  EXPECT_EQ(library->prepared,
            (std::vector<std::string>{"main: kernel 'fc' (MatMul)",
                                      "main: kernel 'fc' (MatMul)"}));
  std::array<float, 1> x = {5}, w = {1};
  TensorType scalar = {ElementType::F32, {1}};
  std::array inputs = {*Buffer::fromValues<float>(scalar, x),
                       *Buffer::fromValues<float>(scalar, w)};
  for (int run = 0; run < 2; ++run) {
    Result<std::vector<Buffer>> results = executable.run(inputs);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    EXPECT_EQ(results->front().as<float>()[0], 5);
  }
  // Called for the capture alone, with one workspace for all.
  EXPECT_EQ(count("cuGraphLaunch"), 2);
  ASSERT_EQ(library->workspaces.size(), 2u);
  EXPECT_EQ(library->workspaces[0], library->workspaces[1]);
  EXPECT_EQ(library->workspaces[0] % 256, 0u);
}

// A caller's buffer has the alignment of vector loads; other buffers have that
// of their offset.
TEST_F(CudaLaunches, AProductKnowsTheAlignmentOfItsBuffers) {
  auto library = std::make_shared<CopyingLibrary>();
  Device device = deviceWith(library);
  Program program = makeProduct();
  program.arenaBytes = 1024;
  program.launches.resize(1);
  auto alignmentsWith = [&](int64_t first, int64_t second) {
    program.launches[0].buffers[0] = {BufferRef::Kind::Arena, 0, first, 4,
                                      false};
    program.launches[0].buffers[1] = {BufferRef::Kind::Arena, 0, second, 4,
                                      false};
    EXPECT_TRUE(makeCudaExecutable(device, program).ok());
    return library->aligned;
  };
  EXPECT_EQ(alignmentsWith(0, 64), (std::vector<size_t>{256, 64, 16}));
  EXPECT_EQ(alignmentsWith(8, 512), (std::vector<size_t>{8, 256, 16}));
}

TEST_F(CudaLaunches, AProductThatFailsEndsTheCapture) {
  auto library = std::make_shared<CopyingLibrary>();
  Device device = deviceWith(library);
  Executable executable = *makeCudaExecutable(device, makeProduct());
  TensorType scalar = {ElementType::F32, {1}};
  std::array inputs = {*Buffer::allocate(scalar), *Buffer::allocate(scalar)};
  library->fails = true;
  Status status = executable.run(inputs).status();
  EXPECT_EQ(status.toString(), "library: is out of order");
  EXPECT_EQ(status.notes(),
            std::vector<std::string>{"in main: kernel 'fc' (MatMul)"});
  library->fails = false;
  EXPECT_TRUE(executable.run(inputs).ok());
}
