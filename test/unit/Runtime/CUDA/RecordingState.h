//===- RecordingState.h - state of the recording driver ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// State that is shared by the files of the recording driver.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_RUNTIME_CUDA_RECORDINGSTATE_H
#define MPC_TEST_UNIT_RUNTIME_CUDA_RECORDINGSTATE_H

#include "RecordingDriver.h"

#include <deque>
#include <memory>
#include <mutex>
#include <set>

namespace mpc::recording::inside {

using namespace mpc::detail;

struct Queue;
struct Graph;

/// A place in a queue that somebody may wait for.
struct Marker {
  bool done = false;
  /// By the GPU's clock, once it is done.
  float milliseconds = 0;
  std::shared_ptr<Queue> queue;
  /// For an event recorded during capture: the graph, and its node there.
  std::shared_ptr<Graph> graph;
  size_t node = 0;
};

/// One piece of enqueued work.
struct Work {
  std::function<void()> run;
  /// Must be done before; may be null.
  std::shared_ptr<Marker> after;
};

struct Function {
  std::string name;
  int parameters = 0;
};

/// Nodes of one lane follow each other, as those of the stream that it was.
struct Node {
  std::string kernel;
  std::function<void()> run;
  size_t lane = 0;
  /// The node of another lane that must be done before; -1: none.
  long after = -1;
};

struct Graph {
  std::vector<Node> nodes;
  size_t lanes = 1;
  /// Whether its capture is over.
  bool isMade = false;
};

struct Queue {
  std::deque<Work> work;
  std::shared_ptr<Graph> capture;
  /// Lane of this queue's nodes in `capture`.
  size_t lane = 0;
};

/// Any object that a handle refers to.
struct Object {
  std::string kind;
  std::shared_ptr<Queue> queue;
  std::shared_ptr<Marker> marker;
  std::shared_ptr<Graph> graph;
  std::vector<Function> functions;
  Function function;
  /// Module of a function.
  CuHandle module = nullptr;
};

struct State {
  std::recursive_mutex mutex;
  Machine machine;
  std::vector<Call> calls;
  std::vector<KernelRun> runs;
  std::vector<std::string> complaints;
  std::function<void(const Call &)> observer;
  long callNumber = 0;
  int stickyError = 0;
  /// Advances with every kernel and every event in a graph.
  float milliseconds = 0;
  uintptr_t nextHandle = 0;
  std::map<CuHandle, Object> objects;
  std::map<CuAddress, size_t> memory;
  /// Free bytes in the pools by stream, and the total size of all pools.
  std::multimap<CuHandle, size_t> pooled;
  size_t poolBytes = 0;
  std::map<void *, size_t> pinned;
  std::map<int, int> retained;
  /// Every queue with work, those whose stream is destroyed among them.
  std::set<std::shared_ptr<Queue>> queues;
  std::shared_ptr<Queue> defaultQueue = std::make_shared<Queue>();
};

/// The singleton state, which is never destroyed: handles may be released while
/// the process exits.
State &state();

/// Contexts that this thread has pushed, and captures that it has begun.
extern thread_local std::vector<CuHandle> contexts;
extern thread_local int captures;

void complain(std::string text);
/// A handle for a new object.
CuHandle add(Object object);
/// The object of that kind, or null and a complaint.
Object *find(CuHandle handle, const char *kind);
/// The queue of a stream; null is the default stream's handle.
std::shared_ptr<Queue> queueOf(CuHandle stream);
/// Does the work of `queue` up to `until`, or all of it.
void drain(const std::shared_ptr<Queue> &queue,
           const std::shared_ptr<Marker> &until = nullptr);
void drainAll();
/// Enqueues work, or adds it as a node if the stream is being captured.
CuResult enqueue(CuHandle stream, const std::string &kernel,
                 std::function<void()> run);
/// Complains where `[address, address + bytes)` is not live memory.
void requireMemory(CuAddress address, size_t bytes, const std::string &who);
void *at(CuAddress address);
std::string bytesText(size_t bytes);

enum class Needs { Nothing, Context, ContextOutsideOfCapture };

/// Records a call; returns the error with which it has to fail.
CuResult record(const char *name, std::string detail, Needs needs);

/// A call that has no effect where it fails.
template <typename Body>
CuResult call(const char *name, std::string detail, Needs needs, Body body) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  if (CuResult error = record(name, std::move(detail), needs))
    return error;
  if (needs != Needs::Nothing && state().stickyError)
    return state().stickyError;
  return body();
}

/// A call that waits or releases something: it does so even if it fails, since
/// its error belongs to earlier work.
template <typename Body>
CuResult callAnyway(const char *name, std::string detail, Needs needs,
                    Body body) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  CuResult error = record(name, std::move(detail), needs);
  CuResult own = body();
  return error ? error : state().stickyError ? state().stickyError : own;
}

