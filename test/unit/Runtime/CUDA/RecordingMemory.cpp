//===- RecordingMemory.cpp - devices, code and memory of a recorded GPU ---===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecordedCode.h"
#include "RecordingState.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

using namespace mpc;
using namespace mpc::detail;
using namespace mpc::recording;
using namespace mpc::recording::inside;

//===----------------------------------------------------------------------===//
// Devices and contexts
//===----------------------------------------------------------------------===//

static CuHandle contextOf(int device) {
  return std::bit_cast<CuHandle>(uintptr_t(0xC0 + device));
}

CuResult inside::init(unsigned) {
  return call("cuInit", "", Needs::Nothing, [] { return 0; });
}

CuResult inside::driverGetVersion(int *version) {
  return call("cuDriverGetVersion", "", Needs::Nothing, [&] {
    *version = state().machine.version;
    return 0;
  });
}

CuResult inside::deviceGetCount(int *count) {
  return call("cuDeviceGetCount", "", Needs::Nothing, [&] {
    *count = state().machine.gpus;
    return 0;
  });
}

CuResult inside::deviceGet(CuDevice *device, int ordinal) {
  return call("cuDeviceGet", "", Needs::Nothing, [&] {
    *device = ordinal;
    return ordinal < state().machine.gpus ? 0 : int(kCuInvalidDevice);
  });
}

CuResult inside::deviceGetName(char *name, int length, CuDevice) {
  return call("cuDeviceGetName", "", Needs::Nothing, [&] {
    std::strncpy(name, "Recording GPU", size_t(length));
    return 0;
  });
}

CuResult inside::deviceGetAttribute(int *value, int attribute, CuDevice) {
  return call("cuDeviceGetAttribute", std::to_string(attribute), Needs::Nothing,
              [&] {
                const Machine &machine = state().machine;
                std::map<int, int> values = {
                    {kCuMaxThreadsPerBlock, 1024},
                    {kCuMaxGridX, INT32_MAX},
                    {kCuMaxGridY, 65535},
                    {kCuMaxGridZ, 65535},
                    {kCuClockRate, 1980000},
                    {kCuMultiprocessorCount, 132},
                    {kCuMemoryClockRate, 3201000},
                    {kCuMemoryBusWidth, 6144},
                    {kCuL2CacheSize, 60 << 20},
                    {kCuComputeCapabilityMajor, machine.major},
                    {kCuComputeCapabilityMinor, machine.minor},
                    {kCuMaxSharedMemoryOptin, 227 << 10},
                    {kCuMemoryPoolsSupported, machine.memoryPools}};
                auto found = values.find(attribute);
                *value = found == values.end() ? 0 : found->second;
                return found == values.end() ? int(kCuInvalidValue) : 0;
              });
}

CuResult inside::deviceTotalMem(size_t *bytes, CuDevice) {
  return call("cuDeviceTotalMem", "", Needs::Nothing, [&] {
    *bytes = state().machine.memoryBytes;
    return 0;
  });
}

