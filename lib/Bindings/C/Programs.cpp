//===- Programs.cpp - C API: devices, compiled files, runs ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of the C API that needs no compiler.
//
//===----------------------------------------------------------------------===//

#include "Handles.h"

#include "mpc/Runtime/ExecutableFile.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>

using namespace mpc;
using namespace mpc::c;

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

static Result<Device> openDevice(const mpc_device_options &options) {
  std::string_view name = options.name ? options.name : "cpu";
  if (options.threads < 0)
    return invalid("mpc_device_options.threads",
                   "is " + std::to_string(options.threads) +
                       "; give a number of threads, or 0 for all cores");
  if (options.flags & ~MPC_CHECK_LAUNCHES)
    return invalid("mpc_device_options.flags",
                   "has a flag that does not exist");
  if (name == "cpu")
    return Device::cpu({.threads = options.threads});
  if (name == "null")
    return Device::null();
  constexpr std::string_view kCuda = "cuda", kNumbered = "cuda:";
  CudaDeviceOptions cuda;
  cuda.checkLaunches = options.flags & MPC_CHECK_LAUNCHES;
  cuda.compileThreads = options.threads;
  std::string_view number =
      name.starts_with(kNumbered) ? name.substr(kNumbered.size()) : "0";
  auto [end, error] = std::from_chars(
      number.data(), number.data() + number.size(), cuda.ordinal);
  bool isNumber = error == std::errc() &&
                  end == number.data() + number.size() && cuda.ordinal >= 0;
  if (isNumber && (name == kCuda || name.starts_with(kNumbered)))
    return Device::cuda(cuda);
  return invalid("mpc_device_options.name",
                 "is '" + std::string(name) +
                     "'; devices are \"cpu\", \"cuda\", \"cuda:N\", \"null\"");
}

mpc_status mpc_device_create(const mpc_device_options *options,
                             mpc_device **device) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("device", device));
    mpc_device_options own;
    MPC_RETURN_IF_FAILED(readStruct("mpc_device_options", options, own));
    EngineLimits limits;
    if (own.max_specializations < 0 || own.max_specialization_bytes < 0)
      return invalid("mpc_device_options", "has a negative limit of the cache");
    if (own.max_specializations)
      limits.specialisations = own.max_specializations;
    if (own.max_specialization_bytes)
      limits.bytes = own.max_specialization_bytes;
    Result<Device> opened = openDevice(own);
    if (!opened.ok())
      return opened.status();
    std::optional<Engine> engine;
    MPC_RETURN_IF_FAILED(createEngine(*opened, limits, engine));
    return give(device, std::move(*opened), std::move(engine));
  });
}

void mpc_device_destroy(mpc_device *device) { destroy(device); }

//===----------------------------------------------------------------------===//
// Compiled files
//===----------------------------------------------------------------------===//

static Status load(const mpc_device *device, Result<ExecutableFile> file,
                   const mpc_load_options *options, mpc_program **program) {
  MPC_RETURN_IF_FAILED(file.status());
  mpc_load_options own;
  MPC_RETURN_IF_FAILED(readStruct("mpc_load_options", options, own));
  MPC_RETURN_IF_FAILED(
      checkReserved("mpc_load_options.reserved", own.reserved));
  LoadOptions load;
  load.trusted = own.trusted != 0;
  load.isa = textOr(own.isa, "");
  load.maxMemory = own.max_memory;
  if (own.max_memory < 0)
    return invalid("mpc_load_options.max_memory", "is negative");
  ExecutableFile::Shapes shapes;
  MPC_RETURN_IF_FAILED(readExtents("mpc_load_options.shapes", own.shapes,
                                   own.shape_count, shapes));
  if (!shapes.empty()) {
    Result<ExecutableFile> chosen = file->forShapes(shapes);
    MPC_RETURN_IF_FAILED(chosen.status());
    *file = std::move(*chosen);
  }
  Result<Executable> loaded = file->load(device->device, load);
  if (!loaded.ok() && !load.trusted && device->device.needsCode())
    return loaded.status().withNote(
        "mpc_load_options.trusted = 1 allows the file's code to run");
  MPC_RETURN_IF_FAILED(loaded.status());
  return mpc_program::create(std::move(*loaded), program, file->policy(),
                             file->compiler());
}

