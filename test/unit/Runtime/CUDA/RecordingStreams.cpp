//===- RecordingStreams.cpp - streams and graphs of a recorded GPU --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecordingState.h"

#include <algorithm>
#include <cstring>

using namespace mpc;
using namespace mpc::detail;
using namespace mpc::recording;
using namespace mpc::recording::inside;

//===----------------------------------------------------------------------===//
// Streams and events
//===----------------------------------------------------------------------===//

CuResult inside::streamCreate(CuHandle *stream, unsigned) {
  return call("cuStreamCreate", "", Needs::ContextOutsideOfCapture, [&] {
    Object object;
    object.kind = "stream";
    object.queue = std::make_shared<Queue>();
    state().queues.insert(object.queue);
    *stream = add(std::move(object));
    return 0;
  });
}

CuResult inside::streamDestroy(CuHandle stream) {
  // Its work is still done: the queue stays.
  return destroy("cuStreamDestroy", stream, "stream");
}

CuResult inside::streamSynchronize(CuHandle stream) {
  return callAnyway("cuStreamSynchronize", "", Needs::ContextOutsideOfCapture,
                    [&] {
                      std::shared_ptr<Queue> queue = queueOf(stream);
                      if (!queue)
                        return 400;
                      drain(queue);
                      return 0;
                    });
}

CuResult inside::streamQuery(CuHandle stream) {
  return call("cuStreamQuery", "", Needs::ContextOutsideOfCapture, [&] {
    std::shared_ptr<Queue> queue = queueOf(stream);
    if (!queue)
      return 400;
    return queue->work.empty() ? 0 : int(kCuNotReady);
  });
}

/// A stream that waits for an event of a capture is part of it from there on.
static CuResult waitInCapture(const std::shared_ptr<Queue> &queue,
                              const Marker &marker) {
  constexpr CuResult kCapturedEvent = 907, kIsolation = 905;
  if (marker.graph->isMade)
    return kCapturedEvent;
  if (queue->capture && queue->capture != marker.graph)
    return kIsolation;
  if (!queue->capture) {
    queue->capture = marker.graph;
    queue->lane = marker.graph->lanes++;
  }
  marker.graph->nodes.push_back(
      {"wait", nullptr, queue->lane, long(marker.node)});
  return 0;
}

CuResult inside::streamWaitEvent(CuHandle stream, CuHandle event, unsigned) {
  return call("cuStreamWaitEvent", "", Needs::Context, [&] {
    Object *object = find(event, "event");
    std::shared_ptr<Queue> queue = queueOf(stream);
    if (!object || !queue)
      return 400;
    // An event that was never recorded holds nothing up.
    if (object->marker && object->marker->graph)
      return waitInCapture(queue, *object->marker);
    if (object->marker)
      queue->work.push_back({nullptr, object->marker});
    return 0;
  });
}

CuResult inside::streamAddCallback(CuHandle stream, CuCallback callback,
                                   void *data, unsigned) {
  return call("cuStreamAddCallback", "", Needs::Context, [&] {
    return enqueue(stream, "callback",
                   [=] { callback(stream, state().stickyError, data); });
  });
}

CuResult inside::streamIsCapturing(CuHandle stream, int *status) {
  return call("cuStreamIsCapturing", "", Needs::Context, [&] {
    std::shared_ptr<Queue> queue = queueOf(stream);
    if (!queue)
      return 400;
    *status = queue->capture ? 1 : 0;
    return 0;
  });
}

CuResult inside::streamBeginCapture(CuHandle stream, int) {
  return call("cuStreamBeginCapture", "", Needs::Context, [&] {
    std::shared_ptr<Queue> queue = queueOf(stream);
    if (!queue || queue == state().defaultQueue || queue->capture)
      return 900;
    queue->capture = std::make_shared<Graph>();
    queue->lane = 0;
    ++captures;
    return 0;
  });
}