/// Names of errors need no driver that works: not recorded, never failing.
CuResult inside::getErrorName(CuResult error, const char **name) {
  static const std::map<int, const char *> names = {
      {kCuOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kCuNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {kCuInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
      {kCuNotFound, "CUDA_ERROR_NOT_FOUND"},
      {kCuIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {kCuLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
      {kCuUnknown, "CUDA_ERROR_UNKNOWN"}};
  auto found = names.find(error);
  *name = found == names.end() ? nullptr : found->second;
  return found == names.end() ? int(kCuInvalidValue) : 0;
}

CuResult inside::getErrorString(CuResult error, const char **text) {
  *text = error == kCuOutOfMemory ? "out of memory" : nullptr;
  return *text ? 0 : int(kCuInvalidValue);
}

CuResult inside::devicePrimaryCtxRetain(CuHandle *context, CuDevice device) {
  return call("cuDevicePrimaryCtxRetain", "", Needs::Nothing, [&] {
    ++state().retained[device];
    *context = contextOf(device);
    return 0;
  });
}

CuResult inside::devicePrimaryCtxRelease(CuDevice device) {
  return callAnyway("cuDevicePrimaryCtxRelease", "", Needs::Nothing, [&] {
    if (--state().retained[device] < 0)
      complain("a context was released too often");
    return 0;
  });
}

CuResult inside::ctxPushCurrent(CuHandle context) {
  return call("cuCtxPushCurrent", "", Needs::Nothing, [&] {
    contexts.push_back(context);
    return 0;
  });
}

CuResult inside::ctxPopCurrent(CuHandle *context) {
  return callAnyway("cuCtxPopCurrent", "", Needs::Context, [&] {
    if (contexts.empty())
      return 201;
    *context = contexts.back();
    contexts.pop_back();
    return 0;
  });
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

CuResult inside::moduleLoadData(CuHandle *module, const void *image) {
  return call("cuModuleLoadData", "", Needs::ContextOutsideOfCapture, [&] {
    Object object;
    object.kind = "module";
    for (const auto &[name, parameters] : kernelsOf(image))
      object.functions.push_back({name, parameters});
    if (object.functions.empty())
      return int(kCuInvalidImage);
    *module = add(std::move(object));
    return 0;
  });
}

CuResult inside::moduleUnload(CuHandle module) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  std::erase_if(state().objects, [&](const auto &entry) {
    return entry.second.kind == "function" && entry.second.module == module;
  });
  return destroy("cuModuleUnload", module, "module");
}

CuResult inside::moduleGetFunction(CuHandle *function, CuHandle module,
                                   const char *name) {
  return call("cuModuleGetFunction", name, Needs::Context, [&] {
    Object *object = find(module, "module");
    if (!object)
      return 400;
    for (const Function &held : object->functions)
      if (held.name == name) {
        Object made;
        made.kind = "function";
        made.function = held;
        made.module = module;
        *function = add(std::move(made));
        return 0;
      }
    return int(kCuNotFound);
  });
}

CuResult inside::funcSetAttribute(CuHandle function, int attribute, int value) {
  return call("cuFuncSetAttribute",
              std::to_string(attribute) + " = " + std::to_string(value),
              Needs::Context,
              [&] { return find(function, "function") ? 0 : 400; });
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static CuResult takeMemory(CuAddress *address, size_t bytes) {
  size_t used = 0;
  for (const auto &[start, size] : state().memory)
    used += size;
  if (bytes == 0)
    return kCuInvalidValue;
  if (bytes > state().machine.memoryBytes - used)
    return kCuOutOfMemory;
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!memory)
    return kCuOutOfMemory;
  // No zeros by luck.
  std::memset(memory, 0xCD, bytes);
  *address = CuAddress(reinterpret_cast<uintptr_t>(memory));
  state().memory[*address] = bytes;
  return 0;
}

static void giveBack(CuAddress address) {
  if (state().memory.erase(address) == 0)
    complain("memory was freed that is not there");
  else
    std::free(at(address));
}

CuResult inside::memAlloc(CuAddress *address, size_t bytes) {
  return call("cuMemAlloc", bytesText(bytes), Needs::ContextOutsideOfCapture,
              [&] { return takeMemory(address, bytes); });
}

CuResult inside::memFree(CuAddress address) {
  return callAnyway("cuMemFree", "", Needs::ContextOutsideOfCapture, [&] {
    drainAll();
    giveBack(address);
    return 0;
  });
}

CuResult inside::memPoolCreate(CuHandle *pool, const CuPoolProps *) {
  return call("cuMemPoolCreate", "", Needs::Nothing, [&] {
    Object object;
    object.kind = "pool";
    *pool = add(std::move(object));
    return 0;
  });
}

CuResult inside::memPoolDestroy(CuHandle pool) {
  return destroy("cuMemPoolDestroy", pool, "pool");
}

CuResult inside::memPoolSetAttribute(CuHandle pool, int, void *) {
  return call("cuMemPoolSetAttribute", "", Needs::Nothing,
              [&] { return find(pool, "pool") ? 0 : 400; });
}

/// The same piece again where `stream` gave back one of that size; all pools
/// count as one.
static void takeFromPool(CuHandle stream, size_t bytes) {
  auto [begin, end] = state().pooled.equal_range(stream);
  auto found = std::find_if(
      begin, end, [&](const auto &piece) { return piece.second == bytes; });
  if (found != end)
    state().pooled.erase(found);
  else
    state().poolBytes += bytes;
}

CuResult inside::memAllocFromPoolAsync(CuAddress *address, size_t bytes,
                                       CuHandle pool, CuHandle stream) {
  return call("cuMemAllocFromPoolAsync", bytesText(bytes),
              Needs::ContextOutsideOfCapture, [&] {
                if (!find(pool, "pool") || !queueOf(stream))
                  return 400;
                if (CuResult error = takeMemory(address, bytes))
                  return error;
                takeFromPool(stream, bytes);
                return 0;
              });
}

CuResult inside::memFreeAsync(CuAddress address, CuHandle stream) {
  return callAnyway("cuMemFreeAsync", "", Needs::ContextOutsideOfCapture, [&] {
    if (auto found = state().memory.find(address);
        found != state().memory.end())
      state().pooled.emplace(stream, found->second);
    return enqueue(stream, "", [address] { giveBack(address); });
  });
}

CuResult inside::memHostAlloc(void **memory, size_t bytes, unsigned) {
  return call("cuMemHostAlloc", bytesText(bytes),
              Needs::ContextOutsideOfCapture, [&] {
                *memory = std::malloc(bytes);
                state().pinned[*memory] = bytes;
                return 0;
              });
}

CuResult inside::memFreeHost(void *memory) {
  return callAnyway("cuMemFreeHost", "", Needs::ContextOutsideOfCapture, [&] {
    drainAll();
    if (state().pinned.erase(memory) == 0)
      complain("host memory was freed that is not there");
    else
      std::free(memory);
    return 0;
  });
}

CuResult inside::memcpyHtoDAsync(CuAddress to, const void *from, size_t bytes,
                                 CuHandle stream) {
  return call("cuMemcpyHtoDAsync", bytesText(bytes), Needs::Context, [&] {
    return enqueue(stream, "copy", [=] {
      requireMemory(to, bytes, "cuMemcpyHtoDAsync");
      std::memcpy(at(to), from, bytes);
    });
  });
}

CuResult inside::memcpyDtoHAsync(void *to, CuAddress from, size_t bytes,
                                 CuHandle stream) {
  return call("cuMemcpyDtoHAsync", bytesText(bytes), Needs::Context, [&] {
    return enqueue(stream, "copy", [=] {
      requireMemory(from, bytes, "cuMemcpyDtoHAsync");
      std::memcpy(to, at(from), bytes);
    });
  });
}

CuResult inside::memcpyDtoDAsync(CuAddress to, CuAddress from, size_t bytes,
                                 CuHandle stream) {
  return call("cuMemcpyDtoDAsync", bytesText(bytes), Needs::Context, [&] {
    return enqueue(stream, "copy", [=] {
      requireMemory(from, bytes, "cuMemcpyDtoDAsync");
      requireMemory(to, bytes, "cuMemcpyDtoDAsync");
      std::memmove(at(to), at(from), bytes);
    });
  });
}

CuResult inside::memsetD8Async(CuAddress to, unsigned char value, size_t bytes,
                               CuHandle stream) {
  return call("cuMemsetD8Async", bytesText(bytes), Needs::Context, [&] {
    return enqueue(stream, "fill", [=] {
      requireMemory(to, bytes, "cuMemsetD8Async");
      std::memset(at(to), value, bytes);
    });
  });
}
