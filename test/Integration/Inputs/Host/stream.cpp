//===- stream.cpp - a program with CUDA of its own ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a model between its own work, on its own stream and device memory.
// usage: stream MODEL
//
//===----------------------------------------------------------------------===//

#include <mpc/JIT/Engine.h>

#include <cuda.h>

#include <atomic>
#include <cstdio>

static int fail(const mpc::Status &status) {
  std::fprintf(stderr, "stream: %s\n", status.toString().c_str());
  return 1;
}

/// Exits the program if a call of the CUDA driver fails.
static void must(CUresult result) {
  if (result == CUDA_SUCCESS)
    return;
  std::fprintf(stderr, "stream: CUDA error %d\n", int(result));
  std::_Exit(1);
}

/// Device memory for each value, of this program's own.
static std::vector<CUdeviceptr>
allocate(const std::vector<mpc::ProgramValue> &values) {
  std::vector<CUdeviceptr> memory;
  for (const mpc::ProgramValue &value : values) {
    memory.emplace_back();
    must(cuMemAlloc(&memory.back(), size_t(*value.type.byteCount())));
  }
  return memory;
}

/// The model's view of that memory.
static mpc::Result<std::vector<mpc::Buffer>>
wrap(const mpc::Device &device, const std::vector<mpc::ProgramValue> &values,
     const std::vector<CUdeviceptr> &memory) {
  std::vector<mpc::Buffer> buffers;
  for (size_t i = 0; i < values.size(); ++i) {
    mpc::Result<mpc::Buffer> buffer = mpc::Buffer::fromDevice(
        device, values[i].type, memory[i], size_t(*values[i].type.byteCount()));
    if (!buffer.ok())
      return buffer.status();
    buffers.push_back(*buffer);
  }
  return buffers;
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  // CUDA objects of this program: the primary context and a stream.
  CUdevice gpu;
  CUcontext context;
  CUstream stream;
  must(cuInit(0));
  must(cuDeviceGet(&gpu, 0));
  must(cuDevicePrimaryCtxRetain(&context, gpu));
  must(cuCtxPushCurrent(context));
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  mpc::Result<mpc::Device> device = mpc::Device::cuda({.ordinal = 0});
  if (!device.ok())
    return fail(device.status());
  mpc::Result<mpc::Engine> engine = mpc::Engine::create(*device);
  if (!engine.ok())
    return fail(engine.status());
  mpc::CompileOptions options;
  options.policy = "mixed_bfloat16";
  mpc::Result<mpc::Executable> model = engine->compile(argv[1], options);
  if (!model.ok())
    return fail(model.status());

  const mpc::Program &program = model->program();
  std::vector<CUdeviceptr> inputMemory = allocate(program.arguments);
  std::vector<CUdeviceptr> outputMemory = allocate(program.results);
  std::vector<float> result(size_t(*program.results[0].type.elementCount()));
  {
    mpc::Result<mpc::Stream> queue = mpc::Stream::fromHandle(*device, stream);
    if (!queue.ok())
      return fail(queue.status());
    mpc::Result<std::vector<mpc::Buffer>> inputs =
        wrap(*device, program.arguments, inputMemory);
    if (!inputs.ok())
      return fail(inputs.status());
    mpc::Result<std::vector<mpc::Buffer>> outputs =
        wrap(*device, program.results, outputMemory);
    if (!outputs.ok())
      return fail(outputs.status());

    // Nothing here waits: the GPU works on the first run while the last is
    // enqueued.
    std::atomic<int> done = 0;
    for (int i = 0; i < 5; ++i)
      if (mpc::Status status = model->runAsync(
              *inputs, *outputs, *queue,
              [&](const mpc::Status &outcome) { done += outcome.ok(); });
          !status.ok())
        return fail(status);
    must(cuMemcpyDtoHAsync(result.data(), outputMemory[0],
                           result.size() * sizeof(float), stream));
    must(cuStreamSynchronize(stream));
    std::printf("%d runs of %zu launches, %zu numbers\n", done.load(),
                program.launches.size(), result.size());
  }
  for (const auto *memory : {&inputMemory, &outputMemory})
    for (CUdeviceptr pointer : *memory)
      must(cuMemFree(pointer));
  must(cuStreamDestroy(stream));
  must(cuCtxPopCurrent(&context));
  must(cuDevicePrimaryCtxRelease(gpu));
  return 0;
}
