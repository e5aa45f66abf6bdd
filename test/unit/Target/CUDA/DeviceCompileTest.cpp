//===- DeviceCompileTest.cpp - the kernels as CUDA ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text that runs on the host also compiles for GPUs with the device
// prelude. Needs NVRTC, but no GPU; skipped without NVRTC.
//
//===----------------------------------------------------------------------===//

#include "CudaKernelRunner.h"
#include "HostKernelTesting.h"
#include "TestKernels.h"

#include <dlfcn.h>

using namespace mpc;

namespace {
/// The few functions of NVRTC that the test calls, found at run time.
class Nvrtc {
public:
  Nvrtc() {
    for (const char *name : {"libnvrtc.so.13", "libnvrtc.so.12",
                             "/usr/local/cuda/lib64/libnvrtc.so"})
      if (!library)
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return;
    find(create, "nvrtcCreateProgram");
    find(compile, "nvrtcCompileProgram");
    find(logSize, "nvrtcGetProgramLogSize");
    find(log, "nvrtcGetProgramLog");
    find(cubinSize, "nvrtcGetCUBINSize");
    find(destroy, "nvrtcDestroyProgram");
  }

  bool found() const { return library; }

  /// Empty, or the compiler's log.
  std::string errorsOf(const std::string &text, const char *architecture) {
    void *program = nullptr;
    create(&program, text.c_str(), "kernel.cu", 0, nullptr, nullptr);
    std::string target = std::string("--gpu-architecture=") + architecture;
    const char *options[] = {target.c_str(), "--fmad=false", "--std=c++17"};
    int status = compile(program, 3, options);
    size_t size = 0;
    logSize(program, &size);
    std::string messages(size, '\0');
    log(program, messages.data());
    size_t code = 0;
    if (status == 0)
      cubinSize(program, &code);
    destroy(&program);
    return code ? "" : "no code: " + messages;
  }

private:
  template <typename Function> void find(Function &function, const char *name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }

  void *library = nullptr;
  int (*create)(void **, const char *, const char *, int, const char *const *,
                const char *const *) = nullptr;
  int (*compile)(void *, int, const char *const *) = nullptr;
  int (*logSize)(void *, size_t *) = nullptr;
  int (*log)(void *, char *) = nullptr;
  int (*cubinSize)(void *, size_t *) = nullptr;
  int (*destroy)(void **) = nullptr;
};
} // namespace

TEST(DeviceCompile, EveryKernelOnEachGeneration) {
  Nvrtc nvrtc;
  if (!nvrtc.found())
    GTEST_SKIP() << "libnvrtc is not installed";
  std::string text = preludeText(PreludeSide::Device);
  for (const std::string &kernels :
       {std::string(kVectorAdd), std::string(kReduction),
        std::string(kTranspose), std::string(kSoftmax), gemmText(true),
        std::string(kConversions), std::string(kMath), std::string(kWarps),
        std::string(kMatrices), std::string(kCopies), std::string(kPowers),
        std::string(kLanes)})
    text += "#line 1 \"kernel.cu\"\n" + kernels;
  for (const char *architecture :
       {"sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120"})
    EXPECT_EQ(nvrtc.errorsOf(text, architecture), "") << architecture;
  EXPECT_EQ(
      nvrtc.errorsOf(preludeText(PreludeSide::Device) + kWarpgroups, "sm_90a"),
      "");
}

// GEMMs that sum an operand, on tensor cores and by FMAs, with and without
// split-K.
TEST(DeviceCompile, SumsBesideProducts) {
  Nvrtc nvrtc;
  if (!nvrtc.found())
    GTEST_SKIP() << "libnvrtc is not installed";
  for (const char *architecture : {"sm_75", "sm_80", "sm_90a"})
    for (const char *k : {"40", "4096"}) {
      std::string module = R"(
func.func private @half(%x: tensor<Kx24xf16>, %g: tensor<Kx36xf16>) -> (tensor<24x36xf16>, tensor<36xf16>)
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %g transpose_lhs : (tensor<Kx24xf16>, tensor<Kx36xf16>) -> tensor<24x36xf32>
  %1 = mpc.cast %0 : tensor<24x36xf32> to tensor<24x36xf16>
  %2 = mpc.cast %g : tensor<Kx36xf16> to tensor<Kx36xf32>
  %3 = mpc.reduce_sum %2 axes([0]) : tensor<Kx36xf32> -> tensor<36xf32>
  %4 = mpc.cast %3 : tensor<36xf32> to tensor<36xf16>
  return %1, %4 : tensor<24x36xf16>, tensor<36xf16>
}
func.func private @single(%g: tensor<Kx24xf32>, %x: tensor<Kx36xf32>) -> (tensor<24x36xf32>, tensor<24xf32>)
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %g, %x transpose_lhs : (tensor<Kx24xf32>, tensor<Kx36xf32>) -> tensor<24x36xf32>
  %1 = mpc.reduce_sum %g axes([0]) : tensor<Kx24xf32> -> tensor<24xf32>
  return %0, %1 : tensor<24x36xf32>, tensor<24xf32>
})";
      for (size_t at; (at = module.find("Kx")) != std::string::npos;)
        module.replace(at, 1, k);
      CudaText kernels = cudaText(module, cudaTarget(architecture));
      ASSERT_EQ(kernels.error, "");
      EXPECT_NE(kernels.text.find("operandSums"), std::string::npos);
      EXPECT_EQ(kernels.text.find("sumsOfBlocks") != std::string::npos,
                std::string(k) == "4096");
      EXPECT_EQ(nvrtc.errorsOf(preludeText(PreludeSide::Device) +
                                   "#line 1 \"kernel.cu\"\n" + kernels.text,
                               architecture),
                "")
          << architecture;
    }
}

TEST(DeviceCompile, HeadersUseNothingFromOutside) {
  for (PreludeSide side : {PreludeSide::Host, PreludeSide::Device})
    EXPECT_EQ(preludeText(side).find("#include"), std::string::npos);
}