/// Returns true if the first lane waits, directly or indirectly, for the last
/// node of every lane.
static bool isJoined(const Graph &graph) {
  // Number of nodes of each lane that are done after the first lane.
  std::vector<size_t> done(graph.lanes, 0);
  done[0] = graph.nodes.size();
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node &node = graph.nodes[i];
    if (i < done[node.lane] && node.after >= 0) {
      const auto after = size_t(node.after);
      size_t &other = done[graph.nodes[after].lane];
      other = std::max(other, after + 1);
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (i >= done[graph.nodes[i].lane])
      return false;
  return true;
}

CuResult inside::streamEndCapture(CuHandle stream, CuHandle *graph) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  CuResult error = record("cuStreamEndCapture", "", Needs::Context);
  *graph = nullptr;
  std::shared_ptr<Queue> queue = queueOf(stream);
  if (!queue || !queue->capture)
    return 900;
  --captures;
  Object object;
  object.kind = "graph";
  object.graph = queue->capture;
  const bool isWhole = isJoined(*queue->capture);
  object.graph->isMade = true;
  for (const std::shared_ptr<Queue> &other : state().queues)
    if (other->capture == object.graph)
      other->capture = nullptr;
  // An invalidated capture returns no graph.
  if (error)
    return error;
  if (!isWhole)
    return 904; // CUDA_ERROR_STREAM_CAPTURE_UNJOINED
  *graph = add(std::move(object));
  return 0;
}

CuResult inside::eventCreate(CuHandle *event, unsigned) {
  return call("cuEventCreate", "", Needs::ContextOutsideOfCapture, [&] {
    Object object;
    object.kind = "event";
    *event = add(std::move(object));
    return 0;
  });
}

CuResult inside::eventDestroy(CuHandle event) {
  return destroy("cuEventDestroy", event, "event");
}

static CuResult recordEvent(CuHandle event, CuHandle stream) {
  Object *object = find(event, "event");
  std::shared_ptr<Queue> queue = queueOf(stream);
  if (!object || !queue)
    return 400;
  auto marker = std::make_shared<Marker>();
  marker->queue = queue;
  object->marker = marker;
  bool inGraph = queue->capture != nullptr;
  if (inGraph) {
    marker->graph = queue->capture;
    marker->node = queue->capture->nodes.size();
  }
  return enqueue(stream, "event", [marker, inGraph] {
    if (inGraph)
      state().milliseconds += 0.125f;
    marker->milliseconds = state().milliseconds;
    marker->done = true;
  });
}

CuResult inside::eventRecord(CuHandle event, CuHandle stream) {
  return call("cuEventRecord", "", Needs::Context,
              [&] { return recordEvent(event, stream); });
}

CuResult inside::eventRecordWithFlags(CuHandle event, CuHandle stream,
                                      unsigned flags) {
  return call("cuEventRecordWithFlags", std::to_string(flags), Needs::Context,
              [&] {
                std::shared_ptr<Queue> queue = queueOf(stream);
                // An event of a graph is one that others see.
                if (!queue || (flags == 1) != (queue->capture != nullptr))
                  return int(kCuInvalidValue);
                return recordEvent(event, stream);
              });
}

CuResult inside::eventQuery(CuHandle event) {
  return call("cuEventQuery", "", Needs::ContextOutsideOfCapture, [&] {
    Object *object = find(event, "event");
    if (!object)
      return 400;
    bool done = !object->marker || object->marker->done;
    return done ? 0 : int(kCuNotReady);
  });
}

CuResult inside::eventSynchronize(CuHandle event) {
  return callAnyway("cuEventSynchronize", "", Needs::ContextOutsideOfCapture,
                    [&] {
                      Object *object = find(event, "event");
                      if (!object)
                        return 400;
                      if (object->marker)
                        drain(object->marker->queue, object->marker);
                      return 0;
                    });
}

