//===- Options.cpp - common options of sub-commands -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include "HelpFormatter.h"

#include "mpc/Support/Files.h"
#include "mpc/Support/ScopedTempFolder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>
#include <vector>

using namespace mpc;
using namespace mpc::tool;

bool tool::splitPair(const std::string &text, std::string &key,
                     std::string &value) {
  size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    return false;
  key = text.substr(0, at);
  value = text.substr(at + 1);
  return true;
}

/// Validates a finite number of at least `least`, or above it; `what` describes
/// such a number.
static CLI::Validator numberFrom(double least, bool isOpen,
                                 const std::string &what) {
  return CLI::Validator(
      [=](std::string &text) {
        double value = 0;
        bool isValid = CLI::detail::lexical_cast(text, value) &&
                       std::isfinite(value) &&
                       (isOpen ? value > least : value >= least);
        return isValid ? std::string() : "\"" + text + "\" is not " + what;
      },
      "");
}

CLI::Validator tool::finiteNumber() {
  return numberFrom(-HUGE_VAL, /*isOpen=*/true, "a finite number");
}

CLI::Validator tool::atLeastZero() {
  return numberFrom(0, /*isOpen=*/false, "a number of at least 0");
}

CLI::Validator tool::notEmpty() {
  return {
      [](const std::string &text) { return text.empty() ? "is empty" : ""; },
      ""};
}

CLI::Validator tool::positiveNumber() {
  return numberFrom(0, /*isOpen=*/true, "a positive number");
}

std::vector<int64_t> tool::parseExtents(const std::string &text) {
  std::vector<int64_t> extents;
  const char *at = text.data(), *last = at + text.size();
  while (true) {
    int64_t extent;
    auto [end, error] = std::from_chars(at, last, extent);
    if (error != std::errc() || extent <= 0 || (end != last && *end != ','))
      return {};
    extents.push_back(extent);
    if (end == last)
      return extents;
    at = end + 1;
  }
}

/// Validates a flag's value like a CLI11 validator: returns an error message.
static std::string checkSet(const std::string &text) {
  std::string key, type;
  if (!splitPair(text, key, type) ||
      (key.rfind("op:", 0) != 0 && key.rfind("layer:", 0) != 0 &&
       key.rfind("name:", 0) != 0 && key.rfind("inputs:", 0) != 0 &&
       key.rfind("backward:", 0) != 0))
    return "'" + text +
           "' is not op:KIND=TYPE, layer:PATH=TYPE, name:NAME=TYPE, "
           "inputs:NAME=float32 or backward:NAME=TYPE";
  return {};
}

static std::string checkDim(const std::string &text) {
  std::string name, value;
  if (!splitPair(text, name, value) || parseExtents(value).empty())
    return "'" + text + "' is not NAME=N with a positive N";
  return {};
}

static std::string checkTarget(const std::string &text) {
  if (text.rfind("cpu:", 0) == 0 && text.size() > 4)
    return {};
  if (text.rfind("cuda:sm_", 0) == 0 && text.size() > 8)
    return {};
  return "'" + text + "' is not cpu:native, cpu:ISA or cuda:sm_XX";
}

/// Validates a device name.
static std::string checkDevice(const std::string &text) {
  for (const char *known : {"cpu", "cuda", "cuda-host", "null", "auto"})
    if (text == known)
      return {};
  unsigned ordinal;
  const char *end = text.data() + text.size();
  if (text.rfind("cuda:", 0) == 0 && text.size() > 5)
    if (auto [stop, error] = std::from_chars(text.data() + 5, end, ordinal);
        error == std::errc() && stop == end && ordinal < 1024)
      return {};
  return "'" + text + "' is not cpu, cuda, cuda:N, cuda-host, null or auto";
}

std::vector<int64_t> tool::parseShape(const std::string &text) {
  std::string commas = text;
  std::replace(commas.begin(), commas.end(), 'x', ',');
  return parseExtents(commas);
}

static std::string checkShape(const std::string &text) {
  std::string name, value;
  if (!splitPair(text, name, value) || parseShape(value).empty())
    return "'" + text + "' is not NAME=SHAPE, such as x=1x512";
  return {};
}

