//===- CudaInstance.cpp - memory and CUDA graphs of one run ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaInstance.h"

#include "../RunChecks.h"

#include <algorithm>
#include <cstring>

using namespace mpc;
using namespace mpc::detail;

Result<std::unique_ptr<CudaInstance>>
CudaInstance::create(const std::shared_ptr<CudaContext> &context,
                     const Program &program, const CudaLaunches &launches) {
  const CudaDriver &cu = context->driver();
  std::unique_ptr<CudaInstance> made(
      new CudaInstance(context, program, launches));
  Result<std::shared_ptr<CudaStream>> stream = CudaStream::create(context);
  if (!stream.ok())
    return stream.status();
  made->stream = std::move(*stream);
  made->last = made->stream->handle();
  for (size_t i = 0; i < launches.count() && !made->messages; ++i)
    if (launches.isMessage(i)) {
      Result<std::unique_ptr<CudaCollectives>> messages =
          CudaCollectives::create(context, program);
      if (!messages.ok())
        return messages.status();
      made->messages = std::move(*messages);
    }
  int64_t arena = alignOnDevice(program.arenaBytes);
  int64_t scratch = launches.scratchBytes();
  CuHandle queue = context->memoryQueue();
  Result<std::shared_ptr<void>> block = context->allocate(
      size_t(arena + scratch + launches.workspaceBytes()), queue,
      /*keep=*/nullptr, program.name + ": intermediate memory");
  if (!block.ok())
    return block.status();
  made->block = std::move(*block);
  made->memory.arena = toCuAddress(made->block.get());
  made->memory.scratch = made->memory.arena + CuAddress(arena);
  made->memory.workspace = made->memory.scratch + CuAddress(scratch);
  if (scratch)
    if (Status status = context->check(
            cu.memsetD8Async(made->memory.scratch, 0, size_t(scratch), queue),
            "cuMemsetD8Async", program.name);
        !status.ok())
      return status;
  bool checksIndices = std::any_of(
      program.checks.begin(), program.checks.end(), [](const RunCheck &check) {
        return check.kind != RunCheck::Kind::FiniteResult;
      });
  if (checksIndices) {
    auto bytes = size_t(program.checkBytes());
    Result<std::shared_ptr<void>> words =
        context->allocatePinned(bytes, program.name + ": checks");
    if (!words.ok())
      return words.status();
    made->checks = std::move(*words);
    std::memset(made->checks.get(), 0, bytes);
    made->memory.checks = toCuAddress(made->checks.get());
  }
  CuHandle event = nullptr;
  if (Status status =
          context->check(cu.eventCreate(&event, kCuEventDisableTiming),
                         "cuEventCreate", program.name);
      !status.ok())
    return status;
  made->done = CudaEvent(context, event);
  // The first run, on any stream, waits for the memory above.
  if (Status status = context->check(cu.eventRecord(event, queue),
                                     "cuEventRecord", program.name);
      !status.ok())
    return status;
  return made;
}

CudaInstance::~CudaInstance() {
  if (!done)
    return;
  CudaScope scope(*context);
  if (scope.ok())
    (void)context->driver().eventSynchronize(done.get());
}

