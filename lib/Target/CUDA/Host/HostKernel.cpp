//===- HostKernel.cpp - emulation of CUDA kernels on the CPU --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CUDA/Host/HostKernel.h"

#include "BlockRunner.h"
#include "HostCompiler.h"

#include "Runtime/DiskCache.h"
#include "Runtime/Environment.h"
#include "Runtime/MemoryObject.h"
#include "mpc/Support/Files.h"
#include "mpc/Support/ScopedTempFolder.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <link.h>
#include <map>
#include <mutex>
#include <sstream>

using namespace mpc;
using namespace mpc::host;

/// File name of a kernel's text in diagnostics.
static constexpr const char *kTextName = "kernel.cu";
static constexpr size_t kGuardBytes = 4096;
static constexpr unsigned char kPoison = 0xff;

static std::vector<std::string>
compilerFlags(const HostKernelOptions &options) {
  std::vector<std::string> flags = {
      "-x", "c++", "-std=c++20", "-O1", "-g1", "-fPIC", "-fvisibility=hidden",
      "-fno-exceptions", "-fno-rtti",
      // Only explicit fma.
      "-ffp-contract=off", "-fno-strict-aliasing", "-w"};
  if (!options.checks)
    return flags;
  flags.insert(flags.end(),
               {"-DMPC_HOST_CHECKS", "-fsanitize=thread", "-fsanitize=bounds",
                "-fno-sanitize-recover=bounds"});
  // x += y also reads x, to detect uninitialized reads.
  if (options.compiler.find("clang") != std::string::npos)
    flags.insert(flags.end(),
                 {"-mllvm", "-tsan-instrument-read-before-write", "-mllvm",
                  // Call stacks are not used.
                  "-tsan-instrument-func-entry-exit=0"});
  return flags;
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

struct HostModule::Loaded {
  std::shared_ptr<detail::MemoryObject> library;
  bool checks = true;
  void (*bind)(Interface *) = nullptr;
  std::map<std::string, void (*)(void *const *)> kernels;
  AddressRange image;
};

HostModule::HostModule() : loaded(std::make_unique<Loaded>()) {}
HostModule::~HostModule() = default;
HostModule::HostModule(HostModule &&) noexcept = default;
HostModule &HostModule::operator=(HostModule &&) noexcept = default;

/// Compiles `source` and returns the shared object.
static Result<std::string> build(const std::string &source,
                                 const HostKernelOptions &options) {
  ScopedTempFolder folder("mpc-kernel");
  if (!folder.ok())
    return Status(StatusCode::NotFound, "temporary folder",
                  "cannot be made for the kernels' compiler");
  std::string text = folder.path("kernels.cpp"),
              object = folder.path("kernels.o"),
              library = folder.path("kernels.so"), log;
  std::ofstream(text, std::ios::binary) << source;
  std::vector<std::string> compile = {options.compiler}, link = compile;
  for (const std::string &flag : compilerFlags(options))
    compile.push_back(flag);
  compile.insert(compile.end(), {"-c", text, "-o", object});
  link.insert(link.end(), {"-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", object,
                           "-o", library, "-lm"});
  int status = runProgram(compile, &log);
  if (status == 0)
    status = runProgram(link, &log);
  if (status == -1)
    return Status(StatusCode::Unavailable, options.compiler,
                  "the host compiler for CUDA kernels cannot be started");
  if (status != 0)
    return Status(StatusCode::Internal, kTextName,
                  "a kernel does not compile on the host: " + log);
  return readWholeFile(library);
}

/// The same with the disk cache.
static Result<std::string> findOrBuild(const std::string &source,
                                       const HostKernelOptions &options) {
  detail::DiskCache cache(options.cacheFolder, detail::cacheBytes());
  const std::string_view parts[] = {"host kernels 2", source};
  std::string key = detail::contentKey(parts);
  if (auto kept = cache.find(key))
    return std::string(reinterpret_cast<const char *>(kept->data()),
                       kept->size());
  Result<std::string> built = build(source, options);
  // A failed cache write is not an error.
  if (built.ok())
    (void)cache.store(key, std::as_bytes(std::span(*built)));
  return built;
}

static int collectImage(dl_phdr_info *info, size_t, void *data) {
  auto *range = static_cast<AddressRange *>(data);
  auto *base = reinterpret_cast<const char *>(info->dlpi_addr);
  if (base != range->begin)
    return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_LOAD)
      range->end = std::max(range->end, base + info->dlpi_phdr[i].p_vaddr +
                                            info->dlpi_phdr[i].p_memsz);
  return 1;
}

