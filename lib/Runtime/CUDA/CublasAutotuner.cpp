//===- CublasAutotuner.cpp - autotuning of cuBLASLt algorithms ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CublasAutotuner.h"

#include "AutotuneBuffers.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace mpc;
using namespace mpc::detail;

//===----------------------------------------------------------------------===//
// Timing
//===----------------------------------------------------------------------===//

/// Target duration of a graph, in ms, to amortize the launch and two events.
static constexpr float kGraphMilliseconds = 0.2f;
/// Minimum and maximum number of GEMMs in a graph.
static constexpr size_t kLeastReplays = 2, kMostReplays = 128;

namespace {

/// A candidate algorithm that has run.
struct AutotuneCandidate {
  const BlasCandidate *candidate;
  /// Time of a single GEMM, with host launch overhead, in ms.
  float alone = std::numeric_limits<float>::infinity();
  CudaGraphExec graph = {};
  /// Minimum time of the graph, in ms.
  float least = std::numeric_limits<float>::infinity();
};

/// Times the candidates of one GEMM on one stream.
class AutotuneRound {
public:
  AutotuneRound(std::shared_ptr<CudaContext> context, const CublasGemm &product,
                const AutotuneBuffers &memory, CuHandle stream)
      : context(std::move(context)), driver(this->context->driver()),
        product(product), memory(memory), stream(stream),
        where(product.problem().toString()) {}

  Status prepare();
  /// Runs `candidate` once; a failure only excludes this candidate.
  Result<AutotuneCandidate> tryAlone(const BlasCandidate &candidate);
  /// Captures `replays` GEMMs into a graph.
  Status capture(AutotuneCandidate &contender, size_t replays);
  /// Returns the time of one launch of the contender's graph, in ms.
  Result<float> run(const AutotuneCandidate &contender);

private:
  Status check(CuResult error, const char *call) const {
    return context->check(error, call, where);
  }
  Status enqueue(const BlasCandidate &candidate) {
    return product.enqueue(memory.buffers(number++), candidate,
                           memory.workspace(), stream);
  }
  /// Returns the time of the work that `work` enqueues, in ms.
  template <typename Work> Result<float> timed(Work work);

  std::shared_ptr<CudaContext> context;
  const CudaDriver &driver;
  const CublasGemm &product;
  const AutotuneBuffers &memory;
  CuHandle stream;
  std::string where;
  CudaEvent begin, end;
  size_t number = 0;
};

} // namespace

Status AutotuneRound::prepare() {
  for (CudaEvent *event : {&begin, &end}) {
    CuHandle handle = nullptr;
    if (Status status = check(driver.eventCreate(&handle, kCuEventDefault),
                              "cuEventCreate");
        !status.ok())
      return status;
    *event = CudaEvent(context, handle);
  }
  return {};
}

template <typename Work> Result<float> AutotuneRound::timed(Work work) {
  if (Status status =
          check(driver.eventRecord(begin.get(), stream), "cuEventRecord");
      !status.ok())
    return status;
  if (Status status = work(); !status.ok())
    return status;
  if (Status status =
          check(driver.eventRecord(end.get(), stream), "cuEventRecord");
      !status.ok())
    return status;
  if (Status status =
          check(driver.eventSynchronize(end.get()), "cuEventSynchronize");
      !status.ok())
    return status;
  float milliseconds = 0;
  if (Status status =
          check(driver.eventElapsedTime(&milliseconds, begin.get(), end.get()),
                "cuEventElapsedTime");
      !status.ok())
    return status;
  return milliseconds;
}

Result<AutotuneCandidate>
AutotuneRound::tryAlone(const BlasCandidate &candidate) {
  // The first call loads code, which may not be allowed during capture.
  if (Status status = enqueue(candidate); !status.ok())
    return status;
  AutotuneCandidate contender{&candidate};
  for (int i = 0; i < 3; ++i) {
    Result<float> alone = timed([&] { return enqueue(candidate); });
    if (!alone.ok())
      return alone.status();
    contender.alone = std::min(contender.alone, *alone);
  }
  return contender;
}

Status AutotuneRound::capture(AutotuneCandidate &contender, size_t replays) {
  if (Status status =
          check(driver.streamBeginCapture(stream, kCuCaptureThreadLocal),
                "cuStreamBeginCapture");
      !status.ok())
    return status;
  Status status;
  number = 0;
  for (size_t i = 0; i < replays && status.ok(); ++i)
    status = enqueue(*contender.candidate);
  CuHandle handle = nullptr;
  CuResult error = driver.streamEndCapture(stream, &handle);
  CudaGraph graph(context, handle);
  if (status.ok())
    status = check(error, "cuStreamEndCapture");
  if (!status.ok())
    return status;
  CuHandle exec = nullptr;
  if (Status made = check(driver.graphInstantiate(&exec, handle, 0),
                          "cuGraphInstantiateWithFlags");
      !made.ok())
    return made;
  contender.graph = CudaGraphExec(context, exec);
  return {};
}

