//===- Gpu.cpp - Kernel execution on the first GPU ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gpu.h"

#include <dlfcn.h>

using namespace mpc;

template <typename Function>
bool Gpu::find(Handle library, Function &function, const char *symbol) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function;
}

Status Gpu::check(int code, const char *call) const {
  if (code == 0)
    return {};
  return Status(StatusCode::Internal, call,
                "fails with error " + std::to_string(code));
}

static void *openFirst(std::initializer_list<const char *> names) {
  for (const char *name : names)
    if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL))
      return library;
  return nullptr;
}

Result<Gpu> Gpu::open() {
  Gpu gpu;
  Handle driver = openFirst({"libcuda.so.1"});
  Handle nvrtc = openFirst({"libnvrtc.so.13", "libnvrtc.so.12",
                            "/usr/local/cuda/lib64/libnvrtc.so"});
  if (!driver || !nvrtc)
    return Status(StatusCode::Unavailable,
                  driver ? "libnvrtc.so.13" : "libcuda.so.1",
                  "the library is not installed");
  bool complete =
      gpu.find(driver, gpu.init, "cuInit") &&
      gpu.find(driver, gpu.deviceGet, "cuDeviceGet") &&
      gpu.find(driver, gpu.deviceAttribute, "cuDeviceGetAttribute") &&
      gpu.find(driver, gpu.contextRetain, "cuDevicePrimaryCtxRetain") &&
      gpu.find(driver, gpu.contextSet, "cuCtxSetCurrent") &&
      gpu.find(driver, gpu.moduleLoad, "cuModuleLoadData") &&
      gpu.find(driver, gpu.moduleFunction, "cuModuleGetFunction") &&
      gpu.find(driver, gpu.allocate, "cuMemAlloc_v2") &&
      gpu.find(driver, gpu.release, "cuMemFree_v2") &&
      gpu.find(driver, gpu.toDevice, "cuMemcpyHtoD_v2") &&
      gpu.find(driver, gpu.toHost, "cuMemcpyDtoH_v2") &&
      gpu.find(driver, gpu.launchKernel, "cuLaunchKernel") &&
      gpu.find(driver, gpu.synchronize, "cuCtxSynchronize") &&
      gpu.find(nvrtc, gpu.createProgram, "nvrtcCreateProgram") &&
      gpu.find(nvrtc, gpu.compileProgram, "nvrtcCompileProgram") &&
      gpu.find(nvrtc, gpu.logSize, "nvrtcGetProgramLogSize") &&
      gpu.find(nvrtc, gpu.log, "nvrtcGetProgramLog") &&
      gpu.find(nvrtc, gpu.cubinSize, "nvrtcGetCUBINSize") &&
      gpu.find(nvrtc, gpu.cubin, "nvrtcGetCUBIN") &&
      gpu.find(nvrtc, gpu.destroyProgram, "nvrtcDestroyProgram");
  if (!complete)
    return Status(StatusCode::Unavailable, "libcuda.so.1",
                  "the driver or NVRTC lacks a function");
  int device = 0, major = 0, minor = 0;
  if (gpu.init(0) != 0 || gpu.deviceGet(&device, 0) != 0)
    return Status(StatusCode::Unavailable, "libcuda.so.1",
                  "the driver finds no GPU");
  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
  gpu.deviceAttribute(&major, 75, device);
  gpu.deviceAttribute(&minor, 76, device);
  // From 9.0 on, some instructions need the suffix.
  gpu.name = "sm_" + std::to_string(major) + std::to_string(minor) +
             (major >= 9 ? "a" : "");
  Handle context = nullptr;
  if (Status status = gpu.check(gpu.contextRetain(&context, device),
                                "cuDevicePrimaryCtxRetain");
      !status.ok())
    return status;
  if (Status status = gpu.check(gpu.contextSet(context), "cuCtxSetCurrent");
      !status.ok())
    return status;
  return gpu;
}

Status Gpu::load(const std::string &text) {
  std::string source =
      preludeText(PreludeSide::Device) + "#line 1 \"kernel.cu\"\n" + text;
  Handle program = nullptr;
  if (Status status = check(createProgram(&program, source.c_str(), "kernel.cu",
                                          0, nullptr, nullptr),
                            "nvrtcCreateProgram");
      !status.ok())
    return status;
  std::string target = "--gpu-architecture=" + name;
  const char *options[] = {target.c_str(), "--fmad=false", "--std=c++17"};
  Status status =
      check(compileProgram(program, 3, options), "nvrtcCompileProgram");
  size_t size = 0;
  if (!status.ok()) {
    logSize(program, &size);
    std::string messages(size, '\0');
    log(program, messages.data());
    destroyProgram(&program);
    return status.withNote(messages);
  }
  cubinSize(program, &size);
  std::string code(size, '\0');
  cubin(program, code.data());
  destroyProgram(&program);
  return check(moduleLoad(&module, code.data()), "cuModuleLoadData");
}

Status Gpu::launch(const std::string &kernel, const HostLaunch &launch,
                   const std::vector<HostArgument> &arguments) {
  Handle function = nullptr;
  Status status = check(moduleFunction(&function, module, kernel.c_str()),
                        "cuModuleGetFunction");
  std::vector<Address> arrays(arguments.size());
  std::vector<void *> values(arguments.size());
  for (size_t i = 0; i < arguments.size() && status.ok(); ++i) {
    const HostArgument &argument = arguments[i];
    values[i] = argument.data;
    if (argument.kind == HostArgument::Kind::Scalar)
      continue;
    values[i] = &arrays[i];
    status = check(allocate(&arrays[i], argument.bytes + 16), "cuMemAlloc");
    if (status.ok())
      status = check(toDevice(arrays[i], argument.data, argument.bytes),
                     "cuMemcpyHtoD");
  }
  auto size = [](int extent) { return static_cast<unsigned>(extent); };
  if (status.ok())
    status =
        check(launchKernel(function, size(launch.grid[0]), size(launch.grid[1]),
                           size(launch.grid[2]), size(launch.block[0]),
                           size(launch.block[1]), size(launch.block[2]),
                           static_cast<unsigned>(launch.dynamicSharedBytes),
                           nullptr, values.data(), nullptr),
              "cuLaunchKernel");
  if (status.ok())
    status = check(synchronize(), "cuCtxSynchronize");
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arrays[i])
      continue;
    if (status.ok() && arguments[i].kind != HostArgument::Kind::Input)
      status = check(toHost(arguments[i].data, arrays[i], arguments[i].bytes),
                     "cuMemcpyDtoH");
    release(arrays[i]);
  }
  return status;
}
