//===- CheckRanks.cpp - in-process step of several ranks ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckRanks.h"

#include "CompiledModel.h"

#include "mpc/Support/StepNames.h"

#include <algorithm>
#include <cstring>
#include <thread>

using namespace mpc;
using namespace mpc::tool;

static std::span<const std::byte> bytesOf(const Buffer &buffer) {
  return {static_cast<const std::byte *>(buffer.data()), buffer.size()};
}

static bool haveSameBytes(const Buffer &a, const Buffer &b) {
  return std::ranges::equal(bytesOf(a), bytesOf(b));
}

Result<Buffer> tool::copyBuffer(const Buffer &buffer) {
  return Buffer::fromHost(buffer.type(), bytesOf(buffer));
}

bool tool::isOfOneRank(const std::string &role) {
  return role.empty() || role == "output" || role == "loss" ||
         role == "rng_state";
}

/// Returns the parameter of which `name` is the unsharded copy; empty if it is
/// not one.
static std::string masterOf(const std::string &name) {
  return name.ends_with(kWholeSuffix)
             ? name.substr(0, name.size() - std::strlen(kWholeSuffix))
             : "";
}

Result<std::vector<RankValues>>
tool::drawRanks(const Executable &executable,
                std::span<const ProgramValue> values, int64_t ranks,
                uint64_t seed) {
  const std::vector<ProgramValue> &arguments = executable.program().arguments;
  std::vector<ProgramValue> wanted;
  for (size_t i = 0; i < values.size(); ++i) {
    // Derived from its parameter.
    if (!masterOf(values[i].name).empty())
      continue;
    wanted.push_back(values[i]);
    wanted.back().type = arguments[i].initialType();
  }
  std::vector<RankValues> all;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Result<std::vector<Buffer>> drawn =
        drawValues(wanted, seed + static_cast<uint64_t>(rank));
    if (!drawn.ok())
      return drawn.status();
    RankValues own;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const std::string &name = wanted[i].name;
      const bool isOwn = rank == 0 || wanted[i].role == "input" ||
                         wanted[i].role == "label" ||
                         name.ends_with(kGradientSuffix);
      own.given[name] = isOwn ? (*drawn)[i] : all.front().given[name];
    }
    all.push_back(std::move(own));
  }
  return all;
}

/// Returns the argument of rank `rank`: a copy, since a step overwrites it.
static Result<Buffer> bindArgument(const ProgramValue &value,
                                   const RankValues &own, size_t rank) {
  std::string master = masterOf(value.name);
  auto found = own.given.find(master.empty() ? value.name : master);
  if (found == own.given.end())
    return Status(StatusCode::Internal, "argument '" + value.name + "'",
                  "has no value");
  if (!value.shardOf)
    return copyBuffer(found->second);
  Result<Buffer> piece = Buffer::allocate(value.type);
  if (!piece.ok())
    return piece;
  // Zero padding after the last element.
  size_t all = found->second.size(),
         begin = std::min(rank * piece->size(), all),
         length = std::min(piece->size(), all - begin);
  std::memset(piece->data(), 0, piece->size());
  std::memcpy(piece->data(),
              static_cast<const char *>(found->second.data()) + begin, length);
  return piece;
}

/// Concatenates the shards of all ranks.
static Result<Buffer>
joinPieces(const ProgramValue &argument,
           const std::vector<std::vector<Buffer>> &results, size_t number) {
  Result<Buffer> whole = Buffer::allocate(argument.initialType());
  if (!whole.ok())
    return whole;
  for (size_t rank = 0; rank < results.size(); ++rank) {
    const Buffer &piece = results[rank][number];
    size_t begin = std::min(rank * piece.size(), whole->size());
    std::memcpy(static_cast<char *>(whole->data()) + begin, piece.data(),
                std::min(piece.size(), whole->size() - begin));
  }
  return whole;
}

/// Collects the results of each rank.
static Status collect(const Program &program,
                      const std::vector<std::vector<Buffer>> &results,
                      std::vector<RankValues> &ranks,
                      std::vector<RankDifference> &differences) {
  for (size_t number = 0; number < program.results.size(); ++number) {
    const ProgramValue &value = program.results[number];
    const ProgramValue *argument =
        value.alias >= 0 ? &program.arguments[size_t(value.alias)] : nullptr;
    std::optional<Buffer> whole;
    if (argument && argument->shardOf) {
      Result<Buffer> joined = joinPieces(*argument, results, number);
      if (!joined.ok())
        return joined.status();
      whole = *joined;
    }
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].left[value.name] = whole ? *whole : results[rank][number];
      if (!whole && !isOfOneRank(value.role) &&
          !value.name.ends_with(kGradientSuffix) &&
          !haveSameBytes(results[rank][number], results[0][number]))
        differences.push_back({value.name, int64_t(rank)});
    }
  }
  // The all-gathered copy of a parameter must equal the parameter.
  for (const auto &[name, buffer] : ranks.front().left) {
    auto master = ranks.front().left.find(masterOf(name));
    if (master != ranks.front().left.end() &&
        !haveSameBytes(buffer, master->second))
      differences.push_back({name, 0});
  }
  return {};
}

Status tool::runRanks(const Executable &executable,
                      std::vector<RankValues> &ranks,
                      std::vector<RankDifference> &differences) {
  const Program &program = executable.program();
  std::vector<std::vector<Buffer>> arguments(ranks.size()),
      results(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const ProgramValue &value : program.arguments) {
      Result<Buffer> bound = bindArgument(value, ranks[rank], rank);
      if (!bound.ok())
        return bound.status();
      arguments[rank].push_back(std::move(*bound));
    }
  std::vector<std::shared_ptr<Communicator>> ends =
      connectThreads(int(ranks.size()));
  std::vector<Status> ended(ranks.size());
  std::vector<std::thread> threads;
  threads.reserve(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back([&, rank] {
      Result<std::vector<Buffer>> ran =
          executable.run(arguments[rank], {.communicator = ends[rank].get()});
      ended[rank] = ran.status();
      if (ran.ok())
        results[rank] = std::move(*ran);
      // Destroy the endpoint, so that others do not wait for a failed rank.
      ends[rank] = nullptr;
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : ended)
    if (!status.ok())
      return status;
  return collect(program, results, ranks, differences);
}
