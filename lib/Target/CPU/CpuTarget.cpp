//===- CpuTarget.cpp - CPU instruction-set levels -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One row per level. Rates are measured on one core: of a Granite Rapids server
// (f32 FMA on zmm 0.214, AMX bf16 on random data 2.52, DRAM copy 13.8) and, for
// avx512bf16, of a Zen 4 one (f32 0.1175, vdpbf16ps 0.235, DRAM copy 29). ymm
// has half the rate of zmm and double half that of single, by lane count;
// vpdpbusd multiplies four times the operands of an f32 FMA, an int8 tile twice
// those of bf16. On Granite Rapids vdpbf16ps reached 0.107, half of the FMA
// rate: a level is chosen only if its unit is fast (isDefaultHere). Types
// without a unit are upconverted to f32.
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CPU/CpuTarget.h"

#include "mpc/Runtime/Program.h"
#include "mpc/Runtime/TilePermission.h"
#include "mpc/Support/PeakBenchmarks.h"
#include "mpc/Target/TargetFamily.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

using namespace mpc;
using namespace mpc::cpu;
using llvm::StringRef;

/// The supported levels, as members of the family.
static constexpr std::pair<CpuIsa, llvm::StringLiteral> kLevels[] = {
    {CpuIsa::Avx2, "avx2"},
    {CpuIsa::AvxVnni, "avxvnni"},
    {CpuIsa::Avx512, "avx512"},
    {CpuIsa::Avx512Vnni, "avx512vnni"},
    {CpuIsa::Avx512Bf16, "avx512bf16"},
    {CpuIsa::Amx, "amx"},
    {CpuIsa::AmxFp16, "amxfp16"},
    {CpuIsa::EmulatedAvxVnni, "avxvnni-emulated"},
    {CpuIsa::EmulatedAvx512, "avx512-emulated"},
    {CpuIsa::EmulatedAvx512Vnni, "avx512vnni-emulated"},
    {CpuIsa::EmulatedBf16, "avx512bf16-emulated"},
    {CpuIsa::EmulatedAmx, "amx-emulated"},
    {CpuIsa::EmulatedAmxFp16, "amxfp16-emulated"}};

StringRef CpuTarget::name() const {
  return llvm::find_if(kLevels, [&](auto &level) { return level.first == isa; })
      ->second;
}

std::string CpuTarget::llvmCpu() const {
  return hasAvx512() ? "x86-64-v4" : "x86-64-v3";
}

std::string CpuTarget::llvmFeatures() const {
  if (!hasAvx512())
    return isa == CpuIsa::AvxVnni ? "+avxvnni" : "";
  // Conversions to bf16 are never emitted as LLVM truncations: the instruction
  // flushes subnormals.
  std::string features = planned() >= CpuIsa::Avx512Bf16
                             ? "-prefer-256-bit,+avx512bf16"
                             : "-prefer-256-bit,-avx512bf16";
  if (hasDotInt8())
    features += ",+avx512vnni";
  if (hasTiles())
    features += ",+amx-tile,+amx-bf16,+amx-int8";
  return isa == CpuIsa::AmxFp16 ? features + ",+amx-fp16" : features;
}

TargetInfo CpuTarget::info() const {
  TargetInfo level = *TargetInfo::parse(("cpu:" + name()).str());
  return isReproducible ? *level.reproducible() : level;
}

std::optional<CpuTarget> CpuTarget::of(const TargetInfo &target) {
  StringRef member = target.member();
  bool isReproducible = member.consume_back(kReproducibleSuffix);
  for (auto &[isa, name] : kLevels)
    if (target.family() == "cpu" && member == name)
      return CpuTarget{isa, isReproducible};
  return std::nullopt;
}

llvm::SmallVector<StringRef> CpuTarget::emulatedLevels() {
  llvm::SmallVector<StringRef> levels;
  for (auto &[isa, name] : kLevels)
    if (CpuTarget target{isa}; target.emulatesUnits())
      levels.push_back(CpuTarget{target.planned()}.name());
  return levels;
}

llvm::SmallVector<CpuIsa> CpuTarget::available() {
  llvm::SmallVector<CpuIsa> levels;
  for (const TargetInfo &target : TargetInfo::runnable())
    if (std::optional<CpuTarget> level = of(target);
        level && !level->isReproducible)
      levels.push_back(level->isa);
  return levels;
}

//===----------------------------------------------------------------------===//
// The family
//===----------------------------------------------------------------------===//

/// A level without matrix units.
static MachineDescription level(StringRef name, int64_t lanes) {
  MachineDescription facts;
  facts.name = "cpu:" + name.str();
  facts.isGenerated = true;
  facts.lanes = lanes;
  facts.registers = 2 * lanes;
  // Half of that core's L2: the smallest among such servers.
  facts.cacheBytes = 1 << 20;
  // Two ports, latency of four cycles.
  facts.multiplyAddsInFlight = 8;
  facts.float32Rate = lanes == 16 ? 0.214 : 0.107;
  facts.float64Rate = facts.float32Rate / 2;
  facts.bandwidth = 13.8;
  // Vector kernels have blocks of one register's columns.
  facts.plainMultiple = lanes;
  facts.kernels.panelColumns = 2 * lanes;
  // Without a unit: vpmaddwd, at the rate of f32 and a quarter of its bytes.
  facts.kernels.multipliesIntegers = true;
  // Even if rounding is permitted, vectors multiply f32 faster unsplit.
  facts.kernels.minBFloat16SplitValues = 2;
  return facts;
}

