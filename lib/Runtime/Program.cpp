//===- Program.cpp - compiled programs ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Program.h"

#include "mpc/Runtime/Buffer.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

using namespace mpc;

std::string_view mpc::bitClassOf(std::string_view target) {
  if (!target.ends_with(kReproducibleSuffix))
    return {};
  // Tiles sum pairs of products, and flush subnormals.
  return target.starts_with("cpu:amx") ? "amx" : "vector";
}

std::string_view mpc::levelOf(std::string_view target) {
  target.remove_prefix(target.find(':') + 1);
  if (target.ends_with(kReproducibleSuffix))
    target.remove_suffix(kReproducibleSuffix.size());
  return target;
}

int64_t Program::constantBytes() const {
  int64_t bytes = 0;
  for (const ProgramConstant &constant : constants)
    bytes += constant.bytes;
  return bytes;
}

int64_t Program::neededBytes() const {
  int64_t bytes = 0;
  bool fits = !__builtin_add_overflow(constantBytes(), arenaBytes, &bytes);
  auto add = [&](const ProgramValue &value) {
    std::optional<int64_t> size = value.type.byteCount();
    fits = fits && size && !__builtin_add_overflow(bytes, *size, &bytes);
  };
  for (const ProgramValue &value : arguments)
    add(value);
  for (const ProgramValue &value : results)
    if (value.alias < 0)
      add(value);
  return fits ? bytes : std::numeric_limits<int64_t>::max();
}

int64_t Program::bytesMoved() const {
  int64_t bytes = 0;
  for (const Launch &launch : launches)
    bytes += launch.bytes;
  return bytes;
}

int64_t Program::flops() const {
  int64_t flops = 0;
  for (const Launch &launch : launches)
    flops += launch.flops;
  return flops;
}

int64_t Program::liveArenaBytes() const {
  struct Value {
    int64_t begin, end;
    size_t first, last;
  };
  std::vector<Value> values;
  std::vector<size_t> standing; // indices of values not yet overwritten
  auto overlap = [](const Value &value, const BufferRef &ref) {
    return value.begin < ref.offset + ref.bytes && ref.offset < value.end;
  };
  for (size_t step = 0; step < launches.size(); ++step)
    for (bool writes : {false, true}) // a launch reads before it writes
      for (const BufferRef &ref : launches[step].buffers) {
        if (ref.kind != BufferRef::Kind::Arena || ref.written != writes)
          continue;
        if (!writes) {
          for (size_t number : standing)
            if (overlap(values[number], ref))
              values[number].last = step;
          continue;
        }
        // Updated in place: extend the value's live range.
        auto same =
            std::find_if(standing.begin(), standing.end(), [&](size_t number) {
              const Value &value = values[number];
              return value.last == step && value.first < step &&
                     value.begin == ref.offset &&
                     value.end == ref.offset + ref.bytes;
            });
        if (same != standing.end())
          continue;
        std::erase_if(standing, [&](size_t number) {
          return overlap(values[number], ref);
        });
        standing.push_back(values.size());
        values.push_back({ref.offset, ref.offset + ref.bytes, step, step});
      }
  std::vector<int64_t> change(launches.size() + 1);
  for (const Value &value : values) {
    change[value.first] += value.end - value.begin;
    change[value.last + 1] -= value.end - value.begin;
  }
  int64_t inUse = 0, most = 0;
  for (int64_t bytes : change)
    most = std::max(most, inUse += bytes);
  return most;
}

static Status malformed(const std::string &where, std::string text) {
  return Status(StatusCode::InvalidArgument, where, std::move(text));
}

/// Returns the size of the object that `ref` refers to, in bytes, or nullopt if
/// it does not exist.
static std::optional<int64_t> extentOf(const Program &program,
                                       const BufferRef &ref) {
  auto at = [&](const auto &list) {
    return ref.index >= 0 && ref.index < int64_t(list.size());
  };
  switch (ref.kind) {
  case BufferRef::Kind::Argument:
    return at(program.arguments) ? program.arguments[ref.index].type.byteCount()
                                 : std::nullopt;
  case BufferRef::Kind::Result:
    return at(program.results) ? program.results[ref.index].type.byteCount()
                               : std::nullopt;
  case BufferRef::Kind::Constant:
    return at(program.constants)
               ? std::optional(program.constants[ref.index].bytes)
               : std::nullopt;
  case BufferRef::Kind::Arena:
    return ref.index == 0 ? std::optional(program.arenaBytes) : std::nullopt;
  case BufferRef::Kind::Checks:
    return ref.index == 0 ? std::optional(program.checkBytes()) : std::nullopt;
  }
  return std::nullopt;
}

