//===- TargetInfoTest.cpp - facts about targets ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/TargetInfo.h"

#include "mpc/Runtime/Program.h"
#include "mpc/Target/CPU/CpuTarget.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cpu;

static TargetInfo parsed(llvm::StringRef name) {
  std::optional<TargetInfo> info = TargetInfo::parse(name);
  EXPECT_TRUE(info) << name.str();
  return info.value_or(TargetInfo());
}

TEST(TargetInfo, ParsesEveryNameItLists) {
  for (llvm::StringRef name : TargetInfo::names())
    EXPECT_EQ(parsed(name).name(), name.str());
}

TEST(TargetInfo, RefusesUnknownNames) {
  for (llvm::StringRef name :
       {"", "gpu", "cuda", "cuda:", "cuda:a", "cuda:sm_35", "cuda:sm_81",
        "cuda:80", "cpu:", "cpu:sse2", "cpu:avx512a", "cuda:sm_800"})
    EXPECT_FALSE(TargetInfo::parse(name)) << name.str();
}

TEST(TargetInfo, NativeIsALevel) {
  std::optional<TargetInfo> native = TargetInfo::native();
  EXPECT_EQ(TargetInfo::parse("cpu"), native);
  EXPECT_EQ(TargetInfo::parse("cpu:native"), native);
  if (!native)
    GTEST_SKIP() << "this machine runs no level";
  EXPECT_TRUE(llvm::is_contained(TargetInfo::names(), native->name()));
  EXPECT_TRUE(native->runsHere());
  EXPECT_TRUE(native->facts().isGenerated);
  EXPECT_TRUE(llvm::is_contained(TargetInfo::runnable(), *native));
  EXPECT_FALSE(native->facts().emulatesUnits);
}

TEST(TargetInfo, ArchitectureVariantsAreTheArchitecture) {
  EXPECT_EQ(&parsed("cuda:sm_90a").facts(), &parsed("cuda:sm_90").facts());
  EXPECT_EQ(parsed("cuda:sm_90a").name(), "cuda:sm_90a");
  EXPECT_EQ(parsed("cuda:sm_100f").facts().computeCapability, 100);
}

TEST(TargetInfo, MultiplesAreSixteenBytes) {
  TargetInfo a100 = parsed("cuda:sm_80");
  EXPECT_EQ(a100.multiple(PolicyType::Float16), 8);
  EXPECT_EQ(a100.multiple(PolicyType::BFloat16), 8);
  EXPECT_EQ(a100.multiple(PolicyType::BFloat16x2), 8);
  EXPECT_EQ(a100.multiple(PolicyType::TensorFloat32), 4);
  EXPECT_EQ(a100.multiple(PolicyType::Float64), 2);
  EXPECT_EQ(a100.multiple(MathType::Int8), 16);
  EXPECT_EQ(parsed("cuda:sm_90").multiple(PolicyType::Float8E4M3FN), 16);
  EXPECT_EQ(parsed("cuda:sm_90").multiple(PolicyType::Float8E5M2), 16);
}

TEST(TargetInfo, NoUnitWantsNoMultiple) {
  EXPECT_EQ(parsed("cuda:sm_80").multiple(PolicyType::Float32), 1);
  EXPECT_EQ(parsed("cuda:sm_80").multiple(PolicyType::Float8E4M3FN), 1);
  EXPECT_EQ(parsed("cuda:sm_75").multiple(PolicyType::BFloat16), 1);
  EXPECT_EQ(parsed("cuda:sm_61").multiple(PolicyType::Float16), 1);
}

TEST(TargetInfo, FastTypesByComputeCapability) {
  EXPECT_FALSE(parsed("cuda:sm_61").hasFastPath(PolicyType::Float16));
  EXPECT_TRUE(parsed("cuda:sm_70").hasFastPath(PolicyType::Float16));
  EXPECT_FALSE(parsed("cuda:sm_75").hasFastPath(PolicyType::BFloat16));
  EXPECT_TRUE(parsed("cuda:sm_80").hasFastPath(PolicyType::BFloat16));
  EXPECT_TRUE(parsed("cuda:sm_80").hasFastPath(PolicyType::TensorFloat32));
  EXPECT_FALSE(parsed("cuda:sm_86").hasFastPath(PolicyType::Float8E5M2));
  EXPECT_TRUE(parsed("cuda:sm_89").hasFastPath(PolicyType::Float8E5M2));
  EXPECT_TRUE(parsed("cuda:sm_80").hasFastPath(PolicyType::Float64));
  EXPECT_FALSE(parsed("cuda:sm_86").hasFastPath(PolicyType::Float64));
  // Known without ceilings.
  EXPECT_TRUE(parsed("cuda:sm_87").hasFastPath(PolicyType::BFloat16));
  for (llvm::StringRef name : TargetInfo::names())
    EXPECT_TRUE(parsed(name).hasFastPath(PolicyType::Float32)) << name.str();
}

