//===- RecordingDriver.cpp - a CUDA driver without a GPU ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecordingState.h"

#include <cstdlib>

using namespace mpc;
using namespace mpc::detail;
using namespace mpc::recording;
using namespace mpc::recording::inside;

//===----------------------------------------------------------------------===//
// The machine's state
//===----------------------------------------------------------------------===//

/// Lives until it is released: calls may come after destructors have begun.
static State *&onlyState() {
  static State *only = new State;
  return only;
}

State &inside::state() { return *onlyState(); }

void recording::release() {
  delete onlyState();
  onlyState() = nullptr;
}

thread_local std::vector<CuHandle> inside::contexts;
thread_local int inside::captures = 0;

void inside::complain(std::string text) {
  state().complaints.push_back(std::move(text));
}

CuHandle inside::add(Object object) {
  // No address that could be read by mistake.
  auto handle = reinterpret_cast<CuHandle>(0x10000 + 16 * ++state().nextHandle);
  state().objects[handle] = std::move(object);
  return handle;
}

Object *inside::find(CuHandle handle, const char *kind) {
  auto found = state().objects.find(handle);
  if (found != state().objects.end() && found->second.kind == kind)
    return &found->second;
  complain(std::string("no ") + kind + " has this handle");
  return nullptr;
}

std::shared_ptr<Queue> inside::queueOf(CuHandle stream) {
  if (!stream)
    return state().defaultQueue;
  Object *object = find(stream, "stream");
  return object ? object->queue : nullptr;
}

void inside::drain(const std::shared_ptr<Queue> &queue,
                   const std::shared_ptr<Marker> &until) {
  while (!queue->work.empty() && !(until && until->done)) {
    Work work = std::move(queue->work.front());
    queue->work.pop_front();
    if (work.after && !work.after->done)
      drain(work.after->queue, work.after);
    if (work.run)
      work.run();
  }
}

void inside::drainAll() {
  drain(state().defaultQueue);
  // Work may add queues.
  auto queues = state().queues;
  for (const std::shared_ptr<Queue> &queue : queues)
    drain(queue);
}

CuResult inside::enqueue(CuHandle stream, const std::string &kernel,
                         std::function<void()> run) {
  std::shared_ptr<Queue> queue = queueOf(stream);
  if (!queue)
    return 400;
  if (queue->capture)
    queue->capture->nodes.push_back({kernel, std::move(run), queue->lane});
  else
    queue->work.push_back({std::move(run), nullptr});
  return 0;
}

/// Returns true if `[address, address + bytes)` is in live memory.
static bool inMemory(CuAddress address, size_t bytes) {
  auto after = state().memory.upper_bound(address);
  if (after == state().memory.begin())
    return false;
  auto [start, size] = *std::prev(after);
  return address - start <= size && bytes <= size - (address - start);
}

void inside::requireMemory(CuAddress address, size_t bytes,
                           const std::string &who) {
  if (!inMemory(address, bytes))
    complain(who + " works on memory that is not there");
}