Result<HostModule> HostModule::compile(const std::string &text,
                                       const std::vector<std::string> &kernels,
                                       const HostKernelOptions &choices) {
  HostKernelOptions options = choices;
  if (options.compiler.empty())
    options.compiler = hostCompiler();
  if (options.compiler.empty())
    return Status(
        StatusCode::Unavailable, "the host compiler",
        "no C++20 compiler for kernels on the host was found; install "
        "clang or g++");
  std::string source = "// " + options.compiler;
  for (const std::string &flag : compilerFlags(options))
    source += " " + flag;
  source += "\n" + preludeText(PreludeSide::Host) + "#line 1 \"" + kTextName +
            "\"\n" + text + "\n";
  for (const std::string &kernel : kernels)
    source += "MPC_HOST_ENTRY MPC_UNCHECKED void mpcHostCall_" + kernel +
              "(void *const *arguments) { mpc::host::call(" + kernel +
              ", arguments); }\n";

  Result<std::string> code = findOrBuild(source, options);
  if (!code.ok())
    return code.status();
  Result<std::shared_ptr<detail::MemoryObject>> library =
      detail::MemoryObject::load(std::as_bytes(std::span(*code)), kTextName);
  if (!library.ok())
    return library.status();
  HostModule module;
  Loaded &loaded = *module.loaded;
  loaded.checks = options.checks;
  loaded.library = std::move(*library);
  loaded.bind = reinterpret_cast<void (*)(Interface *)>(
      loaded.library->find("mpcHostBind"));
  for (const std::string &kernel : kernels)
    loaded.kernels[kernel] = reinterpret_cast<void (*)(void *const *)>(
        loaded.library->find("mpcHostCall_" + kernel));
  Dl_info info;
  if (dladdr(reinterpret_cast<void *>(loaded.bind), &info)) {
    loaded.image.begin = static_cast<const char *>(info.dli_fbase);
    dl_iterate_phdr(collectImage, &loaded.image);
  }
  return module;
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

namespace {
/// A copy of an array between guard zones.
class GuardedArray {
public:
  GuardedArray(const HostArgument &argument) : argument(argument) {
    size_t total = (argument.bytes + 2 * kGuardBytes + 255) / 256 * 256;
    memory.reset(static_cast<unsigned char *>(std::aligned_alloc(256, total)));
    std::memset(memory.get(), kPoison, total);
    if (argument.kind != HostArgument::Kind::Output && argument.bytes)
      std::memcpy(begin(), argument.data, argument.bytes);
  }

  unsigned char *begin() const { return memory.get() + kGuardBytes; }

  /// Adds a parameter that aliases this array.
  void share(const HostArgument &other) {
    if (other.kind == argument.kind)
      return;
    if (argument.kind == HostArgument::Kind::Output && argument.bytes)
      std::memcpy(begin(), argument.data, argument.bytes);
    argument.kind = HostArgument::Kind::InOut;
    argument.elementBytes = std::min(argument.elementBytes, other.elementBytes);
  }

  ArrayInfo info() const {
    bool input = argument.kind == HostArgument::Kind::Input;
    bool output = argument.kind == HostArgument::Kind::Output;
    return {argument.name,          begin(),
            argument.bytes,         argument.elementBytes,
            /*shared=*/false,       /*writable=*/!input,
            /*initialised=*/!output};
  }

  bool guardsIntact() const {
    auto untouched = [](const unsigned char *from) {
      return std::all_of(from, from + kGuardBytes,
                         [](unsigned char byte) { return byte == kPoison; });
    };
    return untouched(memory.get()) && untouched(begin() + argument.bytes);
  }
  bool inputChanged() const {
    return argument.kind == HostArgument::Kind::Input && argument.bytes &&
           std::memcmp(begin(), argument.data, argument.bytes) != 0;
  }

  void copyBack() const {
    if (argument.kind != HostArgument::Kind::Input && argument.bytes)
      std::memcpy(argument.data, begin(), argument.bytes);
  }

  HostArgument argument;

private:
  struct Free {
    void operator()(unsigned char *memory) const { std::free(memory); }
  };
  std::unique_ptr<unsigned char, Free> memory;
};
} // namespace

/// Returns the line of the kernel's text for a code address, or 0 if unknown.
static int lineOf(const detail::MemoryObject &library,
                  const AddressRange &image, const void *caller) {
  auto *address = static_cast<const char *>(caller);
  if (address < image.begin || address >= image.end)
    return 0;
  std::ostringstream offset;
  offset << "0x" << std::hex << address - image.begin - 1;
  std::string output, name = std::string(kTextName) + ":";
  if (runProgram({"addr2line", "-i", "-e", library.path(), offset.str()},
                 &output) != 0)
    return 0;
  size_t found = output.find(name);
  return found == std::string::npos
             ? 0
             : std::atoi(output.c_str() + found + name.size());
}

Status HostModule::launch(const std::string &kernel, HostLaunch launch,
                          const std::vector<HostArgument> &arguments) const {
  // One launch at a time: a module has one active runner.
  static std::mutex oneAtATime;
  std::lock_guard lock(oneAtATime);

  auto found = loaded->kernels.find(kernel);
  if (found == loaded->kernels.end() || !found->second)
    return Status(StatusCode::InvalidArgument, kernel,
                  "no kernel of the module has this name");
  auto product = [](const int *extents, int64_t limit) -> int64_t {
    int64_t result = 1;
    for (int i = 0; i < 3; ++i) {
      if (extents[i] < 1 || extents[i] > limit)
        return 0;
      result *= extents[i];
    }
    return result <= limit ? result : 0;
  };
  if (!product(launch.block, 1024) || !product(launch.grid, INT32_MAX))
    return Status(StatusCode::InvalidArgument, kernel,
                  "a block has 1 to 1024 threads and a grid at least one "
                  "block");
  launch.kernel = kernel;

  std::vector<GuardedArray> arrays;
  arrays.reserve(arguments.size());
  std::vector<void *> pointers(arguments.size()), values(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const HostArgument &argument = arguments[i];
    values[i] = argument.data;
    if (argument.kind == HostArgument::Kind::Scalar)
      continue;
    auto same = std::find_if(
        arrays.begin(), arrays.end(), [&](const GuardedArray &array) {
          return argument.bytes && array.argument.data == argument.data &&
                 array.argument.bytes == argument.bytes;
        });
    if (same == arrays.end()) {
      arrays.emplace_back(argument);
      same = std::prev(arrays.end());
    } else {
      same->share(argument);
    }
    pointers[i] = same->begin();
    values[i] = &pointers[i];
  }

  BlockRunner runner(launch, loaded->checks, loaded->image);
  for (const GuardedArray &array : arrays)
    runner.memory().addArray(array.info());
  loaded->bind(runner.table());
  auto failure = runner.run(found->second, values.data());
  loaded->bind(nullptr);

  Status status;
  auto complain = [&](const std::string &text) {
    if (status.ok())
      status = Status(StatusCode::Internal, kernel,
                      "kernel '" + kernel + "' " + text);
  };
  if (failure) {
    int line = failure->line;
    if (line == 0)
      line = lineOf(*loaded->library, loaded->image, failure->caller);
    std::string where =
        line > 0 ? std::string(kTextName) + ":" + std::to_string(line) : "";
    status = Status(StatusCode::Internal, where, failure->text);
  }
  for (const GuardedArray &array : arrays) {
    const std::string &name = array.argument.name;
    if (!array.guardsIntact())
      complain("writes outside '" + name + "'");
    if (array.inputChanged())
      complain("writes '" + name + "', which the launch passes as an input");
    size_t unwritten = runner.memory().firstUnwritten(array.begin());
    if (loaded->checks && unwritten < array.argument.bytes)
      complain("does not write '" + name + "' at offset " +
               std::to_string(unwritten));
    array.copyBack();
  }
  return status;
}
