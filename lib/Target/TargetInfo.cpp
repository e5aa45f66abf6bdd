//===- TargetInfo.cpp - registry of targets -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/TargetInfo.h"

#include "mpc/Runtime/Program.h"
#include "mpc/Target/TargetFamily.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <list>

using namespace mpc;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// The families
//===----------------------------------------------------------------------===//

namespace {
/// A family with its facts, which have static lifetime.
struct Described {
  TargetFamily family;
  std::vector<MachineDescription> targets;

  explicit Described(const TargetFamily &family)
      : family(family), targets(family.describe()) {}
};
} // namespace

/// All target families; a new folder of lib/Target adds an entry. Addresses of
/// facts are stable when a family is added.
static std::list<Described> &families() {
  static std::list<Described> all = {Described(cpuFamily()),
                                     Described(cudaFamily())};
  return all;
}

void mpc::addTargetFamily(const TargetFamily &family) {
  families().emplace_back(family);
}

static const Described *findFamily(StringRef name) {
  for (const Described &described : families())
    if (described.family.name == name)
      return &described;
  return nullptr;
}

static const MachineDescription *findFacts(const Described &described,
                                           StringRef name) {
  for (const MachineDescription &facts : described.targets)
    if (facts.name == name)
      return &facts;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

TargetInfo::TargetInfo() {
  const Described &cpu = *findFamily("cpu");
  described = findFacts(cpu, "cpu:avx512");
  spelling = described->name;
}

std::optional<TargetInfo> TargetInfo::parse(StringRef text) {
  if (text == "cpu" || text == "cpu:native")
    return native();
  auto [familyName, member] = text.split(':');
  const Described *described = findFamily(familyName);
  if (!described)
    return std::nullopt;
  const MachineDescription *facts =
      findFacts(*described, described->family.find(member));
  if (!facts)
    return std::nullopt;
  return TargetInfo(*facts, text.str());
}

llvm::SmallVector<StringRef> TargetInfo::names() {
  llvm::SmallVector<StringRef> all;
  for (const Described &described : families())
    for (const MachineDescription &facts : described.targets)
      if (!facts.emulatesUnits && !facts.isReproducible)
        all.push_back(facts.name);
  return all;
}

std::string TargetInfo::describeUnknown(StringRef text) {
  StringRef family = text.split(':').first;
  llvm::SmallVector<StringRef> all = names();
  if (findFamily(family))
    llvm::erase_if(
        all, [&](StringRef name) { return name.split(':').first != family; });
  return "is not one of " + llvm::join(all, ", ");
}

std::vector<TargetInfo> TargetInfo::runnable() {
  std::vector<TargetInfo> all;
  for (const Described &described : families())
    for (const MachineDescription &facts : described.targets)
      if (facts.isGenerated && described.family.runsHere(facts))
        all.push_back(TargetInfo(facts, facts.name));
  return all;
}

std::optional<TargetInfo> TargetInfo::native() {
  std::optional<TargetInfo> best;
  const TargetFamily &family = findFamily("cpu")->family;
  for (const TargetInfo &target : runnable())
    if (target.family() == family.name && !target.facts().isReproducible &&
        (!family.isDefaultHere || family.isDefaultHere(target.facts())))
      best = target;
  return best;
}

bool TargetInfo::runsHere() const {
  return findFamily(family())->family.runsHere(*described);
}

std::optional<TargetInfo> TargetInfo::reproducible() const {
  return described->isReproducible
             ? *this
             : parse(spelling + kReproducibleSuffix.data());
}

StringRef TargetInfo::family() const {
  return StringRef(spelling).split(':').first;
}

StringRef TargetInfo::member() const {
  return StringRef(spelling).split(':').second;
}

bool KernelCapabilities::hasCompositeKernel(StringRef opName) const {
  opName.consume_front("mpc.");
  return llvm::is_contained(composites, opName);
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

MathType mpc::mathTypeOf(PolicyType type) {
  switch (type) {
  case PolicyType::Float64:
    return MathType::Float64;
  case PolicyType::Float32:
    return MathType::Float32;
  case PolicyType::TensorFloat32:
    return MathType::TensorFloat32;
  case PolicyType::BFloat16:
  case PolicyType::BFloat16x2:
  case PolicyType::BFloat16x3:
    return MathType::BFloat16;
  case PolicyType::Float16:
    return MathType::Float16;
  case PolicyType::Float8E4M3FN:
  case PolicyType::Float8E5M2:
    return MathType::Float8;
  }
  return MathType::Float32;
}

/// Returns the number of low-precision products per product of this type.
static double productsOf(PolicyType type) {
  if (type == PolicyType::BFloat16x2)
    return 3;
  return type == PolicyType::BFloat16x3 ? 6 : 1;
}

const MathUnit *TargetInfo::unit(MathType type) const {
  for (const MathUnit &unit : described->units)
    if (unit.type == type)
      return &unit;
  return nullptr;
}

bool TargetInfo::hasFastPath(PolicyType type) const {
  if (type == PolicyType::Float32)
    return true;
  if (type == PolicyType::Float64 && hasCeilings())
    return 2 * flopsPerSecond(type, /*aligned=*/true) >=
           flopsPerSecond(MathType::Float32, /*aligned=*/true);
  if (!unit(type))
    return false;
  // Several low-precision products must be faster than one of f32.
  return productsOf(type) == 1 || !hasCeilings() ||
         flopsPerSecond(type, /*aligned=*/true) >
             flopsPerSecond(MathType::Float32, /*aligned=*/true);
}

llvm::SmallVector<PolicyType> TargetInfo::fastTypes() const {
  llvm::SmallVector<PolicyType> types;
  for (PolicyType type :
       {PolicyType::Float64, PolicyType::Float32, PolicyType::TensorFloat32,
        PolicyType::BFloat16x3, PolicyType::BFloat16x2, PolicyType::BFloat16,
        PolicyType::Float16, PolicyType::Float8E4M3FN, PolicyType::Float8E5M2})
    if (hasFastPath(type))
      types.push_back(type);
  return types;
}

int64_t TargetInfo::multiple(MathType type) const {
  const MathUnit *found = unit(type);
  return found ? found->multiple : described->plainMultiple;
}

//===----------------------------------------------------------------------===//
// Ceilings
//===----------------------------------------------------------------------===//

double TargetInfo::flopsPerSecond(PolicyType type, bool aligned) const {
  return flopsPerSecond(mathTypeOf(type), aligned) / productsOf(type);
}

double TargetInfo::flopsPerSecond(MathType type, bool aligned) const {
  // cuBLASLt does not support fp8 off its multiples: half of f16's rate is
  // left.
  if (type == MathType::Float8 && !aligned && unit(type))
    return flopsPerSecond(MathType::Float16, aligned);
  double rate = 0;
  if (type == MathType::Float64)
    rate = described->float64Rate;
  else if (const MathUnit *found = unit(type))
    rate = found->rate;
  // Without a unit of its own a type is upconverted to f32.
  if (rate == 0)
    return described->float32Rate * 1e12;
  bool loses = !aligned && multiple(type) > 1;
  return rate * 1e12 * (loses ? described->misalignedRateFraction : 1);
}

double TargetInfo::bytesPerSecond(bool aligned) const {
  return described->bandwidth * 1e9 *
         (aligned ? 1 : described->misalignedRateFraction);
}