Result<bool> CudaInstance::finished() const {
  CuResult error = context->driver().eventQuery(done.get());
  if (error == kCuNotReady)
    return false;
  if (Status status = context->check(error, "cuEventQuery", program.name);
      !status.ok())
    return asynchronousFailure(status);
  return true;
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

Result<CudaGraph>
CudaInstance::capture(const std::function<Status(CuHandle)> &body) {
  const CudaDriver &cu = context->driver();
  CuHandle queue = stream->handle();
  // Thread-local capture: other threads of the host program may use the driver
  // meanwhile.
  if (Status status =
          context->check(cu.streamBeginCapture(queue, kCuCaptureThreadLocal),
                         "cuStreamBeginCapture", program.name);
      !status.ok())
    return status;
  Status status = body(queue);
  // A started capture must be ended even after a failure.
  CuHandle handle = nullptr;
  CuResult error = cu.streamEndCapture(queue, &handle);
  CudaGraph graph(context, handle);
  if (!status.ok())
    return status;
  if (Status ended = context->check(error, "cuStreamEndCapture", program.name);
      !ended.ok())
    return ended;
  return graph;
}

Result<CudaGraphExec> CudaInstance::instantiate(const CudaGraph &graph) {
  CuHandle handle = nullptr;
  if (Status status = context->check(
          context->driver().graphInstantiate(&handle, graph.get(), /*flags=*/0),
          "cuGraphInstantiateWithFlags", program.name);
      !status.ok())
    return status;
  return CudaGraphExec(context, handle);
}

Result<CuHandle> CudaInstance::graph() {
  const CudaDriver &cu = context->driver();
  std::vector<CuAddress> addresses = memory.arguments;
  addresses.insert(addresses.end(), memory.results.begin(),
                   memory.results.end());
  ++uses;
  for (CapturedGraph &captured : graphs)
    if (captured.addresses == addresses) {
      captured.lastUse = uses;
      return captured.exec.get();
    }
  Result<CudaGraph> made = capture(
      [&](CuHandle queue) { return launchAll(queue, /*checked=*/false); });
  if (!made.ok())
    return made.status();
  CudaGraphExec exec;
  if (graphs.size() >= kMostGraphs) {
    auto oldest =
        std::min_element(graphs.begin(), graphs.end(),
                         [](const CapturedGraph &a, const CapturedGraph &b) {
                           return a.lastUse < b.lastUse;
                         });
    // Update the oldest graph: launches are equal and only addresses differ,
    // which is much cheaper than instantiation; fails if a library selected
    // another algorithm.
    CuGraphUpdateResult result;
    if (cu.graphExecUpdate(oldest->exec.get(), made->get(), &result) == 0)
      exec = std::move(oldest->exec);
    graphs.erase(oldest);
  }
  if (!exec) {
    Result<CudaGraphExec> fresh = instantiate(*made);
    if (!fresh.ok())
      return fresh.status();
    exec = std::move(*fresh);
  }
  CuHandle handle = exec.get();
  graphs.push_back({std::move(addresses), std::move(exec), uses});
  return handle;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// A failure that is detected only at synchronization cannot be attributed to a
/// call.
Status CudaInstance::asynchronousFailure(Status status) const {
  if (status.ok() || status.code() != StatusCode::Internal)
    return status;
  return status.withNote(
      "a kernel of '" + program.name +
      "' or other work on this GPU failed, so this process cannot use the GPU "
      "any more; a device with checkLaunches names the kernel");
}

Status CudaInstance::previousAsyncError() {
  if (!checks)
    return {};
  Result<bool> isDone = finished();
  if (!isDone.ok() || !*isDone)
    return isDone.ok() ? Status() : isDone.status();
  Status status = readChecks(program, static_cast<int64_t *>(checks.get()));
  return status.ok() ? status
                     : status.withNote("in an earlier asynchronous run of '" +
                                       program.name + "'");
}

Status CudaInstance::launchOne(size_t index, CuHandle queue, bool early) {
  if (!messages)
    return launches.launch(index, memory, queue, early);
  if (Status status = messages->reach(index, queue); !status.ok())
    return status;
  return launches.isMessage(index)
             ? messages->send(launches, index, memory, queue)
             : launches.launch(index, memory, queue);
}

Status CudaInstance::launchAll(CuHandle queue, bool checked) {
  if (messages)
    messages->begin();
  for (size_t i = 0; i < launches.count(); ++i) {
    // A checked launch is synchronized individually.
    Status status = launchOne(i, queue, /*early=*/!checked);
    if (messages && (checked || !status.ok() || i + 1 == launches.count())) {
      // A capture must end on the stream where it started.
      Status joined = messages->join(queue);
      status = status.ok() ? joined : status;
    }
    if (!status.ok())
      return status;
    if (!checked)
      continue;
    if (Status status =
            context->check(context->driver().streamSynchronize(queue),
                           "the launch", launches.describe(i));
        !status.ok())
      return status;
  }
  return {};
}

Status CudaInstance::begin(CuHandle queue, bool asGraph, CuHandle &exec) {
  if (asGraph) {
    Result<CuHandle> captured = graph();
    if (!captured.ok())
      return captured.status();
    exec = *captured;
  }
  return context->check(
      context->driver().streamWaitEvent(queue, done.get(), /*flags=*/0),
      "cuStreamWaitEvent", program.name);
}

/// One graph with an event after each launch, so that no launch waits for the
/// host. The overhead of an event is measured by two adjacent ones.
Status CudaInstance::launchTimed(CuHandle queue,
                                 std::span<double> milliseconds) {
  const CudaDriver &cu = context->driver();
  std::vector<CudaEvent> events;
  for (size_t i = 0; i < launches.count() + 2; ++i) {
    CuHandle event = nullptr;
    if (Status status = context->check(cu.eventCreate(&event, kCuEventDefault),
                                       "cuEventCreate", program.name);
        !status.ok())
      return status;
    events.emplace_back(context, event);
  }
  Result<CudaGraph> made = capture([&](CuHandle captured) -> Status {
    if (messages)
      messages->begin();
    for (size_t i = 0; i < events.size(); ++i) {
      if (i >= 2) {
        Status status = launchOne(i - 2, captured, /*early=*/false);
        // When timed, a collective does not overlap launches.
        if (messages) {
          Status joined = messages->join(captured);
          status = status.ok() ? joined : status;
        }
        if (!status.ok())
          return status;
      }
      if (Status status =
              context->check(cu.eventRecordWithFlags(events[i].get(), captured,
                                                     kCuEventRecordExternal),
                             "cuEventRecordWithFlags", program.name);
          !status.ok())
        return status;
    }
    return {};
  });
  if (!made.ok())
    return made.status();
  Result<CudaGraphExec> exec = instantiate(*made);
  if (!exec.ok())
    return exec.status();
  if (Status status = context->check(cu.graphLaunch(exec->get(), queue),
                                     "cuGraphLaunch", program.name);
      !status.ok())
    return status;
  if (Status status = context->check(cu.streamSynchronize(queue),
                                     "cuStreamSynchronize", program.name);
      !status.ok())
    return asynchronousFailure(status);
  float empty = 0;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    float elapsed = 0;
    if (Status status = context->check(
            cu.eventElapsedTime(&elapsed, events[i].get(), events[i + 1].get()),
            "cuEventElapsedTime", program.name);
        !status.ok())
      return status;
    if (i == 0)
      empty = elapsed;
    else
      milliseconds[i - 1] = std::max(elapsed - empty, 0.0f);
  }
  return {};
}

Status CudaInstance::place(std::span<const Buffer> arguments,
                           std::span<const Buffer> results) {
  staging.resize(arguments.size() + results.size());
  auto isHome = [](const Buffer &buffer) {
    return buffer.onDevice() && buffer.address() % kDeviceLoadBytes == 0;
  };
  /// Visits the buffers that need staging, with their staging address.
  auto forStaged = [&](auto visit) {
    for (size_t i = 0; i < arguments.size(); ++i)
      if (!isHome(arguments[i]))
        visit(staging[i], arguments[i]);
    for (size_t i = 0; i < results.size(); ++i)
      if (program.results[i].alias < 0 && !isHome(results[i]))
        visit(staging[arguments.size() + i], results[i]);
  };
  auto bytesOf = [](const Buffer &buffer) {
    return alignOnDevice(std::max<int64_t>(int64_t(buffer.size()), 1));
  };
  int64_t missing = 0;
  forStaged([&](CuAddress place, const Buffer &buffer) {
    missing += place ? 0 : bytesOf(buffer);
  });
  if (missing) {
    const CudaDriver &cu = context->driver();
    CuHandle own = stream->handle();
    CudaStream queue(context, context->memoryQueue());
    Result<std::shared_ptr<void>> made =
        context->allocate(size_t(missing), queue.handle(), /*keep=*/nullptr,
                          program.name + ": inputs and outputs");
    if (!made.ok())
      return made.status();
    CuAddress next = toCuAddress(made->get());
    stagingBlocks.push_back(std::move(*made));
    forStaged([&](CuAddress &place, const Buffer &buffer) {
      if (!place) {
        place = next;
        next += CuAddress(bytesOf(buffer));
      }
    });
    // The next run, on any stream, waits for the memory, as for the previous
    // run.
    if (Status status = stream->follow(queue); !status.ok())
      return status;
    if (Status status =
            context->check(cu.streamWaitEvent(own, done.get(), /*flags=*/0),
                           "cuStreamWaitEvent", program.name);
        !status.ok())
      return status;
    if (Status status = context->check(cu.eventRecord(done.get(), own),
                                       "cuEventRecord", program.name);
        !status.ok())
      return status;
  }
  memory.arguments.clear();
  memory.results.clear();
  for (size_t i = 0; i < arguments.size(); ++i)
    memory.arguments.push_back(
        isHome(arguments[i]) ? CuAddress(arguments[i].address()) : staging[i]);
  for (size_t i = 0; i < results.size(); ++i) {
    int64_t alias = program.results[i].alias;
    memory.results.push_back(alias >= 0 ? memory.arguments[size_t(alias)]
                             : isHome(results[i])
                                 ? CuAddress(results[i].address())
                                 : staging[arguments.size() + i]);
  }
  return {};
}

Status CudaInstance::copyIn(std::span<const Buffer> arguments, CuHandle queue) {
  const CudaDriver &cu = context->driver();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Buffer &from = arguments[i];
    auto home = CuAddress(from.address());
    if (memory.arguments[i] == home || !from.size())
      continue;
    CuResult error =
        from.onDevice()
            ? cu.memcpyDtoDAsync(memory.arguments[i], home, from.size(), queue)
            : cu.memcpyHtoDAsync(memory.arguments[i], from.data(), from.size(),
                                 queue);
    if (Status status = context->check(
            error, from.onDevice() ? "cuMemcpyDtoDAsync" : "cuMemcpyHtoDAsync",
            program.name + ": input '" + program.arguments[i].name + "'");
        !status.ok())
      return status;
  }
  return {};
}

