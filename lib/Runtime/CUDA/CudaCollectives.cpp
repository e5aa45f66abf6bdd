//===- CudaCollectives.cpp - collectives concurrent with GPU kernels ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaCollectives.h"

using namespace mpc;
using namespace mpc::detail;

Result<std::unique_ptr<CudaCollectives>>
CudaCollectives::create(const std::shared_ptr<CudaContext> &context,
                        const Program &program) {
  std::unique_ptr<CudaCollectives> made(new CudaCollectives(context, program));
  Result<std::shared_ptr<CudaStream>> stream = CudaStream::create(context);
  if (!stream.ok())
    return stream.status();
  made->stream = std::move(*stream);
  for (std::vector<CudaEvent> *events : {&made->ready, &made->over})
    for (size_t i = 0; i < made->plan.launches.size(); ++i) {
      CuHandle event = nullptr;
      if (Status status = made->check(
              context->driver().eventCreate(&event, kCuEventDisableTiming),
              "cuEventCreate");
          !status.ok())
        return status;
      events->emplace_back(context, event);
    }
  return made;
}

Status CudaCollectives::waitFor(size_t count, CuHandle queue) {
  if (count <= joined)
    return {};
  joined = count;
  // Collectives run in order: the last one completes after all others.
  return check(context->driver().streamWaitEvent(queue, over[count - 1].get(),
                                                 /*flags=*/0),
               "cuStreamWaitEvent");
}

Status CudaCollectives::reach(size_t launch, CuHandle queue) {
  return waitFor(plan.needed[launch], queue);
}

Status CudaCollectives::send(const CudaLaunches &launches, size_t index,
                             const RunMemory &memory, CuHandle queue) {
  const CudaDriver &cu = context->driver();
  CuHandle own = stream->handle(), begin = ready[sent].get(),
           end = over[sent].get();
  if (Status status = check(cu.eventRecord(begin, queue), "cuEventRecord");
      !status.ok())
    return status;
  if (Status status = check(cu.streamWaitEvent(own, begin, /*flags=*/0),
                            "cuStreamWaitEvent");
      !status.ok())
    return status;
  Status status = launches.launch(index, memory, own);
  // A stream that joined a capture must be joined back.
  ++sent;
  Status recorded = check(cu.eventRecord(end, own), "cuEventRecord");
  return status.ok() ? recorded : status;
}