/// Copies a model on standard input ("-") or in a shell's pipe, <(COMMAND), to
/// a temporary file, whose extension tells its format, and replaces `path` by
/// its path. Opening a named pipe would wait for its writer.
static std::string readStream(std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  bool isInput = path == "-" || path == "/dev/stdin";
  std::string folder = fs::canonical(fs::path(path).parent_path(), error);
  bool isDescriptor = folder.starts_with("/proc/") && folder.ends_with("/fd");
  if (!isInput && !isDescriptor) {
    if (fs::is_fifo(path, error))
      return path + " is a named pipe; give a file, or - with < " + path;
    return path.empty() ? "is empty" : "";
  }
  std::string name = isInput ? "standard input" : path;
  std::ifstream pipe;
  if (!isInput)
    pipe.open(path, std::ios::binary);
  std::istream &from = isInput ? std::cin : pipe;
  static ScopedTempFolder copies("mpc-stdin");
  if (!copies.ok())
    return "no temporary folder can be made";
  std::ofstream file;
  // As protobuf limits its messages.
  constexpr int64_t kMostBytes = int64_t(1) << 31;
  int64_t size = 0;
  std::vector<char> chunk(size_t(1) << 20);
  while (from.read(chunk.data(), chunk.size()), from.gcount() > 0) {
    std::string_view bytes(chunk.data(), size_t(from.gcount()));
    if (size == 0) {
      // Text starts with a printable character, protobuf with a field's tag.
      auto first = static_cast<unsigned char>(bytes.front());
      bool isText = first >= ' ' || std::isspace(first);
      path = copies.path(bytes.starts_with("\x7fMPCX") ? "stdin.mpcx"
                         : bytes.starts_with("GGUF")   ? "stdin.gguf"
                         : isText                      ? "stdin.mlir"
                                                       : "stdin.onnx");
      file.open(path, std::ios::binary);
    }
    size += from.gcount();
    if (size > kMostBytes)
      return name + " has more than 2 GiB; write the model to a file";
    if (!file.write(bytes.data(), bytes.size()))
      return path + " cannot be written: " + std::strerror(errno);
  }
  if (size == 0)
    return name + " is empty; pipe a model into it";
  file.close();
  return file ? "" : path + " cannot be written: " + std::strerror(errno);
}

CLI::Option *tool::addList(CLI::App &command, const std::string &flags,
                           std::vector<std::string> &list,
                           const std::string &text) {
  return command.add_option(flags, list, text)
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
}

void tool::addOutputOptions(CLI::App &command, CommonOptions &options) {
  command.add_flag("--json", options.json, "print one JSON document on stdout")
      ->group(kOutputGroup);
  command.add_flag("--quiet", options.quiet, "print no warnings and notes")
      ->group(kOutputGroup);
}

void tool::hideFlags(CLI::App &command,
                     std::initializer_list<const char *> flags) {
  for (const char *flag : flags)
    command.get_option(flag)->group("");
}

void tool::addInputOption(CLI::App &command, CommonOptions &options,
                          const std::string &text) {
  addList(command, "--input,--inputs", options.inputs, text)
      ->option_text("FILE")
      ->group(kModelGroup);
}