/// Checks that results alias arguments of their types, each at most once.
static Status validateAliases(const Program &program) {
  std::vector<bool> replaced(program.arguments.size());
  for (const ProgramValue &value : program.arguments)
    if (value.alias != -1)
      return malformed(program.name + ": " + value.name,
                       "is an argument and replaces argument " +
                           std::to_string(value.alias));
  for (const ProgramValue &value : program.results) {
    if (value.alias == -1)
      continue;
    std::string where = program.name + ": " + value.name;
    if (value.alias < 0 || value.alias >= int64_t(program.arguments.size()))
      return malformed(where, "replaces argument " +
                                  std::to_string(value.alias) +
                                  ", but there are " +
                                  std::to_string(program.arguments.size()));
    const ProgramValue &argument = program.arguments[size_t(value.alias)];
    if (argument.type != value.type)
      return malformed(where, "of type " + value.type.toString() +
                                  " replaces argument '" + argument.name +
                                  "' of type " + argument.type.toString());
    if (replaced[size_t(value.alias)])
      return malformed(where, "replaces argument '" + argument.name +
                                  "', which another result replaces");
    replaced[size_t(value.alias)] = true;
  }
  return {};
}

/// Returns true if `name` is a type name of `mpc explain`: an element type or a
/// compute mode.
static bool isTypeName(const std::string &name) {
  return parseElementType(name) || name == "tf32" || name == "bf16x2" ||
         name == "bf16x3";
}

/// Checks that layers are unique, with existing types and no negative amounts.
static Status validateLayers(const Program &program) {
  std::set<std::string_view> paths;
  for (const LayerTypes &layer : program.layers) {
    std::string where = program.name + ": layer '" + layer.path + "'";
    if (!paths.insert(layer.path).second)
      return malformed(where, "appears twice");
    for (const auto *shares : {&layer.compute, &layer.gradient, &layer.storage})
      for (const TypeShare &share : *shares)
        if (!isTypeName(share.type) || share.count < 0 || share.weight < 0)
          return malformed(where, "has " + std::to_string(share.count) +
                                      " ops or values of type '" + share.type +
                                      "' and weight " +
                                      std::to_string(share.weight) +
                                      ", which is invalid");
    for (const VariableType &variable : layer.variables)
      if (!isTypeName(variable.type) ||
          !std::all_of(variable.stored.begin(), variable.stored.end(),
                       isTypeName))
        return malformed(where, "has variable '" + variable.name +
                                    "' of an unknown type");
  }
  return {};
}

/// Checks that run-time checks refer to existing extents, arguments and
/// results.
static Status validateChecks(const Program &program) {
  for (size_t i = 0; i < program.checks.size(); ++i) {
    const RunCheck &check = program.checks[i];
    bool ofResult = check.kind == RunCheck::Kind::FiniteResult;
    bool isKnown = ofResult ? check.number >= 0 &&
                                  check.number < int64_t(program.results.size())
                            : check.number > 0;
    if (!isKnown || check.argument < -1 ||
        check.argument >= int64_t(program.arguments.size()))
      return malformed(program.name + ": check " + std::to_string(i),
                       std::string("of ") + (ofResult ? "result " : "extent ") +
                           std::to_string(check.number) + " and argument " +
                           std::to_string(check.argument) +
                           " refers to a value that does not exist");
    if (check.exempt >= (ofResult ? NonFinite::kAll : 1))
      return malformed(program.name + ": check " + std::to_string(i),
                       "exempts the set of values " +
                           std::to_string(check.exempt) +
                           ", which leaves nothing to check");
  }
  return {};
}

