//===- Devices.cpp - mpc devices ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Devices.h"

#include "Commands.h"

#include "mpc/Runtime/Device.h"
#include "mpc/Target/CPU/CpuTarget.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <fstream>

using namespace mpc;
using namespace mpc::cpu;
using namespace mpc::tool;

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

/// Returns the CPU's model name, or LLVM's name of its type.
static std::string cpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0)
      continue;
    size_t at = line.find_first_not_of(" \t:", line.find(':'));
    if (at != std::string::npos)
      return line.substr(at);
  }
  return llvm::sys::getHostCPUName().str();
}

CpuReport tool::describeCpu(bool measure) {
  // CPU features relevant to present and planned levels.
  static constexpr const char *kFeatures[] = {
      "avx2",       "fma",      "f16c",     "avxvnni",    "avx512f",
      "avx512bw",   "avx512dq", "avx512vl", "avx512vnni", "avx512bf16",
      "avx512fp16", "amx-tile", "amx-bf16", "amx-int8",   "amx-fp16"};
  CpuReport report;
  report.name = cpuName();
  report.cores = availableCores();
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  for (const char *feature : kFeatures)
    if (features.lookup(feature))
      report.features.push_back(feature);

  for (llvm::StringRef name : TargetInfo::names()) {
    std::optional<TargetInfo> level = TargetInfo::parse(name);
    if (level && !level->isGpu())
      report.levels.push_back(
          {level->member().str(), level->runsHere(), level->facts().isGenerated,
           llvm::is_contained(CpuTarget::emulatedLevels(), level->member())});
  }
  report.target = TargetInfo::native();
  if (report.target && measure) {
    std::string level = report.target->member().str();
    report.ceilings = measurePeakRates(level, /*ofBf16=*/false, report.cores);
    if (report.target->unit(MathType::BFloat16))
      report.bf16FlopsPerSecond =
          measureFlopsPerSecond(level, /*ofBf16=*/true, report.cores);
  }
  return report;
}