/// Destroys an object.
CuResult destroy(const char *name, CuHandle handle, const char *kind);

// The driver's functions (CudaDriver.h).
CuResult init(unsigned);
CuResult driverGetVersion(int *version);
CuResult deviceGetCount(int *count);
CuResult deviceGet(CuDevice *device, int ordinal);
CuResult deviceGetName(char *name, int length, CuDevice);
CuResult deviceGetAttribute(int *value, int attribute, CuDevice);
CuResult deviceTotalMem(size_t *bytes, CuDevice);
CuResult getErrorName(CuResult error, const char **name);
CuResult getErrorString(CuResult error, const char **text);
CuResult devicePrimaryCtxRetain(CuHandle *context, CuDevice device);
CuResult devicePrimaryCtxRelease(CuDevice device);
CuResult ctxPushCurrent(CuHandle context);
CuResult ctxPopCurrent(CuHandle *context);
CuResult moduleLoadData(CuHandle *module, const void *image);
CuResult moduleUnload(CuHandle module);
CuResult moduleGetFunction(CuHandle *function, CuHandle module,
                           const char *name);
CuResult funcSetAttribute(CuHandle function, int attribute, int value);
CuResult memAlloc(CuAddress *address, size_t bytes);
CuResult memFree(CuAddress address);
CuResult memPoolCreate(CuHandle *pool, const CuPoolProps *);
CuResult memPoolDestroy(CuHandle pool);
CuResult memPoolSetAttribute(CuHandle pool, int, void *);
CuResult memAllocFromPoolAsync(CuAddress *address, size_t bytes, CuHandle pool,
                               CuHandle stream);
CuResult memFreeAsync(CuAddress address, CuHandle stream);
CuResult memHostAlloc(void **memory, size_t bytes, unsigned);
CuResult memFreeHost(void *memory);
CuResult memcpyHtoDAsync(CuAddress to, const void *from, size_t bytes,
                         CuHandle stream);
CuResult memcpyDtoHAsync(void *to, CuAddress from, size_t bytes,
                         CuHandle stream);
CuResult memcpyDtoDAsync(CuAddress to, CuAddress from, size_t bytes,
                         CuHandle stream);
CuResult memsetD8Async(CuAddress to, unsigned char value, size_t bytes,
                       CuHandle stream);
CuResult streamCreate(CuHandle *stream, unsigned);
CuResult streamDestroy(CuHandle stream);
CuResult streamSynchronize(CuHandle stream);
CuResult streamQuery(CuHandle stream);
CuResult streamWaitEvent(CuHandle stream, CuHandle event, unsigned);
CuResult streamAddCallback(CuHandle stream, CuCallback callback, void *data,
                           unsigned);
CuResult streamIsCapturing(CuHandle stream, int *status);
CuResult streamBeginCapture(CuHandle stream, int);
CuResult streamEndCapture(CuHandle stream, CuHandle *graph);
CuResult eventCreate(CuHandle *event, unsigned);
CuResult eventDestroy(CuHandle event);
CuResult eventRecord(CuHandle event, CuHandle stream);
CuResult eventRecordWithFlags(CuHandle event, CuHandle stream, unsigned flags);
CuResult eventQuery(CuHandle event);
CuResult eventSynchronize(CuHandle event);
CuResult eventElapsedTime(float *milliseconds, CuHandle start, CuHandle end);
CuResult graphDestroy(CuHandle graph);
CuResult graphInstantiate(CuHandle *exec, CuHandle graph, unsigned long long);
CuResult graphExecUpdate(CuHandle exec, CuHandle graph,
                         CuGraphUpdateResult *result);
CuResult graphExecDestroy(CuHandle exec);
CuResult graphLaunch(CuHandle exec, CuHandle stream);
CuResult launchKernel(CuHandle function, unsigned gridX, unsigned gridY,
                      unsigned gridZ, unsigned blockX, unsigned blockY,
                      unsigned blockZ, unsigned sharedBytes, CuHandle stream,
                      void **parameters, void **);
CuResult launchKernelEx(const CuLaunchConfig *config, CuHandle function,
                        void **parameters, void **);
CuResult launchCooperativeKernel(CuHandle function, unsigned gridX,
                                 unsigned gridY, unsigned gridZ,
                                 unsigned blockX, unsigned blockY,
                                 unsigned blockZ, unsigned sharedBytes,
                                 CuHandle stream, void **parameters);
CuResult occupancyMaxActiveBlocks(int *blocks, CuHandle function, int threads,
                                  size_t sharedBytes);

} // namespace mpc::recording::inside

#endif // MPC_TEST_UNIT_RUNTIME_CUDA_RECORDINGSTATE_H