/// Checks that a library supports the GEMM and that the launch has its buffers.
static Status validateGemm(const Launch &launch, const std::string &where) {
  const GemmProblem &gemm = *launch.gemm;
  if (std::string text = gemm.obstacle(); !text.empty())
    return malformed(where, "GEMM " + gemm.toString() + " " + text);
  std::vector<GemmProblem::Slot> slots = *gemm.slots();
  if (slots.size() != launch.buffers.size())
    return malformed(where, "has " + std::to_string(launch.buffers.size()) +
                                " buffers, GEMM " + gemm.toString() + " has " +
                                std::to_string(slots.size()));
  for (size_t i = 0; i < slots.size(); ++i) {
    const BufferRef &ref = launch.buffers[i];
    const GemmProblem::Slot &slot = slots[i];
    std::string buffer = "buffer " + std::to_string(i);
    if (ref.bytes != slot.bytes)
      return malformed(where, buffer + " has " + std::to_string(ref.bytes) +
                                  " bytes, GEMM " + gemm.toString() +
                                  " needs " + std::to_string(slot.bytes));
    if (ref.written != slot.written)
      return malformed(where,
                       buffer + " is " + (ref.written ? "written" : "read") +
                           ", which GEMM " + gemm.toString() + " does not do");
  }
  return {};
}

/// Checks that the collective is supported and its buffers are n inputs and n
/// outputs of matching sizes.
static Status validateCollective(const Launch &launch,
                                 const std::string &where) {
  const Collective &message = *launch.collective;
  std::string self = "collective " + message.toString();
  if (launch.gemm)
    return malformed(where, "is both a GEMM and a collective");
  if (std::string text = message.obstacle(); !text.empty())
    return malformed(where, self + " " + text);
  const size_t count = launch.buffers.size() / 2;
  if (count == 0 || launch.buffers.size() % 2 != 0)
    return malformed(where, "has " + std::to_string(launch.buffers.size()) +
                                " buffers, " + self +
                                " takes as many inputs as outputs");
  const int64_t elementBytes = mpc::elementBytes(message.element);
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    const BufferRef &ref = launch.buffers[i];
    std::string buffer = "buffer " + std::to_string(i);
    if (ref.written != (i >= count))
      return malformed(where, buffer + " is " +
                                  (ref.written ? "written" : "read") +
                                  ", which " + self + " does not do");
    if (ref.bytes % elementBytes != 0)
      return malformed(where, buffer + " of " + std::to_string(ref.bytes) +
                                  " bytes ends inside of an element of " +
                                  self);
    if (i < count)
      continue;
    int64_t elements = launch.buffers[i - count].bytes / elementBytes;
    if (message.outputElements(elements) != ref.bytes / elementBytes)
      return malformed(
          where, buffer + " has " + std::to_string(ref.bytes / elementBytes) +
                     " elements, which " + self + " does not make of " +
                     std::to_string(elements));
  }
  return {};
}

/// Returns true if the grid is within CUDA's limits.
static bool isLaunchable(const LaunchGrid &grid) {
  static constexpr int64_t kMost[] = {INT32_MAX, 65535, 65535};
  for (size_t i = 0; i < grid.blocks.size(); ++i)
    if (grid.blocks[i] < 0 || grid.blocks[i] > kMost[i])
      return false;
  return grid.threads >= 1 && grid.threads <= 1024 && grid.sharedBytes >= 0 &&
         grid.sharedBytes <= INT32_MAX;
}