mpc_status mpc_load(const mpc_device *device, const char *path,
                    const mpc_load_options *options, mpc_program **program) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("program", program));
    MPC_RETURN_IF_FAILED(check("device", device));
    MPC_RETURN_IF_FAILED(checkPointer("path", path));
    return load(device, ExecutableFile::open(path), options, program);
  });
}

mpc_status mpc_load_bytes(const mpc_device *device, const char *name,
                          const void *data, size_t bytes,
                          const mpc_load_options *options,
                          mpc_program **program) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(clear("program", program));
    MPC_RETURN_IF_FAILED(check("device", device));
    std::span<const std::byte> span;
    MPC_RETURN_IF_FAILED(
        readArray("data", static_cast<const std::byte *>(data), bytes, span));
    return load(device, ExecutableFile::fromBytes(span, textOr(name, "memory")),
                options, program);
  });
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

Status mpc_program::create(Executable executable, mpc_program **program,
                           std::string policy, std::string compiler) {
  std::vector<std::array<std::string, 3>> types;
  for (const LayerTypes &layer : executable.program().layers)
    types.push_back(
        {layer.computeType(), layer.storageType(), layer.variableType()});
  return give(program, std::move(executable), std::move(policy),
              std::move(compiler), std::move(types));
}

mpc_status mpc_program_describe(const mpc_program *program,
                                mpc_program_info *info) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("program", program));
    const Program &described = program->executable.program();
    mpc_program_info own = {};
    own.name = described.name.c_str();
    own.target = described.target.c_str();
    own.policy = program->policy.c_str();
    own.compiler = program->compiler.c_str();
    own.input_count = described.arguments.size();
    own.output_count = described.results.size();
    own.layer_count = described.layers.size();
    own.launch_count = described.launches.size();
    own.constant_bytes = described.constantBytes();
    own.arena_bytes = described.arenaBytes;
    own.needed_bytes = described.neededBytes();
    own.flops = described.flops();
    return writeStruct("mpc_program_info", info, own);
  });
}

/// Describes one of the arguments or results that `values` returns.
static mpc_status describeValue(const mpc_program *program, const char *what,
                                std::vector<ProgramValue> Program::*values,
                                size_t index, mpc_value_info *info) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("program", program));
    const auto &list = program->executable.program().*values;
    MPC_RETURN_IF_FAILED(checkIndex(what, index, list.size()));
    return writeStruct("mpc_value_info", info, describe(list[index]));
  });
}

mpc_status mpc_program_input(const mpc_program *program, size_t index,
                             mpc_value_info *info) {
  return describeValue(program, "inputs", &Program::arguments, index, info);
}

mpc_status mpc_program_output(const mpc_program *program, size_t index,
                              mpc_value_info *info) {
  return describeValue(program, "outputs", &Program::results, index, info);
}

mpc_status mpc_program_layer(const mpc_program *program, size_t index,
                             mpc_layer_info *info) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("program", program));
    const std::vector<LayerTypes> &layers =
        program->executable.program().layers;
    MPC_RETURN_IF_FAILED(checkIndex("layers", index, layers.size()));
    const auto &[compute, storage, variable] = program->layerTypes[index];
    return writeStruct("mpc_layer_info", info,
                       {0, layers[index].path.c_str(),
                        layers[index].policy.c_str(), compute.c_str(),
                        storage.c_str(), variable.c_str()});
  });
}

void mpc_program_destroy(mpc_program *program) { destroy(program); }

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// Borrows the caller's memory for all of `values`. A result that replaces an
/// argument may be null.
static Status borrowAll(const char *what,
                        const std::vector<ProgramValue> &values,
                        std::span<const mpc_buffer> given,
                        std::vector<Buffer> &buffers) {
  if (given.size() != values.size())
    return invalid(std::string(what) + "s",
                   "the program has " + std::to_string(values.size()) +
                       ", but " + std::to_string(given.size()) + " were given");
  buffers.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].alias >= 0 && !given[i].data)
      continue;
    Result<Buffer> buffer = borrow(values[i].type, given[i]);
    if (!buffer.ok())
      return Status(buffer.status().code(),
                    std::string(what) + " '" + values[i].name + "'",
                    buffer.status().text());
    buffers[i] = std::move(*buffer);
  }
  return {};
}