TEST(TargetInfo, FastTypesOfCpus) {
  EXPECT_FALSE(parsed("cpu:avx512").hasFastPath(PolicyType::BFloat16));
  // Twice the rate of f32: three bf16 matmuls are slower than one in f32.
  EXPECT_TRUE(parsed("cpu:avx512bf16").hasFastPath(PolicyType::BFloat16));
  EXPECT_FALSE(parsed("cpu:avx512bf16").hasFastPath(PolicyType::BFloat16x2));
  EXPECT_FALSE(parsed("cpu:avx512bf16").hasFastPath(PolicyType::Float16));
  EXPECT_FALSE(parsed("cpu:avx2").hasFastPath(PolicyType::Float16));
  EXPECT_TRUE(parsed("cpu:amx").hasFastPath(PolicyType::BFloat16));
  EXPECT_TRUE(parsed("cpu:amx").hasFastPath(PolicyType::BFloat16x2));
  // Four matmuls of its bf16x2 split, or six of f32's bf16x3, are faster there.
  EXPECT_TRUE(parsed("cpu:amx").hasFastPath(PolicyType::BFloat16x3));
  EXPECT_TRUE(parsed("cpu:amx").hasFastPath(PolicyType::Float16));
  EXPECT_TRUE(parsed("cpu:amxfp16").hasFastPath(PolicyType::Float16));
  EXPECT_TRUE(parsed("cpu:amxfp16").hasFastPath(PolicyType::BFloat16));
}

TEST(TargetInfo, EmulatedUnitsAreForThoseWhoAsk) {
  EXPECT_EQ(CpuTarget::emulatedLevels(), (llvm::SmallVector<llvm::StringRef>{
                                             "avxvnni", "avx512", "avx512vnni",
                                             "avx512bf16", "amx", "amxfp16"}));
  for (llvm::StringRef level : CpuTarget::emulatedLevels()) {
    TargetInfo emulated = parsed(("cpu:" + level + "-emulated").str());
    EXPECT_TRUE(emulated.facts().emulatesUnits);
    EXPECT_TRUE(emulated.runsHere());
    EXPECT_FALSE(llvm::is_contained(TargetInfo::names(), emulated.name()));
  }
  EXPECT_FALSE(TargetInfo::native()->facts().emulatesUnits);
}

TEST(TargetInfo, ReproducibleLevelsShareTheFactsOfTheirClass) {
  const MachineDescription *first[2] = {};
  for (llvm::StringRef name : TargetInfo::names()) {
    std::optional<TargetInfo> same = parsed(name).reproducible();
    EXPECT_EQ(same.has_value(), name.starts_with("cpu:")) << name.str();
    if (!same)
      continue;
    EXPECT_EQ(same->name(), name.str() + "-reproducible");
    EXPECT_EQ(same->reproducible()->name(), same->name());
    EXPECT_FALSE(llvm::is_contained(TargetInfo::names(), same->name()));
    bool isAmx = bitClassOf(same->name()) == "amx";
    EXPECT_EQ(isAmx, name.starts_with("cpu:amx")) << name.str();
    // Planning and fusion read these.
    const MachineDescription &facts = same->facts();
    const MachineDescription *&other = first[isAmx];
    if (!other)
      other = &facts;
    EXPECT_EQ(facts.float32Rate, other->float32Rate);
    EXPECT_EQ(facts.bandwidth, other->bandwidth);
    EXPECT_EQ(facts.plainMultiple, other->plainMultiple);
    EXPECT_EQ(facts.cacheBytes, other->cacheBytes);
    EXPECT_EQ(same->unit(MathType::BFloat16) != nullptr, isAmx);
    CpuTarget level = *CpuTarget::of(*same);
    EXPECT_TRUE(level.isReproducible);
    EXPECT_EQ(level.summedLanes(), 16);
    EXPECT_EQ(level.info(), *same);
  }
  EXPECT_EQ(bitClassOf("cpu:avx512"), "");
}

TEST(TargetInfo, CeilingsAreOrdered) {
  for (llvm::StringRef name : TargetInfo::names()) {
    TargetInfo info = parsed(name);
    if (!info.hasCeilings()) {
      EXPECT_EQ(info.flopsPerSecond(PolicyType::Float32, true), 0);
      continue;
    }
    for (PolicyType type : info.fastTypes()) {
      EXPECT_GT(info.flopsPerSecond(type, true), 0) << name.str();
      EXPECT_GE(info.flopsPerSecond(type, true),
                info.flopsPerSecond(type, false))
          << name.str();
    }
    // The ridge point is above one operation per byte.
    EXPECT_GT(info.flopsPerSecond(PolicyType::Float32, true),
              info.bytesPerSecond())
        << name.str();
  }
}

TEST(TargetInfo, OddExtentsCostOnlyWhereTheUnitWantsMultiples) {
  TargetInfo a100 = parsed("cuda:sm_80"), cpu = parsed("cpu:avx512");
  EXPECT_LT(a100.flopsPerSecond(PolicyType::Float16, false),
            a100.flopsPerSecond(PolicyType::Float16, true));
  EXPECT_EQ(a100.flopsPerSecond(PolicyType::Float32, false),
            a100.flopsPerSecond(PolicyType::Float32, true));
  EXPECT_EQ(cpu.flopsPerSecond(PolicyType::BFloat16, false),
            cpu.flopsPerSecond(PolicyType::BFloat16, true));
  EXPECT_EQ(cpu.bytesPerSecond(false), cpu.bytesPerSecond(true));
  EXPECT_EQ(cpu.launchSeconds(), 0);
  EXPECT_GT(a100.launchSeconds(), 0);
}
