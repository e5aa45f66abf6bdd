//===- CudaDriverTests.cpp - tests of finding the driver ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The recording driver as a library takes the place of the real one.
//
//===----------------------------------------------------------------------===//

#include "CudaTestProgram.h"

#include <cstdlib>
#include <set>

using namespace mpc;
using namespace mpc::detail;

namespace {

/// Sets a variable of the environment for a while.
class Setting {
public:
  Setting(const char *name, const char *value) : name(name) {
    setenv(name, value, /*overwrite=*/1);
  }
  ~Setting() { unsetenv(name); }

private:
  const char *name;
};

Status load() { return loadCudaDriver(MPC_RECORDING_DRIVER).status(); }

} // namespace

TEST(CudaDriver, HasEveryFunctionOnce) {
  mpc::detail::CudaDriver table = recording::driver();
  std::set<std::string> names;
  visitEntryPoints(table, [&](const char *name, auto function) {
    EXPECT_NE(function, nullptr) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  });
  // The table is complete.
  EXPECT_EQ(names.size() * sizeof(void *), sizeof(table));
}

TEST(CudaDriver, IsFoundInALibrary) {
  Result<mpc::detail::CudaDriver> driver = loadCudaDriver(MPC_RECORDING_DRIVER);
  ASSERT_TRUE(driver.ok()) << driver.status().toString();
  Result<std::vector<GpuInfo>> gpus = listGpus(*driver);
  ASSERT_TRUE(gpus.ok()) << gpus.status().toString();
  EXPECT_EQ(gpus->front().name, "Recording GPU");
  EXPECT_EQ(gpus->front().architecture(), "sm_90");
}

TEST(CudaDriver, AMissingLibraryIsUnavailable) {
  Status status = loadCudaDriver("libno-such-driver.so.1").status();
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.text(), "the driver's library libno-such-driver.so.1 cannot "
                           "be loaded; install the NVIDIA driver to use a GPU");
}

TEST(CudaDriver, AnOldDriverIsUnavailable) {
  Setting version("MPC_RECORDING_VERSION", "11040");
  Status status = load();
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_NE(status.text().find("supports CUDA 11.4, but 12.0 or newer is "
                               "needed; update the NVIDIA driver"),
            std::string::npos)
      << status.text();
}

TEST(CudaDriver, ADriverThatLacksAFunctionIsUnavailable) {
  Setting lacks("MPC_RECORDING_LACKS", "cuGraphLaunch");
  Status status = load();
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_NE(status.text().find("lacks cuGraphLaunch;"), std::string::npos)
      << status.text();
}

TEST(CudaDriver, ErrorsSayWhoHasToAct) {
  mpc::detail::CudaDriver table = recording::driver();
  EXPECT_TRUE(toStatus(table, 0, "cuInit", "here").ok());
  EXPECT_EQ(toStatus(table, kCuOutOfMemory, "cuMemAlloc", "here").toString(),
            "here: cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY (out of "
            "memory)");
  EXPECT_EQ(toStatus(table, 12345, "cuInit", "here").text(),
            "cuInit failed with error 12345");
  auto codeOf = [&](int error) {
    return toStatus(table, error, "call", "here").code();
  };
  EXPECT_EQ(codeOf(kCuOutOfMemory), StatusCode::ResourceExhausted);
  EXPECT_EQ(codeOf(kCuNoBinaryForGpu), StatusCode::Unavailable);
  EXPECT_EQ(codeOf(kCuDeviceUnavailable), StatusCode::Unavailable);
  EXPECT_EQ(codeOf(kCuInvalidImage), StatusCode::InvalidArgument);
  EXPECT_EQ(codeOf(kCuIllegalAddress), StatusCode::Internal);
}

/// On any machine: a device, or a reason.
TEST(CudaDriver, ThisMachineHasADeviceOrAReason) {
  Result<Device> device = Device::cuda();
  if (device.ok()) {
    EXPECT_EQ(device->name(), "cuda");
    return;
  }
  EXPECT_EQ(device.status().code(), StatusCode::Unavailable);
  EXPECT_FALSE(device.status().text().empty());
}

TEST(CudaDriver, SenselessOptionsAreRefused) {
  EXPECT_EQ(Device::cuda({.compileThreads = -1}).status().code(),
            StatusCode::InvalidArgument);
}
