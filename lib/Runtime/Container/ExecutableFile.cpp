//===- ExecutableFile.cpp - ahead-of-time compiled models -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/ExecutableFile.h"

#include "../DiskCache.h"
#include "CodeObject.h"
#include "Container.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>

using namespace mpc;
using namespace mpc::container;

struct ExecutableFile::State {
  /// The file's name in messages.
  std::string where;
  /// Owner of the bytes that spans in `contents` refer to, also if the file has
  /// no constants.
  std::shared_ptr<const void> owner;
  Contents contents;
  /// Targets by specialization.
  std::vector<std::vector<StoredTarget>> targets;
};

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static std::vector<StoredTarget>
describeTargets(const StoredSpecialisation &specialisation) {
  std::vector<StoredTarget> targets;
  for (const StoredProgram &stored : specialisation.programs) {
    const Program &program = stored.program;
    std::set<std::string_view> kernels;
    for (const Launch &launch : program.launches)
      if (!launch.gemm && !launch.collective)
        kernels.insert(launch.kernel);
    targets.push_back(
        {program.target, int64_t(kernels.size()),
         stored.cuda ? stored.cuda->codeBytes() : int64_t(stored.code.size()),
         program.constantBytes(), program.arenaBytes, program.layers});
  }
  return targets;
}

Result<ExecutableFile> ExecutableFile::fromMemory(
    std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
    const std::string &name, const WeightReader &weights) {
  Result<Contents> contents = container::decode(owner, bytes, name, weights);
  if (!contents.ok())
    return contents.status();
  auto state = std::make_shared<State>();
  state->where = name;
  state->owner = std::move(owner);
  state->contents = std::move(*contents);
  for (const StoredSpecialisation &specialisation :
       state->contents.specialisations)
    state->targets.push_back(describeTargets(specialisation));
  return ExecutableFile(std::move(state), 0);
}

Result<ExecutableFile>
ExecutableFile::fromBytes(std::span<const std::byte> bytes,
                          const std::string &name) {
  std::shared_ptr<void> memory = allocateAligned(bytes.size());
  if (!memory)
    return Status(StatusCode::ResourceExhausted, name,
                  "no memory for its " + std::to_string(bytes.size()) +
                      " bytes");
  if (!bytes.empty())
    std::memcpy(memory.get(), bytes.data(), bytes.size());
  return fromMemory(
      memory, {static_cast<const std::byte *>(memory.get()), bytes.size()},
      name);
}

namespace {

/// RAII file descriptor.
struct OpenFile {
  int descriptor;
  ~OpenFile() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
};

} // namespace

Result<ExecutableFile> ExecutableFile::open(const std::string &path) {
  auto unreadable = [&](const std::string &why) {
    return Status(StatusCode::NotFound, path, "cannot be read: " + why);
  };
  // O_NONBLOCK: opening a named pipe would wait for its writer.
  OpenFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.descriptor < 0)
    return unreadable(strerror(errno));
  struct stat facts;
  if (::fstat(file.descriptor, &facts) != 0)
    return unreadable(strerror(errno));
  if (!S_ISREG(facts.st_mode))
    return unreadable("it is not a regular file");
  auto size = size_t(facts.st_size);
  // Check the header before allocating memory for the rest.
  std::array<std::byte, kHeaderBytes> header{};
  size_t headerBytes = std::min(size, header.size());
  if (!detail::readAll(file.descriptor, header.data(), headerBytes))
    return unreadable("it ends early");
  if (Status status = checkHeader({header.data(), headerBytes}, size, path);
      !status.ok())
    return status;
  std::shared_ptr<void> memory = allocateAligned(size);
  if (!memory)
    return Status(StatusCode::ResourceExhausted, path,
                  "no memory for its " + std::to_string(size) + " bytes");
  auto *bytes = static_cast<std::byte *>(memory.get());
  std::memcpy(bytes, header.data(), kHeaderBytes);
  if (!detail::readAll(file.descriptor, bytes + kHeaderBytes,
                       size - kHeaderBytes))
    return unreadable("it ends early");
  return fromMemory(memory, {bytes, size}, path);
}