CuResult inside::eventElapsedTime(float *milliseconds, CuHandle start,
                                  CuHandle end) {
  return call("cuEventElapsedTime", "", Needs::Context, [&] {
    float times[2] = {};
    for (CuHandle handle : {start, end}) {
      Object *object = find(handle, "event");
      if (!object)
        return 400;
      if (!object->marker || !object->marker->done)
        return int(kCuNotReady);
      times[handle == end] = object->marker->milliseconds;
    }
    *milliseconds = times[1] - times[0];
    return 0;
  });
}

//===----------------------------------------------------------------------===//
// Graphs and kernels
//===----------------------------------------------------------------------===//

CuResult inside::graphDestroy(CuHandle graph) {
  return destroy("cuGraphDestroy", graph, "graph");
}

CuResult inside::graphInstantiate(CuHandle *exec, CuHandle graph,
                                  unsigned long long) {
  return call("cuGraphInstantiateWithFlags", "", Needs::Context, [&] {
    Object *object = find(graph, "graph");
    if (!object)
      return 400;
    Object made;
    made.kind = "executable graph";
    made.graph = std::make_shared<Graph>(*object->graph);
    *exec = add(std::move(made));
    return 0;
  });
}

CuResult inside::graphExecUpdate(CuHandle exec, CuHandle graph,
                                 CuGraphUpdateResult *result) {
  return call("cuGraphExecUpdate", "", Needs::Context, [&] {
    Object *object = find(exec, "executable graph");
    Object *source = find(graph, "graph");
    if (!object || !source)
      return 400;
    bool same = state().machine.graphUpdates &&
                object->graph->nodes.size() == source->graph->nodes.size();
    for (size_t i = 0; same && i < object->graph->nodes.size(); ++i)
      same = object->graph->nodes[i].kernel == source->graph->nodes[i].kernel;
    result->result = same ? 0 : 1;
    // An enqueued graph keeps its current nodes.
    if (same)
      object->graph = std::make_shared<Graph>(*source->graph);
    return same ? 0 : int(kCuGraphUpdateFailure);
  });
}

CuResult inside::graphExecDestroy(CuHandle exec) {
  return destroy("cuGraphExecDestroy", exec, "executable graph");
}

static thread_local bool runningGraph = false;

/// Does the nodes of the first lane, and those of others as late as they may
/// be.
static void runGraph(const Graph &graph) {
  std::vector<size_t> next(graph.lanes, 0);
  std::function<void(size_t, size_t)> runTo = [&](size_t lane, size_t end) {
    while (next[lane] < end) {
      const Node &node = graph.nodes[next[lane]++];
      if (node.lane != lane)
        continue;
      if (node.after >= 0)
        runTo(graph.nodes[size_t(node.after)].lane, size_t(node.after) + 1);
      if (node.run)
        node.run();
    }
  };
  for (size_t lane = 0; lane < graph.lanes; ++lane)
    runTo(lane, graph.nodes.size());
}

CuResult inside::graphLaunch(CuHandle exec, CuHandle stream) {
  return call("cuGraphLaunch", "", Needs::Context, [&] {
    Object *object = find(exec, "executable graph");
    if (!object)
      return 400;
    return enqueue(stream, "graph", [graph = object->graph] {
      runningGraph = true;
      runGraph(*graph);
      runningGraph = false;
    });
  });
}

/// Execution of a launch on the GPU.
static void runKernel(KernelRun run) {
  State &all = state();
  if (all.stickyError)
    return;
  auto failing = all.machine.failingKernels.find(run.kernel);
  if (failing != all.machine.failingKernels.end()) {
    all.stickyError = failing->second;
    return;
  }
  run.inGraph = runningGraph;
  all.milliseconds += 0.25f;
  std::vector<void *> parameters;
  for (uint64_t parameter : run.parameters) {
    requireMemory(parameter, 0, "kernel " + run.kernel);
    // A misaligned load of 16 bytes ends the context.
    if (parameter % 16)
      complain("kernel " + run.kernel + " gets memory aligned to " +
               std::to_string(parameter & -parameter) + " bytes only");
    parameters.push_back(at(parameter));
  }
  auto body = all.machine.kernels.find(run.kernel);
  if (body == all.machine.kernels.end())
    body = all.machine.kernels.find("*");
  if (body != all.machine.kernels.end() && body->second)
    body->second(parameters);
  all.runs.push_back(std::move(run));
}

