//===- CudaProgram.cpp - program loaded on a GPU --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaProgram.h"

using namespace mpc;
using namespace mpc::detail;

Result<std::shared_ptr<LoadedProgram>> CudaProgram::create(
    const std::shared_ptr<CudaContext> &context,
    const std::shared_ptr<const Program> &program, const CudaServices &services,
    const std::shared_ptr<GemmLibrary> &library,
    const std::shared_ptr<CollectiveBackend> &messages, bool checked) {
  std::shared_ptr<CudaProgram> made(
      new CudaProgram(context, program, library, messages, checked));
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  Result<std::unique_ptr<CudaLaunches>> launches = CudaLaunches::create(
      context, program, services, library.get(), messages.get());
  if (!launches.ok())
    return launches.status();
  made->launches = std::move(*launches);
  return std::shared_ptr<LoadedProgram>(std::move(made));
}

CudaProgram::~CudaProgram() {
  // Runs in progress use the code: destroy the instances, which wait for
  // theirs, first.
  instances.clear();
}

Result<std::unique_ptr<CudaInstance>> CudaProgram::acquire(CuHandle stream) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto take = [&](size_t index) {
      std::unique_ptr<CudaInstance> taken = std::move(instances[index]);
      instances.erase(instances.begin() + ptrdiff_t(index));
      return taken;
    };
    for (size_t i = instances.size(); i-- > 0;)
      if (instances[i]->lastStream() == stream)
        return take(i);
    for (size_t i = instances.size(); i-- > 0;) {
      Result<bool> finished = instances[i]->finished();
      if (!finished.ok())
        return finished.status();
      if (*finished)
        return take(i);
    }
  }
  Result<std::unique_ptr<CudaInstance>> made =
      CudaInstance::create(context, *program, *launches);
  if (made.ok() || made.status().code() != StatusCode::ResourceExhausted)
    return made;
  std::lock_guard<std::mutex> lock(mutex);
  if (instances.empty())
    return made;
  std::unique_ptr<CudaInstance> longest = std::move(instances.front());
  instances.erase(instances.begin());
  return longest;
}

void CudaProgram::release(std::unique_ptr<CudaInstance> instance) {
  std::lock_guard<std::mutex> lock(mutex);
  instances.push_back(std::move(instance));
}

Status CudaProgram::run(std::span<const Buffer> arguments,
                        std::span<Buffer> results, const RunOptions &options) {
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  // Null matches no caller's stream: a synchronous run takes any free instance.
  Result<std::unique_ptr<CudaInstance>> instance = acquire(nullptr);
  if (!instance.ok())
    return instance.status();
  Status status = (*instance)->run(arguments, results, options, checked);
  release(std::move(*instance));
  return status;
}

Status CudaProgram::enqueue(std::span<const Buffer> arguments,
                            std::span<Buffer> results, StreamImpl &stream) {
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  int capturing = 0;
  if (Status status = context->check(
          context->driver().streamIsCapturing(stream.handle(), &capturing),
          "cuStreamIsCapturing", program->name);
      !status.ok())
    return status;
  if (capturing)
    return Status(StatusCode::InvalidArgument, program->name,
                  "the stream is under capture; end the capture first");
  Result<std::unique_ptr<CudaInstance>> instance = acquire(stream.handle());
  if (!instance.ok())
    return instance.status();
  Status status =
      (*instance)->enqueue(arguments, results, stream.handle(), checked);
  release(std::move(*instance));
  return status;
}

Status CudaProgram::timeRuns(std::span<RunBuffers> sets, StreamImpl &stream,
                             std::span<double> milliseconds) {
  // Captures the graphs and warms up the GPU.
  for (RunBuffers &set : sets)
    if (Status status = enqueue(set.arguments, set.results, stream);
        !status.ok())
      return status;
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  const CudaDriver &cu = context->driver();
  CuHandle queue = stream.handle();
  std::vector<CudaEvent> events;
  auto mark = [&]() -> Status {
    CuHandle event = nullptr;
    if (Status status = context->check(cu.eventCreate(&event, kCuEventDefault),
                                       "cuEventCreate", program->name);
        !status.ok())
      return status;
    events.emplace_back(context, event);
    return context->check(cu.eventRecord(event, queue), "cuEventRecord",
                          program->name);
  };
  Status status = mark();
  for (size_t i = 0; status.ok() && i < milliseconds.size(); ++i) {
    RunBuffers &set = sets[i % sets.size()];
    status = enqueue(set.arguments, set.results, stream);
    if (status.ok())
      status = mark();
  }
  Status ended = context->check(cu.streamSynchronize(queue),
                                "cuStreamSynchronize", program->name);
  if (!status.ok() || !ended.ok())
    return status.ok() ? ended : status;
  for (size_t i = 0; i < milliseconds.size(); ++i) {
    float elapsed = 0;
    if (Status status = context->check(
            cu.eventElapsedTime(&elapsed, events[i].get(), events[i + 1].get()),
            "cuEventElapsedTime", program->name);
        !status.ok())
      return status;
    milliseconds[i] = elapsed;
  }
  return {};
}