//===----------------------------------------------------------------------===//
// Specialisations
//===----------------------------------------------------------------------===//

std::vector<ExecutableFile> ExecutableFile::specialisations() const {
  std::vector<ExecutableFile> all;
  all.reserve(state->contents.specialisations.size());
  for (size_t i = 0; i < state->contents.specialisations.size(); ++i)
    all.push_back(ExecutableFile(state, i));
  return all;
}

/// Formats each argument in `shapes`: "x f32[1,3,4]".
static std::string describeArguments(const StoredSpecialisation &stored,
                                     const ExecutableFile::Shapes &shapes) {
  std::string text;
  for (const ProgramValue &value : stored.arguments)
    if (shapes.contains(value.name))
      text +=
          (text.empty() ? "" : ", ") + value.name + " " + value.type.toString();
  return text;
}

Result<ExecutableFile> ExecutableFile::forShapes(const Shapes &shapes) const {
  for (const ExecutableFile &candidate : specialisations()) {
    bool fits = true;
    for (const ProgramValue &value : candidate.arguments())
      if (auto shape = shapes.find(value.name); shape != shapes.end())
        fits &= shape->second == value.type.shape;
    if (fits)
      return candidate;
  }
  std::string asked, held;
  for (const auto &[name, shape] : shapes)
    asked += (asked.empty() ? "" : ", ") + name + " " +
             TensorType{ElementType::F32, shape}.toString().substr(3);
  for (const StoredSpecialisation &stored : state->contents.specialisations)
    held += (held.empty() ? "" : "; ") + describeArguments(stored, shapes);
  return Status(StatusCode::InvalidArgument, state->where,
                "was compiled for " + held + ", not for " + asked +
                    "; also compile the model for that");
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// "cpu:avx512, cpu:avx2".
template <typename List, typename Name>
static std::string joined(const List &list, Name name) {
  std::string text;
  for (const auto &entry : list)
    text += (text.empty() ? "" : ", ") + name(entry);
  return text;
}

/// Returns the program in the file for the best level that this machine
/// supports.
static const StoredProgram *chooseForCpu(const StoredSpecialisation &contents,
                                         const std::string &isa) {
  for (std::string_view level : detail::cpuLevels()) {
    if (!isa.empty() && level != isa)
      continue;
    for (const StoredProgram &stored : contents.programs)
      if (stored.program.target.starts_with("cpu:") &&
          levelOf(stored.program.target) == level)
        return &stored;
  }
  return nullptr;
}

/// Parses the number from character `start` on, 0 if there is none.
static int numberAt(std::string_view text, size_t start) {
  int number = 0;
  if (start < text.size())
    std::from_chars(text.data() + start, text.data() + text.size(), number);
  return number;
}

/// Ranks a program for a GPU: compute capability of its target times ten, plus
/// one if architecture-specific; 0 if the GPU cannot run it.
static int suitability(const std::string &target,
                       const std::string &architecture) {
  if (target.rfind("cuda:sm_", 0) != 0)
    return 0;
  bool specific = target.back() == 'a' || target.back() == 'f';
  int wanted = numberAt(target, 8), present = numberAt(architecture, 3);
  // Architecture-specific code (sm_90a) runs only on that architecture.
  if (wanted > present || (specific && wanted != present))
    return 0;
  return 10 * wanted + specific;
}

/// Returns the program for the GPU's architecture or else the next older one,
/// whose source is compiled again.
static const StoredProgram *chooseForGpu(const StoredSpecialisation &contents,
                                         const std::string &architecture) {
  const StoredProgram *best = nullptr;
  int most = 0;
  for (const StoredProgram &stored : contents.programs)
    if (int suits = suitability(stored.program.target, architecture);
        suits > most) {
      best = &stored;
      most = suits;
    }
  return best;
}

/// Returns the error that the device runs none of the file's programs.
static Status noTarget(const StoredSpecialisation &contents,
                       const Device &device, const std::string &isa,
                       const std::string &where) {
  std::string text = "contains code for " +
                     joined(contents.programs, [](const StoredProgram &s) {
                       return s.program.target;
                     });
  if (!device.architecture().empty())
    return Status(StatusCode::Unavailable, where,
                  text + ", but device " + device.name() +
                      " runs cuda:" + device.architecture() +
                      "; also compile the model for it");
  std::string machine = joined(detail::cpuLevels(), [](std::string_view level) {
    return "cpu:" + std::string(level);
  });
  return Status(
      StatusCode::Unavailable, where,
      text + ", but this machine runs " +
          (machine.empty() ? "none of the supported levels" : machine) +
          (isa.empty() ? std::string()
                       : ", and cpu:" + isa + " was requested"));
}

Result<Executable> ExecutableFile::load(Device device,
                                        const LoadOptions &options) const {
  const StoredSpecialisation &contents =
      state->contents.specialisations[number];
  bool onGpu = !device.architecture().empty();
  const StoredProgram *stored =
      onGpu ? chooseForGpu(contents, device.architecture())
            : chooseForCpu(contents, options.isa);
  // A device that executes nothing accepts any target.
  if (!stored && !device.needsCode() && options.isa.empty())
    stored = &contents.programs.front();
  if (!stored)
    return noTarget(contents, device, options.isa, state->where);
  auto program = std::make_shared<Program>(stored->program);
  program->name = state->contents.name;
  program->arguments = contents.arguments;
  program->results = contents.results;
  if (int64_t needed = program->neededBytes();
      options.maxMemory > 0 && needed > options.maxMemory)
    return Status(StatusCode::ResourceExhausted, state->where,
                  "needs " + std::to_string(needed) +
                      " bytes (constants, intermediate memory, arguments and "
                      "results), but at most " +
                      std::to_string(options.maxMemory) +
                      " are allowed; allow more memory or compile for smaller "
                      "extents");
  if (device.needsCode()) {
    if (!options.trusted)
      return Status(StatusCode::InvalidArgument, state->where,
                    "contains machine code, which runs only if the caller "
                    "declares the file as trusted");
    if (stored->cuda)
      program->cuda = stored->cuda->copy();
    else if (Status status = detail::loadCode(
                 stored->code, state->where + ": " + program->target, *program);
             !status.ok())
      return status;
  }
  return Executable::create(std::move(device), std::move(program));
}

Result<Executable> mpc::loadExecutable(Device device, const std::string &path,
                                       const LoadOptions &options) {
  Result<ExecutableFile> file = ExecutableFile::open(path);
  if (!file.ok())
    return file.status();
  return file->load(std::move(device), options);
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

const std::string &ExecutableFile::model() const {
  return state->contents.model;
}
const std::string &ExecutableFile::policy() const {
  return state->contents.policy;
}
const std::string &ExecutableFile::compiler() const {
  return state->contents.compiler;
}
const std::map<std::string, int64_t> &ExecutableFile::dims() const {
  return state->contents.specialisations[number].dims;
}
std::span<const ProgramValue> ExecutableFile::arguments() const {
  return state->contents.specialisations[number].arguments;
}
std::span<const ProgramValue> ExecutableFile::results() const {
  return state->contents.specialisations[number].results;
}
std::span<const StoredTarget> ExecutableFile::targets() const {
  return state->targets[number];
}
int64_t ExecutableFile::longestReduction() const {
  return state->contents.specialisations[number].longestReduction;
}
ElementType ExecutableFile::narrowestType() const {
  return state->contents.specialisations[number].narrowest;
}
int64_t ExecutableFile::longestChain() const {
  return state->contents.specialisations[number].longestChain;
}
