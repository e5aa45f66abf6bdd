//===- BatchPartition.cpp - data-parallel set-up of a trainer -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Agreement of ranks before training: parts of a batch, network parameters, and
// that all have compiled the same step from the same values.
//
//===----------------------------------------------------------------------===//

#include "TrainerImpl.h"

#include "JIT/Compiler.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

#include <algorithm>
#include <chrono>
#include <cmath>

using namespace mpc;
using namespace mpc::training;

//===----------------------------------------------------------------------===//
// The network
//===----------------------------------------------------------------------===//

/// Returns the minimum time of an exchange of `bytes`, in seconds.
static Result<double> secondsOf(Communicator &group, size_t bytes) {
  constexpr int kTries = 5;
  size_t piece = std::max<size_t>(1, bytes / size_t(group.size()));
  std::vector<char> send(piece * size_t(group.size())), receive(send.size());
  double least = INFINITY;
  for (int i = 0; i < kTries; ++i) {
    auto start = std::chrono::steady_clock::now();
    if (Status status = group.allToAll(send.data(), receive.data(), piece);
        !status.ok())
      return status;
    if (Status status = group.allGather(send.data(), receive.data(), piece);
        !status.ok())
      return status;
    least = std::min(least, std::chrono::duration<double>(
                                std::chrono::steady_clock::now() - start)
                                .count());
  }
  return least;
}

/// Rounds down to a power of two: raw measurements would change the compiled
/// step each time and miss the cache.
static double rounded(double value) {
  return std::exp2(std::floor(std::log2(value)));
}

static Status measure(Communicator &group, DistributionOptions &distribution) {
  constexpr size_t kLarge = size_t(1) << 20;
  Result<double> small = secondsOf(group, 1), large = secondsOf(group, kLarge);
  if (!small.ok() || !large.ok())
    return small.ok() ? large.status() : small.status();
  double network[] = {
      rounded(std::max(*small, 1e-7)),
      rounded(double(kLarge) / std::max(*large - *small, 1e-7))};
  if (Status status = group.broadcast(network, sizeof(network), 0);
      !status.ok())
    return status;
  distribution.latency = network[0];
  distribution.bandwidth = network[1];
  return {};
}

//===----------------------------------------------------------------------===//
// The batch and the step
//===----------------------------------------------------------------------===//

Status Trainer::Impl::partitionBatch() {
  int64_t size = ranks.size();
  DistributionOptions &distribution = options.training->distribution;
  distribution.ranks = size;
  if (ranks.alone())
    return {};
  if (Status status = ranks.agree("the batch", std::to_string(*options.batch));
      !status.ok())
    return status;
  if (*options.batch < size || *options.batch % size)
    return ranks.known(Status(
        StatusCode::InvalidArgument, "batch",
        "of " + std::to_string(*options.batch) +
            " examples cannot be divided evenly among " + std::to_string(size) +
            " ranks; use a multiple of " + std::to_string(size)));
  // Without a target: the step itself shows whether ranks agree on it.
  const PipelineOptions choices = pipelineOptions(options, TargetInfo());
  if (Status status = ranks.agree("the options", printFlags(choices));
      !status.ok())
    return status;
  *options.batch /= size;
  return measure(*ranks.communicator(), distribution);
}

Status Trainer::Impl::hasShards(const BoundProgram &program) const {
  const std::vector<ProgramValue> &types = program.batchTypes();
  int64_t part = types.empty() || types[0].type.shape.empty()
                     ? 0
                     : types[0].type.shape.front();
  if (ranks.alone() || part == *options.batch)
    return {};
  return Status(StatusCode::InvalidArgument, model.name(),
                "has batches of " + std::to_string(part) +
                    ", which cannot be divided into batches of " +
                    std::to_string(*options.batch) +
                    "; export it with a dynamic batch dimension");
}

Status Trainer::Impl::checkRanksAgree(const Program &program) const {
  if (ranks.alone())
    return {};
  llvm::SHA256 hash;
  auto add = [&](llvm::StringRef text) {
    hash.update(text);
    hash.update(llvm::StringRef("\0", 1));
  };
  auto addBytes = [&](const std::shared_ptr<const void> &data, int64_t bytes) {
    if (data)
      hash.update(llvm::StringRef(static_cast<const char *>(data.get()),
                                  size_t(bytes)));
  };
  add(program.target);
  for (const auto *values : {&program.arguments, &program.results})
    for (const ProgramValue &value : *values) {
      add(value.name);
      add(value.type.toString());
      addBytes(value.initial, value.initialType().byteCount().value_or(0));
    }
  for (const ProgramConstant &constant : program.constants)
    addBytes(constant.data, constant.bytes);
  for (const Launch &launch : program.launches) {
    add(launch.kernel);
    for (const BufferRef &buffer : launch.buffers)
      add(std::to_string(int(buffer.kind)) + " " +
          std::to_string(buffer.index) + " " + std::to_string(buffer.offset) +
          " " + std::to_string(buffer.bytes));
  }
  return ranks.agree("the compiled step",
                     llvm::toHex(hash.final()).substr(0, 16));
}
