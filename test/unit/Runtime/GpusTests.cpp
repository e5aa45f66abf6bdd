//===- GpusTests.cpp - the GPUs of a machine ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The driver is a table of functions of this file, to simulate machines with
// two GPUs, with none and with a broken driver.
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Gpus.h"

#include "CUDA/CudaDriver.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace mpc;
using namespace mpc::detail;

namespace {

int succeed(unsigned) { return 0; }
int twoGpus(int *count) {
  *count = 2;
  return 0;
}
int noGpu(int *count) {
  *count = 0;
  return 0;
}
int deviceOf(int *device, int ordinal) {
  *device = 10 + ordinal;
  return 0;
}
int nameOf(char *name, int length, int device) {
  std::strncpy(name, device == 10 ? "First" : "Second", size_t(length));
  return 0;
}
int attributeOf(int *value, int attribute, int device) {
  switch (attribute) {
  case 75:
    *value = device == 10 ? 9 : 7;
    return 0;
  case 76:
    *value = device == 10 ? 0 : 5;
    return 0;
  case 16:
    *value = 132;
    return 0;
  case 38:
    return 1; // this driver does not tell
  default:
    *value = attribute;
    return 0;
  }
}
int memoryOf(size_t *bytes, int) {
  *bytes = size_t(141) << 30;
  return 0;
}
int errorName(int error, const char **name) {
  *name = error == 999 ? "CUDA_ERROR_UNKNOWN" : nullptr;
  return 0;
}

CudaDriver driverWithTwo() {
  CudaDriver driver;
  driver.init = succeed;
  driver.deviceGetCount = twoGpus;
  driver.deviceGet = deviceOf;
  driver.deviceGetName = nameOf;
  driver.deviceGetAttribute = attributeOf;
  driver.deviceTotalMem = memoryOf;
  driver.getErrorName = errorName;
  return driver;
}

TEST(GpusTest, ListsWhatTheDriverSays) {
  Result<std::vector<GpuInfo>> gpus = listGpus(driverWithTwo());
  ASSERT_TRUE(gpus.ok()) << gpus.status().toString();
  ASSERT_EQ(gpus->size(), 2u);
  const GpuInfo &first = gpus->front(), &second = gpus->back();
  EXPECT_EQ(first.name, "First");
  EXPECT_EQ(first.computeCapability(), "9.0");
  EXPECT_EQ(first.architecture(), "sm_90");
  EXPECT_EQ(first.multiprocessors, 132);
  EXPECT_EQ(first.memoryBytes, int64_t(141) << 30);
  EXPECT_EQ(second.name, "Second");
  EXPECT_EQ(second.architecture(), "sm_75");
}

TEST(GpusTest, WhatTheDriverDoesNotTellIsZero) {
  Result<std::vector<GpuInfo>> gpus = listGpus(driverWithTwo());
  ASSERT_TRUE(gpus.ok());
  EXPECT_EQ(gpus->front().l2Bytes, 0);
}

TEST(GpusTest, NoGpuIsUnavailableWithTheReason) {
  CudaDriver driver = driverWithTwo();
  driver.deviceGetCount = noGpu;
  Result<std::vector<GpuInfo>> gpus = listGpus(driver);
  ASSERT_FALSE(gpus.ok());
  EXPECT_EQ(gpus.status().code(), StatusCode::Unavailable);
  EXPECT_EQ(gpus.status().text(), "the driver finds no GPU on this machine");
}

TEST(GpusTest, AFailedCallIsNamedWithTheDriversWord) {
  CudaDriver driver = driverWithTwo();
  driver.init = [](unsigned) { return 999; };
  EXPECT_EQ(listGpus(driver).status().text(),
            "cuInit failed with CUDA_ERROR_UNKNOWN");
  driver.init = [](unsigned) { return 3; };
  EXPECT_EQ(listGpus(driver).status().text(), "cuInit failed with error 3");
}

TEST(GpusTest, AMissingLibraryIsUnavailable) {
  Result<CudaDriver> driver = loadCudaDriver("libno-such-driver.so.1");
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.status().code(), StatusCode::Unavailable);
  EXPECT_NE(driver.status().text().find("libno-such-driver.so.1"),
            std::string::npos);
}

TEST(GpusTest, ALibraryThatIsNoDriverNamesWhatItLacks) {
  Result<CudaDriver> driver = loadCudaDriver("libc.so.6");
  ASSERT_FALSE(driver.ok());
  EXPECT_NE(driver.status().text().find("libc.so.6 lacks cu"),
            std::string::npos);
}

/// On any machine: GPUs with a capability, or a reason.
TEST(GpusTest, ThisMachineHasGpusOrAReason) {
  Result<std::vector<GpuInfo>> gpus = listGpus();
  if (!gpus.ok()) {
    EXPECT_EQ(gpus.status().code(), StatusCode::Unavailable);
    EXPECT_FALSE(gpus.status().text().empty());
    return;
  }
  ASSERT_FALSE(gpus->empty());
  for (const GpuInfo &gpu : *gpus) {
    EXPECT_GE(gpu.major, 1);
    EXPECT_FALSE(gpu.name.empty());
  }
}

} // namespace