/// One launch by the call of this name.
static CuResult launchBy(const char *callName, CuHandle function,
                         unsigned gridX, unsigned gridY, unsigned gridZ,
                         unsigned blockX, unsigned blockY, unsigned blockZ,
                         unsigned sharedBytes, CuHandle stream,
                         void **parameters) {
  Object *object = nullptr;
  {
    std::lock_guard<std::recursive_mutex> lock(state().mutex);
    object = find(function, "function");
  }
  std::string name = object ? object->function.name : "?";
  std::string detail = name + " blocks " + std::to_string(gridX) + "x" +
                       std::to_string(gridY) + "x" + std::to_string(gridZ) +
                       " threads " + std::to_string(blockX) + " shared " +
                       std::to_string(sharedBytes);
  return call(callName, detail, Needs::Context, [&] {
    if (!object)
      return 400;
    uint64_t threads = uint64_t(blockX) * blockY * blockZ;
    if (!gridX || !gridY || !gridZ || !threads || threads > 1024)
      return int(kCuInvalidValue);
    KernelRun run = {
        name, {gridX, gridY, gridZ}, unsigned(threads), sharedBytes, {}, false};
    for (int i = 0; i < object->function.parameters; ++i) {
      uint64_t value = 0;
      std::memcpy(&value, parameters[i], sizeof(value));
      run.parameters.push_back(value);
    }
    return enqueue(stream, name, [run] { runKernel(run); });
  });
}

CuResult inside::launchKernel(CuHandle function, unsigned gridX, unsigned gridY,
                              unsigned gridZ, unsigned blockX, unsigned blockY,
                              unsigned blockZ, unsigned sharedBytes,
                              CuHandle stream, void **parameters, void **) {
  return launchBy("cuLaunchKernel", function, gridX, gridY, gridZ, blockX,
                  blockY, blockZ, sharedBytes, stream, parameters);
}

CuResult inside::launchKernelEx(const CuLaunchConfig *config, CuHandle function,
                                void **parameters, void **) {
  for (unsigned i = 0; i < config->attributeCount; ++i)
    if (config->attributes[i].id != kCuProgrammaticStreamSerialization)
      complain("launch attribute " + std::to_string(config->attributes[i].id));
  return launchBy("cuLaunchKernelEx", function, config->gridX, config->gridY,
                  config->gridZ, config->blockX, config->blockY, config->blockZ,
                  config->sharedBytes, config->stream, parameters);
}

CuResult inside::launchCooperativeKernel(CuHandle function, unsigned gridX,
                                         unsigned gridY, unsigned gridZ,
                                         unsigned blockX, unsigned blockY,
                                         unsigned blockZ, unsigned sharedBytes,
                                         CuHandle stream, void **parameters) {
  return launchBy("cuLaunchCooperativeKernel", function, gridX, gridY, gridZ,
                  blockX, blockY, blockZ, sharedBytes, stream, parameters);
}

CuResult inside::occupancyMaxActiveBlocks(int *blocks, CuHandle, int,
                                          size_t sharedBytes) {
  return call("cuOccupancyMaxActiveBlocksPerMultiprocessor",
              bytesText(sharedBytes), Needs::Context, [&] {
                // 228 KB and 1 KB of each block's own.
                *blocks = int((228 << 10) / (sharedBytes + (1 << 10)));
                return 0;
              });
}
