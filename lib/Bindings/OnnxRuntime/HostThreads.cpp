//===- HostThreads.cpp - ONNX Runtime's threads ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostThreads.h"

#include <utility>

using namespace mpc;
using namespace mpc::ort;

static thread_local OrtKernelContext *current = nullptr;

RunningNode::RunningNode(OrtKernelContext *context)
    : outer(std::exchange(current, context)) {}

RunningNode::~RunningNode() { current = outer; }

namespace {

struct Tasks {
  void (*task)(void *context, int64_t index);
  void *context;
};

} // namespace

ParallelFor mpc::ort::hostThreads(const HostApi &api) {
  return [&api](int64_t count, void (*task)(void *context, int64_t index),
                void *context) {
    Tasks tasks = {task, context};
    auto execute = [](void *all, size_t index) {
      auto *tasks = static_cast<Tasks *>(all);
      tasks->task(tasks->context, int64_t(index));
    };
    // Fails before the first task only.
    if (current && api.take(api(api::parallelFor)(current, execute,
                                                  size_t(count), 0, &tasks))
                       .ok())
      return;
    for (int64_t index = 0; index < count; ++index)
      task(context, index);
  };
}