void tool::addModelOptions(CLI::App &command, CommonOptions &options) {
  command
      .add_option("MODEL", options.model,
                  "model: .onnx, .mlir, .gguf, a Hugging Face folder, or -. "
                  ".mlir is mpc or StableHLO text; - reads a file from "
                  "standard input")
      ->required()
      ->option_text("MODEL")
      ->transform(CLI::Validator(readStream, ""))
      ->group(kModelGroup);
  addList(command, "--shape", options.shapes,
          "shape of an input, NAME=1x512. Repeatable. Needed where a model "
          "leaves extents open, unless --dim, --batch or an --input gives them")
      ->check(CLI::Validator(checkShape, "NAME=SHAPE"))
      ->group(kModelGroup);
  addList(command, "--dim", options.dims,
          options.manyShapes
              ? "extents of a symbolic dimension. The file contains code for "
                "each combination of extents"
              : "extent of a symbolic dimension")
      ->check(CLI::Validator(checkDim,
                             options.manyShapes ? "NAME=N,..." : "NAME=N"))
      ->group(kModelGroup);
  command.add_option("--batch", options.batch, "extent of the batch dimension")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40))
      ->group(kModelGroup);
  command
      .add_option("--policy", options.policy,
                  "precision policy. A name (mpc policies lists them), a .json "
                  "file, or auto for the fastest on the device")
      ->option_text("NAME|FILE")
      ->each([&options](const std::string &) { options.choosesPolicy = true; })
      ->capture_default_str()
      ->group(kPrecisionGroup);
  addList(command, "--set", options.sets,
          "override, such as op:softmax=float32. op:KIND=TYPE, "
          "layer:PATH=TYPE, name:NAME=TYPE, inputs:NAME=float32 for the inputs "
          "of an op, or one of these after backward: for the backward pass "
          "only; repeatable")
      ->check(CLI::Validator(checkSet, "KEY=TYPE"))
      ->group(kPrecisionGroup);
  command
      .add_option("--rounding", options.rounding,
                  "strict, or relaxed, which drops some casts. Narrowing ones "
                  "that are undone in the same kernel")
      ->check(CLI::IsMember({"strict", "relaxed"}))
      ->option_text("HOW")
      ->capture_default_str()
      ->group(kPrecisionGroup);
  command
      .add_flag("--reproducible", options.reproducible,
                "compute the same bits on every CPU of a class. With any "
                "number of threads and in any batch")
      ->group(kPrecisionGroup);
  command
      .add_option("--device", options.device,
                  "cpu, cuda, cuda:N, cuda-host, null or auto")
      ->check(CLI::Validator(checkDevice, "NAME"))
      ->capture_default_str()
      ->group(kTargetGroup);
  command
      .add_option("--target", options.target,
                  "cpu:native, cpu:ISA or cuda:sm_XX. What to compile for; for "
                  "commands that run nothing")
      ->check(CLI::Validator(checkTarget, "TARGET"))
      ->group(kTargetGroup);
  command
      .add_option("--isa", options.isa,
                  "instruction set of the CPU (default: its best)")
      ->check(CLI::IsMember({"amxfp16", "amx", "avx512bf16", "avx512vnni",
                             "avx512", "avxvnni", "avx2"}))
      ->option_text("LEVEL")
      ->group(kTargetGroup);
  auto more = [](CLI::Option *option) { return option->group(kMoreGroup); };
  more(command.add_option("--threads", options.threads,
                          "threads to use; 0: all cores"))
      ->check(CLI::Range(0, 1024));
  more(command.add_flag("--emulate-units", options.emulateUnits,
                        "with --isa: emulate the matrix units of the level on "
                        "any machine"));
  more(command.add_option("--cast-placement", options.castPlacement,
                          "algorithm that places casts"))
      ->check(CLI::IsMember({"mincut", "propagate"}))
      ->capture_default_str();
  more(command.add_option("--gemm", options.gemm,
                          "GEMM kernels: library (cuBLASLt) or own "
                          "(generated)"))
      ->check(CLI::IsMember({"library", "own"}))
      ->capture_default_str();
  more(command.add_option("--schedules", options.schedules,
                          "table of kernel schedules, or none (default: the "
                          "one that tune-kernels stored for this machine)"))
      ->option_text("FILE");
  more(command.add_option("--step-loss-scale", options.stepLossScale,
                          "loss scale of a model that is a training step: "
                          "PRESET[,field=value...] (default: dynamic for "
                          "policies that compute in float16, else none)"));
  more(command.add_option("--max-memory", options.maxMemory,
                          "memory limit in bytes, with an optional suffix K, M "
                          "or G (1024, ...); a model that needs more is "
                          "rejected"))
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::PositiveNumber)
      ->option_text("SIZE");
  more(command.add_flag("--verify-files", options.verifyFiles,
                        "identify files above 64 MiB in the compile cache by "
                        "content instead of inode, size and modification "
                        "time"));
  more(command.add_option("--seed", options.seed, "seed of random inputs"))
      ->capture_default_str();
  more(command.add_option("--dump-dir", options.dumpDir,
                          "folder that receives the IR of every stage"))
      ->option_text("DIR");
}

int tool::gpuNumber(const CommonOptions &options) {
  int number = 0;
  const std::string &text = options.device;
  if (text.rfind("cuda:", 0) == 0)
    std::from_chars(text.data() + 5, text.data() + text.size(), number);
  return number;
}

Result<Device> tool::makeDevice(const CommonOptions &options) {
  bool gpuCode = options.target.rfind("cuda:", 0) == 0;
  if (options.device == "null")
    return Device::null();
  if (options.device.rfind("cuda", 0) != 0)
    return Device::cpu({.threads = options.threads});
  if (!options.isa.empty() || (!gpuCode && !options.target.empty()))
    return Status(StatusCode::InvalidArgument, "--device " + options.device,
                  "contradicts " +
                      (options.isa.empty() ? "--target " + options.target
                                           : "--isa " + options.isa) +
                      ", a CPU's");
  if (options.device == "cuda-host")
    return makeHostDevice(options);
  CudaDeviceOptions cuda;
  cuda.ordinal = gpuNumber(options);
  cuda.compileThreads = options.threads;
  return Device::cuda(cuda);
}