void *inside::at(CuAddress address) {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

//===----------------------------------------------------------------------===//
// Entering the driver
//===----------------------------------------------------------------------===//

CuResult inside::record(const char *name, std::string detail, Needs needs) {
  State &all = state();
  all.calls.push_back({name, std::move(detail)});
  if (all.observer)
    all.observer(all.calls.back());
  long number = all.callNumber++;
  if (needs != Needs::Nothing && contexts.empty()) {
    complain(std::string(name) + " without a context");
    return 201;
  }
  if (needs == Needs::ContextOutsideOfCapture && captures > 0) {
    complain(std::string(name) + " during a capture");
    return 900;
  }
  if (number == all.machine.failAt)
    return all.machine.failure;
  auto failing = all.machine.failingCalls.find(name);
  return failing == all.machine.failingCalls.end() ? 0 : failing->second;
}

CuResult inside::destroy(const char *name, CuHandle handle, const char *kind) {
  return callAnyway(name, "", Needs::Nothing, [&] {
    if (!find(handle, kind))
      return 400;
    state().objects.erase(handle);
    return 0;
  });
}

std::string inside::bytesText(size_t bytes) {
  return std::to_string(bytes) + " bytes";
}

//===----------------------------------------------------------------------===//
// For tests
//===----------------------------------------------------------------------===//

CudaDriver recording::driver() {
  CudaDriver table;
#define MPC_ENTRY(name) table.name = inside::name
  MPC_ENTRY(init);
  MPC_ENTRY(deviceGetCount);
  MPC_ENTRY(deviceGet);
  MPC_ENTRY(deviceGetName);
  MPC_ENTRY(deviceGetAttribute);
  MPC_ENTRY(deviceTotalMem);
  MPC_ENTRY(getErrorName);
  MPC_ENTRY(getErrorString);
  MPC_ENTRY(driverGetVersion);
  MPC_ENTRY(devicePrimaryCtxRetain);
  MPC_ENTRY(devicePrimaryCtxRelease);
  MPC_ENTRY(ctxPushCurrent);
  MPC_ENTRY(ctxPopCurrent);
  MPC_ENTRY(moduleLoadData);
  MPC_ENTRY(moduleUnload);
  MPC_ENTRY(moduleGetFunction);
  MPC_ENTRY(funcSetAttribute);
  MPC_ENTRY(memAlloc);
  MPC_ENTRY(memFree);
  MPC_ENTRY(memPoolCreate);
  MPC_ENTRY(memPoolDestroy);
  MPC_ENTRY(memPoolSetAttribute);
  MPC_ENTRY(memAllocFromPoolAsync);
  MPC_ENTRY(memFreeAsync);
  MPC_ENTRY(memHostAlloc);
  MPC_ENTRY(memFreeHost);
  MPC_ENTRY(memcpyHtoDAsync);
  MPC_ENTRY(memcpyDtoHAsync);
  MPC_ENTRY(memcpyDtoDAsync);
  MPC_ENTRY(memsetD8Async);
  MPC_ENTRY(streamCreate);
  MPC_ENTRY(streamDestroy);
  MPC_ENTRY(streamSynchronize);
  MPC_ENTRY(streamQuery);
  MPC_ENTRY(streamWaitEvent);
  MPC_ENTRY(streamAddCallback);
  MPC_ENTRY(streamIsCapturing);
  MPC_ENTRY(streamBeginCapture);
  MPC_ENTRY(streamEndCapture);
  MPC_ENTRY(eventCreate);
  MPC_ENTRY(eventDestroy);
  MPC_ENTRY(eventRecord);
  MPC_ENTRY(eventRecordWithFlags);
  MPC_ENTRY(eventQuery);
  MPC_ENTRY(eventSynchronize);
  MPC_ENTRY(eventElapsedTime);
  MPC_ENTRY(graphDestroy);
  MPC_ENTRY(graphInstantiate);
  MPC_ENTRY(graphExecUpdate);
  MPC_ENTRY(graphExecDestroy);
  MPC_ENTRY(graphLaunch);
  MPC_ENTRY(launchKernel);
  MPC_ENTRY(launchKernelEx);
  MPC_ENTRY(launchCooperativeKernel);
  MPC_ENTRY(occupancyMaxActiveBlocks);
#undef MPC_ENTRY
  return table;
}

void *recording::entryPoint(const std::string &name) {
  CudaDriver table = driver();
  void *found = nullptr;
  visitEntryPoints(table, [&](const char *entry, auto &function) {
    if (name == entry)
      found = reinterpret_cast<void *>(function);
  });
  return found;
}

void recording::restart(const Machine &machine) {
  State &all = state();
  std::lock_guard<std::recursive_mutex> lock(all.mutex);
  finishWork();
  for (const auto &[address, bytes] : all.memory)
    std::free(at(address));
  for (const auto &[memory, bytes] : all.pinned)
    std::free(memory);
  all.machine = machine;
  all.calls.clear();
  all.runs.clear();
  all.complaints.clear();
  all.observer = nullptr;
  all.callNumber = 0;
  all.stickyError = 0;
  all.objects.clear();
  all.memory.clear();
  all.pooled.clear();
  all.poolBytes = 0;
  all.pinned.clear();
  all.retained.clear();
  all.queues.clear();
  contexts.clear();
  captures = 0;
}

Machine &recording::machine() { return state().machine; }

std::vector<Call> recording::calls() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().calls;
}

long recording::count(const std::string &name) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  long found = 0;
  for (const Call &made : state().calls)
    found += made.name == name;
  return found;
}

void recording::forgetCalls() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().calls.clear();
  state().callNumber = 0;
}

void recording::onCall(std::function<void(const Call &)> observer) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().observer = std::move(observer);
}

void recording::enqueueWork(void *stream, const std::string &name,
                            std::function<void()> work) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().calls.push_back({"work", name});
  (void)enqueue(stream, name, std::move(work));
}

void recording::finishWork() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  drainAll();
}

std::vector<KernelRun> recording::kernelRuns() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().runs;
}

std::vector<std::string> recording::alive() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  finishWork();
  std::vector<std::string> found;
  for (const auto &[handle, object] : state().objects)
    // Functions go with their module, whose handle is what must be ended.
    if (object.kind != "function")
      found.push_back(object.kind);
  for (const auto &[address, bytes] : state().memory)
    found.push_back("memory of " + bytesText(bytes));
  for (const auto &[memory, bytes] : state().pinned)
    found.push_back("host memory of " + bytesText(bytes));
  for (const auto &[device, times] : state().retained)
    if (times)
      found.push_back("context");
  return found;
}

size_t recording::poolBytes() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().poolBytes;
}

std::vector<std::string> recording::complaints() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().complaints;
}

size_t recording::contextDepth() { return contexts.size(); }
