//===- SassListing.cpp - parser of nvdisasm listings ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SassListing.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <numeric>

using namespace mpc;
using namespace mpc::cuda;
using llvm::StringRef;

StringRef cuda::nameOf(SassUnit unit) {
  static constexpr StringRef kNames[] = {"tensor",  "float",  "integer",
                                         "special", "shared", "global",
                                         "local",   "control"};
  return kNames[size_t(unit)];
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

StringRef SassInstruction::base() const {
  return StringRef(opcode).split('.').first;
}

bool SassInstruction::has(StringRef modifier) const {
  llvm::SmallVector<StringRef, 6> parts;
  StringRef(opcode).split(parts, '.');
  return std::find(parts.begin() + 1, parts.end(), modifier) != parts.end();
}

SassUnit SassInstruction::unit() const {
  return llvm::StringSwitch<SassUnit>(base())
      .Cases({"HMMA", "IMMA", "DMMA", "HGMMA", "QGMMA", "IGMMA", "QMMA"},
             SassUnit::Tensor)
      .Cases({"FFMA", "FADD", "FMUL", "FMNMX", "FSEL", "FSET", "FSETP", "FCHK"},
             SassUnit::Float)
      .Cases({"DFMA", "DADD", "DMUL", "DSETP", "HFMA2", "HADD2", "HMUL2",
              "HMNMX2", "HSETP2", "FSWZADD", "F2FP"},
             SassUnit::Float)
      .Cases({"MUFU", "F2F", "F2I", "I2F", "I2FP", "FRND", "POPC", "FLO"},
             SassUnit::Special)
      .Cases({"LDS", "LDSM", "STS", "STSM", "ATOMS", "SHFL"}, SassUnit::Shared)
      .Cases({"LDG", "STG", "LDGSTS", "ATOMG", "ATOM", "RED", "LD", "ST"},
             SassUnit::Global)
      .Cases({"LDL", "STL"}, SassUnit::Local)
      .Cases({"BRA", "BAR", "BSSY", "BSYNC", "EXIT", "NOP", "WARPSYNC", "CALL",
              "RET"},
             SassUnit::Control)
      .Cases({"LDGDEPBAR", "DEPBAR", "MEMBAR", "ERRBAR", "CCTL", "NANOSLEEP",
              "VOTE", "YIELD", "WARPGROUP"},
             SassUnit::Control)
      .Default(SassUnit::Integer);
}

int64_t SassInstruction::warpgroupColumns() const {
  if (base() != "HGMMA" && base() != "QGMMA")
    return 0;
  std::string depth = "x" + std::to_string(warpgroupDepth());
  for (int64_t columns : {64, 128, 192, 256})
    if (has("64x" + std::to_string(columns) + depth))
      return columns;
  return 0;
}

int64_t SassInstruction::flops() const {
  constexpr int64_t kLanes = 32;
  if (base() == "FFMA" || base() == "DFMA")
    return 2 * kLanes;
  if (unit() != SassUnit::Tensor)
    return 0;
  if (int64_t columns = warpgroupColumns())
    return 2 * 64 * columns * warpgroupDepth() / 4;
  // "16816" is m 16, n 8 and k 16, "1688" k 8, "16832" k 32.
  for (int64_t k : {4, 8, 16, 32, 64})
    if (has("168" + std::to_string(k)))
      return 2 * 16 * 8 * k;
  return has("884") ? 2 * 8 * 8 * 4 : 0;
}

bool SassInstruction::isLoad() const {
  return base() == "LDG" || base() == "LD" || base() == "LDS" ||
         base() == "LDGSTS";
}

int64_t SassInstruction::laneBytes() const {
  for (int64_t bits : {128, 64})
    if (has(std::to_string(bits)))
      return bits / 8;
  if (has("U16") || has("S16") || has("16"))
    return 2;
  return has("U8") || has("S8") || has("8") ? 1 : 4;
}

int64_t SassInstruction::sharedBytes() const {
  constexpr int64_t kLanes = 32, kMatrixBytes = 128;
  if (base() == "LDSM" || base() == "STSM")
    return kMatrixBytes * (has("4") ? 4 : has("2") ? 2 : 1);
  // One warp's share of the operands of a warpgroup.
  if (int64_t columns = warpgroupColumns())
    return (64 + columns) * 16 * 2 / 4;
  bool moves = base() == "LDS" || base() == "STS" || base() == "LDGSTS";
  return moves ? kLanes * laneBytes() : 0;
}

int64_t SassInstruction::loadedBytes() const {
  bool isGlobal = unit() == SassUnit::Global && isLoad();
  return isGlobal ? 32 * laneBytes() : 0;
}

int64_t SassInstruction::storedBytes() const {
  return base() == "STG" || base() == "ST" ? 32 * laneBytes() : 0;
}

//===----------------------------------------------------------------------===//
// Instruction mix
//===----------------------------------------------------------------------===//

int64_t SassMix::instructions() const {
  return std::accumulate(units.begin(), units.end(), int64_t(0));
}

void SassMix::add(const SassInstruction &instruction) {
  ++(*this)[instruction.unit()];
  flops += instruction.flops();
  sharedBytes += instruction.lanes * double(instruction.sharedBytes());
  loadedBytes += instruction.lanes * double(instruction.loadedBytes());
  if (instruction.base() == "LDGSTS")
    copiedBytes += instruction.lanes * double(instruction.loadedBytes());
  storedBytes += instruction.lanes * double(instruction.storedBytes());
  barriers += instruction.base() == "BAR";
}

//===----------------------------------------------------------------------===//
// Parser
//===----------------------------------------------------------------------===//

namespace {
/// Parser state of one kernel.
struct KernelLines {
  SassKernel kernel;
  llvm::StringMap<size_t> labels;
  struct Branch {
    size_t at;
    std::string label;
    bool isConditional;
  };
  std::vector<Branch> branches;

  void addLine(StringRef line);
  SassKernel finish();

private:
  void findSides();
};
} // namespace

void KernelLines::addLine(StringRef line) {
  line = line.trim();
  if (line.starts_with(".L_") && line.ends_with(":")) {
    labels[line.drop_back()] = kernel.instructions.size();
    return;
  }
  // "/*0f40*/   @!P0 BRA `(.L_x_109) ;"
  if (!line.consume_front("/*"))
    return;
  StringRef text = line.split("*/").second.trim();
  if (!text.ends_with(";"))
    return;
  text = text.drop_back().rtrim();
  bool isConditional = text.starts_with("@");
  // Never executed: separates two instructions.
  if (text.starts_with("@!PT "))
    return;
  if (isConditional)
    text = text.split(' ').second.ltrim();
  if (text.empty())
    return;
  auto [opcode, operands] = text.split(' ');
  if (opcode == "BRA" || opcode.starts_with("BRA.")) {
    StringRef label = operands.split("`(").second.split(')').first;
    branches.push_back(
        {kernel.instructions.size(), label.str(), isConditional});
  }
  kernel.instructions.push_back({opcode.str(), operands.trim().str()});
}

/// Halves the lanes in both branches of an if-else: `@P0 BRA other; ...; BRA
/// end; other: ...; end:`.
void KernelLines::findSides() {
  auto targetOf = [&](const Branch &branch) {
    auto found = labels.find(branch.label);
    return found == labels.end() ? size_t(0) : found->second;
  };
  for (const Branch &skip : branches) {
    size_t end = targetOf(skip);
    if (skip.isConditional || end <= skip.at)
      continue;
    for (const Branch &fork : branches) {
      if (!fork.isConditional || fork.at >= skip.at ||
          targetOf(fork) != skip.at + 1)
        continue;
      for (size_t i = fork.at + 1; i < end; ++i)
        kernel.instructions[i].lanes /= 2;
      break;
    }
  }
}

SassKernel KernelLines::finish() {
  findSides();
  std::vector<SassInstruction> &code = kernel.instructions;
  size_t end = code.size();
  while (end > 0 && code[end - 1].base() != "EXIT")
    --end;
  if (end > 0)
    code.resize(end);
  for (const auto &[at, label, isConditional] : branches) {
    auto target = labels.find(label);
    // The code is followed by a branch to itself.
    if (at < code.size() && target != labels.end() && target->second < at)
      kernel.loops.push_back({target->second, at + 1});
  }
  // Several branches to one label are one loop.
  std::sort(kernel.loops.begin(), kernel.loops.end(),
            [](const SassLoop &x, const SassLoop &y) {
              return std::pair(x.begin, y.end) < std::pair(y.begin, x.end);
            });
  kernel.loops.erase(std::unique(kernel.loops.begin(), kernel.loops.end(),
                                 [](const SassLoop &x, const SassLoop &y) {
                                   return x.begin == y.begin;
                                 }),
                     kernel.loops.end());
  for (size_t inner = 0; inner < kernel.loops.size(); ++inner)
    for (size_t outer = 0; outer < inner; ++outer)
      if (kernel.loops[outer].end >= kernel.loops[inner].end)
        kernel.loops[inner].parent = int64_t(outer);
  return std::move(kernel);
}

std::vector<SassKernel> SassKernel::parse(StringRef listing) {
  std::vector<SassKernel> kernels;
  KernelLines lines;
  auto close = [&] {
    if (!lines.kernel.name.empty())
      kernels.push_back(lines.finish());
    lines = KernelLines();
  };
  for (StringRef line : llvm::split(listing, '\n')) {
    StringRef text = line.trim();
    if (text.consume_front(".section")) {
      text = text.ltrim();
      close();
      if (text.consume_front(".text."))
        lines.kernel.name = text.split(',').first.str();
      continue;
    }
    if (!lines.kernel.name.empty())
      lines.addLine(line);
  }
  close();
  return kernels;
}

SassMix SassKernel::mixOf(int64_t loop) const {
  size_t begin = loop < 0 ? 0 : loops[loop].begin;
  size_t end = loop < 0 ? instructions.size() : loops[loop].end;
  SassMix mix;
  for (size_t i = begin; i < end; ++i) {
    auto inner =
        std::find_if(loops.begin(), loops.end(), [&](const SassLoop &other) {
          return other.parent == loop && other.begin <= i && i < other.end;
        });
    if (inner == loops.end())
      mix.add(instructions[i]);
  }
  return mix;
}

int64_t SassKernel::mainLoop() const {
  int64_t best = -1;
  std::pair<int64_t, int64_t> most = {0, 0};
  for (size_t loop = 0; loop < loops.size(); ++loop) {
    SassMix mix = mixOf(int64_t(loop));
    std::pair<int64_t, int64_t> count = {mix[SassUnit::Tensor], mix.flops};
    if (count > most) {
      most = count;
      best = int64_t(loop);
    }
  }
  return best;
}