/// Fails if an output overlaps another output or an input. Outputs that replace
/// inputs are those inputs.
static Status checkOverlap(const Program &program,
                           std::span<const Buffer> arguments,
                           std::span<const Buffer> results) {
  // Start, end, is it written, index.
  std::vector<std::tuple<uintptr_t, uintptr_t, bool, size_t>> ranges;
  ranges.reserve(arguments.size() + results.size());
  auto add = [&](std::span<const Buffer> buffers, bool written, size_t i) {
    if (buffers[i] && buffers[i].size())
      ranges.emplace_back(buffers[i].address(),
                          buffers[i].address() + buffers[i].size(), written, i);
  };
  for (size_t i = 0; i < arguments.size(); ++i)
    add(arguments, /*written=*/false, i);
  for (size_t i = 0; i < results.size(); ++i)
    if (program.results[i].alias < 0)
      add(results, /*written=*/true, i);
  std::sort(ranges.begin(), ranges.end());
  auto nameOf = [&](bool written, size_t i) {
    return written ? "output '" + program.results[i].name + "'"
                   : "input '" + program.arguments[i].name + "'";
  };
  // The range that ends last among those so far, and among written ones.
  uintptr_t end = 0, writtenEnd = 0;
  size_t lastIndex = 0, lastWrittenIndex = 0;
  bool lastIsWritten = false;
  for (const auto &[start, stop, written, i] : ranges) {
    uintptr_t other = written ? end : writtenEnd;
    if (start < other)
      return invalid(nameOf(written, i),
                     "overlaps " +
                         (written ? nameOf(lastIsWritten, lastIndex)
                                  : nameOf(true, lastWrittenIndex)) +
                         " in memory; give outputs memory of their own");
    if (stop > end) {
      end = stop;
      lastIndex = i;
      lastIsWritten = written;
    }
    if (written && stop > writtenEnd) {
      writtenEnd = stop;
      lastWrittenIndex = i;
    }
  }
  return {};
}

mpc_status mpc_run(const mpc_program *program, const mpc_buffer *inputs,
                   size_t input_count, const mpc_buffer *outputs,
                   size_t output_count, const mpc_run_options *options) {
  return call([&]() -> Status {
    MPC_RETURN_IF_FAILED(check("program", program));
    mpc_run_options own;
    MPC_RETURN_IF_FAILED(readStruct("mpc_run_options", options, own));
    if (own.non_finite_capacity && !own.non_finite)
      return invalid("mpc_run_options.non_finite",
                     "is NULL, but has a capacity");
    std::span<const mpc_buffer> read, written;
    MPC_RETURN_IF_FAILED(readArray("inputs", inputs, input_count, read));
    MPC_RETURN_IF_FAILED(readArray("outputs", outputs, output_count, written));
    const Executable &executable = program->executable;
    std::vector<Buffer> arguments, results;
    MPC_RETURN_IF_FAILED(
        borrowAll("input", executable.program().arguments, read, arguments));
    MPC_RETURN_IF_FAILED(
        borrowAll("output", executable.program().results, written, results));
    MPC_RETURN_IF_FAILED(
        checkOverlap(executable.program(), arguments, results));
    std::vector<int64_t> suspects;
    RunOptions run;
    if (own.non_finite || own.non_finite_count)
      run.nonFinite = &suspects;
    MPC_RETURN_IF_FAILED(executable.runInto(arguments, results, run));
    if (own.non_finite_count)
      *own.non_finite_count = suspects.size();
    std::copy_n(suspects.begin(),
                std::min(suspects.size(), own.non_finite_capacity),
                own.non_finite);
    return {};
  });
}