/// A level with reproducible results: whatever may change bits is that of the
/// bit class; panels and register blocks are the level's own. `tiles` are the
/// units of class `amx`.
static MachineDescription reproducible(const MachineDescription &own,
                                       const std::vector<MathUnit> &tiles) {
  MachineDescription facts = own;
  bool hasTiles = llvm::any_of(
      own.units, [](const MathUnit &unit) { return unit.tiles.count > 0; });
  if (hasTiles) {
    facts.units = tiles;
  } else {
    facts = level("avx512", 16);
    facts.emulatesUnits = own.emulatesUnits;
    facts.lanes = own.lanes;
    facts.registers = own.registers;
    facts.kernels.panelColumns = own.kernels.panelColumns;
    // Sums of integers are exact.
    for (const MathUnit &unit : own.units)
      if (unit.type == MathType::Int8)
        facts.units.push_back(unit);
  }
  facts.name = own.name + kReproducibleSuffix.data();
  facts.isReproducible = true;
  return facts;
}

static std::vector<MachineDescription> describeLevels() {
  MachineDescription dots = level("avx512bf16", 16);
  dots.float32Rate = 0.1175;
  dots.float64Rate = dots.float32Rate / 2;
  dots.bandwidth = 29;
  // As fast as L2; such servers have 32 MB for 8 cores.
  dots.lastLevelCacheBytes = 4 << 20;
  dots.lastLevelCacheBandwidth = 100;
  // One port, latency of six cycles; kernels pad odd depths in registers.
  dots.multiplyAddsInFlight = 12;
  dots.units = {{MathType::BFloat16, 1, 0.235, "AVX-512 BF16", 2,
                 /*flushesSubnormals=*/true},
                {MathType::Int8, 1, 0.47, "VNNI", 4}};
  MachineDescription amx = level("amx", 16);
  TileRegisters tiles{8, 16, 64};
  amx.units = {{MathType::BFloat16, 32, 2.52, "AMX tiles", 2,
                /*flushesSubnormals=*/true, tiles},
               {MathType::Int8, 64, 2 * 2.52, "AMX tiles", 4,
                /*flushesSubnormals=*/false, tiles}};
  amx.kernels.splitsIntoBFloat16 = true;
  MachineDescription halves = amx;
  halves.name = "cpu:amxfp16";
  halves.units.push_back({MathType::Float16, 32, 2.52, "AMX tiles", 2,
                          /*flushesSubnormals=*/false, tiles});
  // An f16 is two bf16, and a product four; none is subnormal.
  amx.units.push_back({MathType::Float16, 32, 2.52 / 4, "AMX tiles", 2,
                       /*flushesSubnormals=*/false, tiles, /*terms=*/2});
  auto withDots = [](MachineDescription facts, const char *name) {
    facts.name = name;
    facts.units = {{MathType::Int8, 1, 4 * facts.float32Rate, "VNNI", 4}};
    return facts;
  };
  auto emulated = [](MachineDescription facts) {
    facts.name += "-emulated";
    facts.emulatesUnits = true;
    return facts;
  };
  MachineDescription narrow = level("avx2", 8), wide = level("avx512", 16),
                     narrowDots = withDots(narrow, "cpu:avxvnni"),
                     wideDots = withDots(wide, "cpu:avx512vnni");
  std::vector<MachineDescription> levels = {
      narrow, emulated(narrowDots), narrowDots, emulated(wide),
      wide,   emulated(wideDots),   wideDots,   emulated(dots),
      dots,   emulated(amx),        amx,        emulated(halves),
      halves};
  for (size_t i = 0, count = levels.size(); i < count; ++i)
    levels.push_back(reproducible(levels[i], /*tiles=*/amx.units));
  return levels;
}

/// Returns true if vdpbf16ps multiplies faster than f32 FMA. Known cores are in
/// a table, others are measured once per process.
static bool isDotBf16Fast() {
  static const bool isFast = [] {
    StringRef core = llvm::sys::getHostCPUName();
    if (core == "znver4" || core == "znver5")
      return true;
    // On CPUs with bf16 tiles the vector instruction is slow: half the rate of
    // f32 on Granite Rapids.
    for (StringRef slow : {"cooperlake", "sapphirerapids", "emeraldrapids",
                           "graniterapids", "graniterapids-d"})
      if (core == slow)
        return false;
    return measureUnitPeak(PeakBenchmark::DotBf16) >
           1.2 * measureUnitPeak(PeakBenchmark::MultiplyAdd512);
  }();
  return isFast;
}

static bool hasLevel(const MachineDescription &facts) {
  static const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto has = [](std::initializer_list<StringRef> names) {
    return llvm::all_of(names,
                        [](StringRef name) { return features.lookup(name); });
  };
  // CPU features that a level's code uses; the runtime's CodeObject.cpp
  // requires the same.
  if (!has({"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}))
    return false;
  if (facts.emulatesUnits)
    return true;
  StringRef name = facts.name;
  name.consume_back(kReproducibleSuffix);
  if (facts.lanes == 16 &&
      !has({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}))
    return false;
  if (name == "cpu:avxvnni")
    return has({"avxvnni"});
  if (name == "cpu:avx512vnni")
    return has({"avx512vnni"});
  if (name == "cpu:avx512bf16")
    return has({"avx512bf16", "avx512vnni"});
  if (name == "cpu:amxfp16" && !has({"amx-fp16"}))
    return false;
  return !name.starts_with("cpu:amx") ||
         (has({"amx-bf16", "amx-int8", "avx512bf16", "avx512vnni"}) &&
          permitTiles());
}

TargetFamily mpc::cpuFamily() {
  return {"cpu", describeLevels,
          [](StringRef member) { return "cpu:" + member.str(); }, hasLevel,
          [](const MachineDescription &facts) {
            return !facts.emulatesUnits &&
                   (facts.name != "cpu:avx512bf16" || isDotBf16Fast());
          }};
}