void tool::describeGpus(const Result<std::vector<GpuInfo>> &found,
                        DeviceReport &report) {
  if (!found.ok()) {
    report.whyNoGpu = found.status().text();
    return;
  }
  for (const GpuInfo &gpu : *found)
    report.gpus.push_back(
        {gpu, TargetInfo::parse("cuda:" + gpu.architecture())});
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static Json fastTypes(const std::optional<TargetInfo> &target) {
  Json types = Json::array();
  if (target)
    for (PolicyType type : target->fastTypes())
      types.push_back(shortTypeName(type));
  return types;
}

static Json policyFor(const std::optional<TargetInfo> &target) {
  return target ? Json(bestPolicy(*target).policy) : Json(nullptr);
}

static Json toJson(const CpuReport &cpu) {
  Json levels = Json::array();
  for (const IsaLevel &level : cpu.levels)
    levels.push_back({{"name", level.name},
                      {"available", level.available},
                      {"generated", level.generated},
                      {"emulated", level.emulated}});
  Json ceilings = Json::object();
  if (cpu.ceilings) {
    Json bandwidths = Json::array();
    for (auto [size, rate] : cpu.ceilings->bytesPerSecond)
      bandwidths.push_back(
          {{"working_set", size}, {"gigabytes_per_second", rate * 1e-9}});
    Json rates = {{"f32", cpu.ceilings->flopsPerSecond * 1e-9}};
    if (cpu.bf16FlopsPerSecond > 0)
      rates["bf16"] = cpu.bf16FlopsPerSecond * 1e-9;
    ceilings = {
        {"source", "measured"}, {"gflops", rates}, {"bandwidths", bandwidths}};
  }
  Json isa = nullptr;
  if (cpu.target)
    isa = cpu.target->member().str();
  return {{"name", cpu.name},
          {"kind", "cpu"},
          {"isa", isa},
          {"levels", levels},
          {"features", cpu.features},
          {"cores", cpu.cores},
          {"runs", cpu.target.has_value()},
          {"fast_types", fastTypes(cpu.target)},
          {"ceilings", ceilings},
          {"policy", policyFor(cpu.target)}};
}

static Json toJson(const GpuReport &report) {
  const GpuInfo &gpu = report.gpu;
  Json ceilings = Json::object();
  if (report.target && report.target->hasCeilings()) {
    Json rates = Json::object();
    for (PolicyType type : report.target->fastTypes())
      rates[shortTypeName(type)] =
          report.target->flopsPerSecond(type, /*aligned=*/true) * 1e-9;
    ceilings = {{"source", "known"},
                {"gflops", rates},
                {"bandwidths",
                 Json::array({{{"gigabytes_per_second",
                                report.target->bytesPerSecond() * 1e-9}}})},
                {"launch_microseconds", report.target->launchSeconds() * 1e6}};
  }
  return {{"name", gpu.name},
          {"kind", "cuda"},
          {"compute_capability", gpu.computeCapability()},
          {"target", "cuda:" + gpu.architecture()},
          {"multiprocessors", gpu.multiprocessors},
          {"memory_bytes", gpu.memoryBytes},
          {"l2_bytes", gpu.l2Bytes},
          {"runs", report.target && report.target->facts().isGenerated},
          {"fast_types", fastTypes(report.target)},
          {"ceilings", ceilings},
          {"policy", policyFor(report.target)}};
}

Json tool::devicesToJson(const DeviceReport &report) {
  Json devices = Json::array({toJson(report.cpu)});
  for (const GpuReport &gpu : report.gpus)
    devices.push_back(toJson(gpu));
  Json document = {{"devices", devices}};
  document["no_gpu"] =
      report.whyNoGpu.empty() ? Json(nullptr) : Json(report.whyNoGpu);
  return document;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string typeList(const std::optional<TargetInfo> &target) {
  std::string text;
  if (target)
    for (PolicyType type : target->fastTypes())
      text += (text.empty() ? "" : " ") + shortTypeName(type);
  return text.empty() ? "unknown" : text;
}

/// Formats a size: "262 kB".
static std::string sizeText(size_t bytes) { return shortBytes(double(bytes)); }

static std::string cpuText(const CpuReport &cpu) {
  std::string text = "cpu: " + cpu.name + ", " + std::to_string(cpu.cores) +
                     (cpu.cores == 1 ? " core\n" : " cores\n");
  std::string features;
  for (const std::string &feature : cpu.features)
    features += " " + feature;
  text +=
      "  features:" + (features.empty() ? " none that matter here" : features) +
      "\n  levels:";
  for (const IsaLevel &level : cpu.levels)
    text += " " + level.name + " (" +
            (level.available  ? "supported"
             : level.emulated ? "units emulated"
                              : "not supported") +
            (level.generated ? "" : ", no code is generated for it") + ")" +
            (&level == &cpu.levels.back() ? "" : ",");
  text += "\n";
  if (!cpu.target)
    return text +
           "  cannot run compiled code, which needs AVX2, FMA and F16C\n";
  text += "  compiles for: " + cpu.target->name() +
          "; fast types: " + typeList(cpu.target) + "\n";
  if (cpu.ceilings) {
    text +=
        "  measured, all cores: " +
        shortNumber(cpu.ceilings->flopsPerSecond * 1e-9) + " GFLOP/s in f32" +
        (cpu.bf16FlopsPerSecond > 0
             ? ", " + shortNumber(cpu.bf16FlopsPerSecond * 1e-9) + " in bf16"
             : std::string()) +
        "; reads";
    for (size_t i = 0; i < cpu.ceilings->bytesPerSecond.size(); ++i) {
      auto [size, rate] = cpu.ceilings->bytesPerSecond[i];
      text += (i ? ", " : " ") + shortNumber(rate * 1e-9) + " (" +
              sizeText(size) + ")";
    }
    text += " GB/s\n";
  }
  PolicyChoice best = bestPolicy(*cpu.target);
  return text + "  --policy auto: " + best.policy + ", since " + best.reason +
         "\n";
}

static std::string gpuText(const GpuReport &report) {
  const GpuInfo &gpu = report.gpu;
  std::string text =
      "cuda: " + gpu.name + ", compute capability " + gpu.computeCapability() +
      ", " + std::to_string(gpu.multiprocessors) + " multiprocessors, " +
      shortBytes(double(gpu.memoryBytes)) + "\n";
  if (!report.target)
    return text + "  unknown architecture\n";
  text += (report.target && report.target->facts().isGenerated)
              ? "  compiles for: "
              : "  cannot run compiled code, which needs compute capability "
                "7.5; plans for: ";
  text += "cuda:" + gpu.architecture() +
          "; fast types: " + typeList(report.target) + "\n";
  if (report.target->hasCeilings()) {
    text += "  known:";
    for (PolicyType type : report.target->fastTypes())
      text +=
          " " +
          shortNumber(report.target->flopsPerSecond(type, /*aligned=*/true) *
                      1e-12) +
          " (" + shortTypeName(type) + ")";
    text += " TFLOP/s; copies " +
            shortNumber(report.target->bytesPerSecond() * 1e-9) + " GB/s\n";
  }
  PolicyChoice best = bestPolicy(*report.target);
  return text + "  --policy auto: " + best.policy + ", since " + best.reason +
         "\n";
}

std::string tool::devicesToText(const DeviceReport &report) {
  std::string text = cpuText(report.cpu);
  for (const GpuReport &gpu : report.gpus)
    text += gpuText(gpu);
  if (!report.whyNoGpu.empty())
    text += "cuda: none: " + report.whyNoGpu + "\n";
  text.pop_back();
  return text;
}

int tool::devicesCommand(const DevicesArguments &arguments) {
  Reporter reporter(arguments.common.json, arguments.common.quiet);
  DeviceReport report;
  report.cpu = describeCpu(!arguments.withoutCeilings);
  describeGpus(listGpus(), report);
  reporter.lines(devicesToText(report));
  reporter.document(devicesToJson(report));
  return reporter.finish(kDone);
}
