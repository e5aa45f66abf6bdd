//===- DevicesTests.cpp - the devices of this machine ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Devices.h"

#include <gtest/gtest.h>

#include <sstream>

using namespace mpc;
using namespace mpc::tool;

namespace {

GpuInfo gpuOf(int major, int minor) {
  GpuInfo gpu;
  gpu.name = "A GPU";
  gpu.major = major;
  gpu.minor = minor;
  gpu.multiprocessors = 108;
  gpu.memoryBytes = int64_t(40) << 30;
  return gpu;
}

DeviceReport reportWith(const Result<std::vector<GpuInfo>> &gpus) {
  DeviceReport report;
  report.cpu = describeCpu(/*measure=*/false);
  describeGpus(gpus, report);
  return report;
}

TEST(DevicesTest, TheCpuHasLevelsAndAType) {
  CpuReport cpu = describeCpu(/*measure=*/false);
  EXPECT_FALSE(cpu.name.empty());
  EXPECT_GE(cpu.cores, 1);
  EXPECT_FALSE(cpu.ceilings);
  std::vector<std::string> generated;
  for (const IsaLevel &level : cpu.levels)
    if (level.generated)
      generated.push_back(level.name);
  EXPECT_EQ(generated,
            (std::vector<std::string>{"avx2", "avxvnni", "avx512", "avx512vnni",
                                      "avx512bf16", "amx", "amxfp16"}));
}

TEST(DevicesTest, AKnownGpuHasFastTypesAndCeilings) {
  Json document =
      devicesToJson(reportWith(std::vector<GpuInfo>{gpuOf(8, 0), gpuOf(7, 5)}));
  ASSERT_EQ(document["devices"].size(), 3u);
  const Json &ampere = document["devices"][1], &turing = document["devices"][2];
  EXPECT_EQ(ampere["compute_capability"], "8.0");
  EXPECT_EQ(ampere["target"], "cuda:sm_80");
  EXPECT_EQ(ampere["policy"], "mixed_bfloat16");
  EXPECT_EQ(ampere["ceilings"]["source"], "known");
  EXPECT_EQ(ampere["ceilings"]["gflops"]["bf16"], 312e3);
  EXPECT_EQ(turing["policy"], "mixed_float16");
  auto has = [](const Json &device, const char *type) {
    for (const Json &fast : device["fast_types"])
      if (fast == type)
        return true;
    return false;
  };
  EXPECT_TRUE(has(ampere, "tf32"));
  EXPECT_TRUE(has(turing, "f16"));
  EXPECT_FALSE(has(turing, "bf16"));
  EXPECT_EQ(document["devices"][1]["runs"], true);
  EXPECT_TRUE(document["no_gpu"].is_null());
}

TEST(DevicesTest, AnUnknownGpuIsListedWithoutFigures) {
  Json document = devicesToJson(reportWith(std::vector<GpuInfo>{gpuOf(5, 2)}));
  const Json &gpu = document["devices"][1];
  EXPECT_EQ(gpu["runs"], false);
  EXPECT_EQ(gpu["compute_capability"], "5.2");
  EXPECT_TRUE(gpu["fast_types"].empty());
  EXPECT_TRUE(gpu["ceilings"].empty());
  EXPECT_TRUE(gpu["policy"].is_null());
}

TEST(DevicesTest, WithoutAGpuTheReasonIsReported) {
  Result<std::vector<GpuInfo>> none =
      Status(StatusCode::Unavailable, "cuda", "no driver here");
  DeviceReport report = reportWith(none);
  EXPECT_EQ(devicesToJson(report)["no_gpu"], "no driver here");
  EXPECT_EQ(devicesToJson(report)["devices"].size(), 1u);
  EXPECT_NE(devicesToText(report).find("cuda: none: no driver here"),
            std::string::npos);
}

} // namespace