Result<float> AutotuneRound::run(const AutotuneCandidate &contender) {
  return timed([&] {
    return check(driver.graphLaunch(contender.graph.get(), stream),
                 "cuGraphLaunch");
  });
}

Result<BlasCandidate>
CublasAutotuner::time(const CublasGemm &product,
                      std::span<const BlasCandidate> candidates,
                      CuHandle stream) {
  AutotuneBuffers memory(context->driver());
  if (!memory.prepare(product.problem(), context->gpu().l2Bytes, stream).ok())
    return candidates.front();
  AutotuneRound race(context, product, memory, stream);
  if (Status status = race.prepare(); !status.ok())
    return status;
  std::vector<AutotuneCandidate> contenders;
  Status last;
  float alone = std::numeric_limits<float>::infinity();
  for (const BlasCandidate &candidate : candidates) {
    Result<AutotuneCandidate> made = race.tryAlone(candidate);
    if (made.ok()) {
      alone = std::min(alone, made->alone);
      contenders.push_back(std::move(*made));
    } else {
      last = made.status();
    }
  }
  auto wanted = static_cast<size_t>(std::min<float>(
      kMostReplays, kGraphMilliseconds / std::max(alone, 1e-6f)));
  size_t replays =
      std::max({wanted, memory.copyCount(), size_t(kLeastReplays)});
  std::erase_if(contenders, [&](AutotuneCandidate &contender) {
    // All have equal launch overhead: one that is this much slower is a slow
    // kernel.
    if (contender.alone > 4 * alone)
      return true;
    Status status = race.capture(contender, replays);
    if (!status.ok())
      last = status;
    return !status.ok();
  });
  if (contenders.empty())
    return last;
  // Pass 0 warms up. Candidates far slower than the best are dropped after pass
  // 1.
  float least = std::numeric_limits<float>::infinity();
  for (int pass = 0; pass <= kPasses; ++pass)
    for (AutotuneCandidate &contender : contenders) {
      if (pass > 1 && contender.least > 1.5f * least)
        continue;
      Result<float> milliseconds = race.run(contender);
      if (!milliseconds.ok())
        return milliseconds.status();
      if (pass == 0)
        continue;
      contender.least = std::min(contender.least, *milliseconds);
      least = std::min(least, contender.least);
    }
  return *std::min_element(
              contenders.begin(), contenders.end(),
              [](const AutotuneCandidate &a, const AutotuneCandidate &b) {
                return a.least < b.least;
              })
              ->candidate;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

std::optional<BlasCandidate>
CublasAutotuner::find(const std::string &key) const {
  std::optional<std::vector<std::byte>> bytes = cache.find(key);
  BlasCandidate candidate;
  if (!bytes || bytes->size() != sizeof(candidate.algorithm) + sizeof(uint64_t))
    return std::nullopt;
  uint64_t workspace = 0;
  std::memcpy(&candidate.algorithm, bytes->data(), sizeof(candidate.algorithm));
  std::memcpy(&workspace, bytes->data() + sizeof(candidate.algorithm),
              sizeof(workspace));
  if (workspace > CublasGemm::kWorkspaceBytes)
    return std::nullopt;
  candidate.workspaceBytes = workspace;
  return candidate;
}

Result<BlasCandidate> CublasAutotuner::choose(const CublasGemm &product,
                                              CuHandle stream) {
  std::string problem = product.problem().toString();
  std::string alignments = product.alignmentText();
  std::string version = std::to_string(product.library().version());
  std::string_view parts[] = {"cublasLt algorithm 2", problem, alignments,
                              context->gpu().name, version};
  std::string key = contentKey(parts);
  if (std::optional<BlasCandidate> known = find(key))
    return *known;
  Result<std::vector<BlasCandidate>> candidates =
      product.candidates(kCandidates);
  if (!candidates.ok())
    return candidates.status();
  Result<BlasCandidate> best = time(product, *candidates, stream);
  if (!best.ok())
    return best.status();
  std::vector<std::byte> bytes(sizeof(best->algorithm) + sizeof(uint64_t));
  uint64_t workspace = best->workspaceBytes;
  std::memcpy(bytes.data(), &best->algorithm, sizeof(best->algorithm));
  std::memcpy(bytes.data() + sizeof(best->algorithm), &workspace,
              sizeof(workspace));
  (void)cache.store(key, bytes);
  return *best;
}