Status CudaInstance::copyOut(std::span<const Buffer> results, CuHandle queue) {
  const CudaDriver &cu = context->driver();
  for (size_t i = 0; i < results.size(); ++i) {
    const Buffer &to = results[i];
    auto home = CuAddress(to.address());
    if (memory.results[i] == home || !to.size())
      continue;
    CuResult error =
        to.onDevice()
            ? cu.memcpyDtoDAsync(home, memory.results[i], to.size(), queue)
            // A non-const handle to the same bytes, since results are written.
            : cu.memcpyDtoHAsync(Buffer(to).data(), memory.results[i],
                                 to.size(), queue);
    if (Status status = context->check(
            error, to.onDevice() ? "cuMemcpyDtoDAsync" : "cuMemcpyDtoHAsync",
            program.name + ": output '" + program.results[i].name + "'");
        !status.ok())
      return status;
  }
  return {};
}

Status CudaInstance::launchWith(std::span<const Buffer> arguments,
                                std::span<const Buffer> results, CuHandle queue,
                                std::span<double> milliseconds, bool checked) {
  if (Status status = place(arguments, results); !status.ok())
    return status;
  CuHandle exec = nullptr;
  bool asGraph = milliseconds.empty() && !checked;
  if (Status status = begin(queue, asGraph, exec); !status.ok())
    return status;
  Status status = copyIn(arguments, queue);
  if (status.ok()) {
    if (!milliseconds.empty())
      status = launchTimed(queue, milliseconds);
    else if (checked)
      status = launchAll(queue, checked);
    else
      status = context->check(context->driver().graphLaunch(exec, queue),
                              "cuGraphLaunch", program.name);
  }
  return status.ok() ? copyOut(results, queue) : status;
}