Status mpc::validate(const Program &program, bool needsCode) {
  const std::string &self = program.name;
  if (program.arenaBytes < 0)
    return malformed(self, "arena of " + std::to_string(program.arenaBytes) +
                               " bytes");
  for (const auto *list : {&program.arguments, &program.results})
    for (const ProgramValue &value : *list)
      if (!value.type.byteCount())
        return malformed(self + ": " + value.name,
                         "type " + value.type.toString() +
                             " has no size that fits in memory");
  for (const ProgramValue &value : program.arguments)
    if (value.integerBound < 0)
      return malformed(self + ": " + value.name,
                       "has a negative bound of its integers");
  for (const ProgramValue &value : program.arguments)
    if (value.shardOf &&
        (value.type.shape.size() != 1 || !value.initialType().byteCount() ||
         *value.initialType().byteCount() < *value.type.byteCount()))
      return malformed(self + ": " + value.name,
                       "type " + value.type.toString() + " is not a shard of " +
                           value.initialType().toString());
  for (const ProgramValue &value : program.arguments)
    if (reinterpret_cast<uintptr_t>(value.initial.get()) % kBufferAlignment !=
        0)
      return malformed(self + ": " + value.name,
                       "initial value is not aligned to 64 bytes");
  if (Status status = validateAliases(program); !status.ok())
    return status;
  for (const ProgramConstant &constant : program.constants) {
    // A packed constant may exceed its type's size, never fall below it.
    std::optional<int64_t> bytes = constant.type.byteCount();
    if (!bytes || constant.bytes < *bytes ||
        (constant.bytes > 0 && !constant.data))
      return malformed(self + ": " + constant.name,
                       "constant of type " + constant.type.toString() +
                           " has " + std::to_string(constant.bytes) + " bytes");
    if (reinterpret_cast<uintptr_t>(constant.data.get()) % kBufferAlignment !=
        0)
      return malformed(self + ": " + constant.name,
                       "constant is not aligned to 64 bytes");
  }
  if (Status status = validateLayers(program); !status.ok())
    return status;
  if (Status status = validateChecks(program); !status.ok())
    return status;
  std::optional<int64_t> ranks;
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch &launch = program.launches[i];
    std::string where =
        self + ": launch " + std::to_string(i) + " (" + launch.kernel + ")";
    if (launch.gemm)
      if (Status status = validateGemm(launch, where); !status.ok())
        return status;
    if (launch.collective) {
      if (Status status = validateCollective(launch, where); !status.ok())
        return status;
      if (ranks.value_or(launch.collective->ranks) != launch.collective->ranks)
        return malformed(where, "is for " +
                                    std::to_string(launch.collective->ranks) +
                                    " ranks, an earlier collective for " +
                                    std::to_string(*ranks));
      ranks = launch.collective->ranks;
    }
    if (needsCode && !launch.function && !launch.collective)
      return malformed(where, "has no code for this device");
    if (launch.items < 0 || launch.grain < 1 || launch.scratchBytes < 0)
      return malformed(
          where, "items " + std::to_string(launch.items) + ", grain " +
                     std::to_string(launch.grain) + ", scratch " +
                     std::to_string(launch.scratchBytes) + " are invalid");
    if (launch.laterItems < 0 || launch.laterItems > launch.items ||
        launch.sharedBytes < 0)
      return malformed(where, std::to_string(launch.laterItems) +
                                  " later items of " +
                                  std::to_string(launch.items) + " items and " +
                                  std::to_string(launch.sharedBytes) +
                                  " bytes that they share are invalid");
    if (!isLaunchable(launch.grid))
      return malformed(
          where, "grid of " + std::to_string(launch.grid.blocks[0]) + "x" +
                     std::to_string(launch.grid.blocks[1]) + "x" +
                     std::to_string(launch.grid.blocks[2]) + " blocks of " +
                     std::to_string(launch.grid.threads) + " threads with " +
                     std::to_string(launch.grid.sharedBytes) +
                     " bytes of shared memory is invalid");
    for (size_t j = 0; j < launch.buffers.size(); ++j) {
      const BufferRef &ref = launch.buffers[j];
      std::string buffer = "buffer " + std::to_string(j);
      std::optional<int64_t> extent = extentOf(program, ref);
      if (!extent)
        return malformed(where,
                         buffer + " refers to a value that does not exist");
      if (ref.offset < 0 || ref.bytes < 0 || ref.bytes > *extent ||
          ref.offset > *extent - ref.bytes)
        return malformed(where, buffer + " reaches from byte " +
                                    std::to_string(ref.offset) + " over " +
                                    std::to_string(ref.bytes) + " bytes of " +
                                    std::to_string(*extent));
      if (ref.written && (ref.kind == BufferRef::Kind::Argument ||
                          ref.kind == BufferRef::Kind::Constant))
        return malformed(where, buffer + " writes an argument or a constant");
    }
  }
  return {};
}