Status CudaInstance::enqueue(std::span<const Buffer> arguments,
                             std::span<const Buffer> results, CuHandle queue,
                             bool checked) {
  const CudaDriver &cu = context->driver();
  if (Status status = previousAsyncError(); !status.ok())
    return status;
  Status status = launchWith(arguments, results, queue, {}, checked);
  if (status.ok())
    status = context->check(cu.eventRecord(done.get(), queue), "cuEventRecord",
                            program.name);
  // Without the event nothing tells when the memory is free again.
  if (!status.ok())
    (void)cu.streamSynchronize(queue);
  last = queue;
  return status;
}

Status CudaInstance::run(std::span<const Buffer> arguments,
                         std::span<const Buffer> results,
                         const RunOptions &options, bool checked) {
  CuHandle queue = stream->handle();
  if (Status status = previousAsyncError(); !status.ok())
    return status;
  last = queue;
  std::span<double> milliseconds;
  if (options.launchMilliseconds)
    milliseconds = *options.launchMilliseconds;
  Status status = launchWith(arguments, results, queue, milliseconds, checked);
  // Synchronize even after a failure: enqueued work uses the caller's memory.
  Status ended = context->check(context->driver().streamSynchronize(queue),
                                "cuStreamSynchronize", program.name);
  if (!status.ok() || !ended.ok())
    return status.ok() ? asynchronousFailure(ended) : status;
  return checks ? readChecks(program, static_cast<int64_t *>(checks.get()),
                             options)
                : status;
}
