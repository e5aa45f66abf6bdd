//===- CodeObject.cpp - machine code from memory --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeObject.h"

#include "mpc/Runtime/TilePermission.h"

#include <cpuid.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

using namespace mpc;

namespace {

/// A shared object in the process and the descriptor of its bytes. The
/// descriptor stays open as long as the object: the dynamic linker knows
/// objects by their paths, and a number that is used again would give the old
/// object for the new file.
struct Mapped {
  int descriptor = -1;
  void *handle = nullptr;

  Mapped() = default;
  Mapped(const Mapped &) = delete;
  Mapped &operator=(const Mapped &) = delete;
  ~Mapped() {
    if (handle)
      dlclose(handle);
    if (descriptor >= 0)
      ::close(descriptor);
  }
};

} // namespace

Status detail::loadCode(std::span<const std::byte> code,
                        const std::string &where, Program &program) {
  auto unavailable = [&](const std::string &what, const char *why) {
    return Status(StatusCode::Unavailable, where,
                  what + (why ? std::string(": ") + why : std::string()));
  };
  auto mapped = std::make_shared<Mapped>();
  mapped->descriptor =
      memfd_create("mpc-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (mapped->descriptor < 0)
    return unavailable("no memory file for its code", strerror(errno));
  for (size_t done = 0; done < code.size();) {
    ssize_t wrote =
        ::write(mapped->descriptor, code.data() + done, code.size() - done);
    if (wrote < 0 && errno == EINTR)
      continue;
    if (wrote <= 0)
      return unavailable("its code cannot be copied", strerror(errno));
    done += size_t(wrote);
  }
  if (::fcntl(mapped->descriptor, F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return unavailable("its code cannot be sealed", strerror(errno));
  std::string path = "/proc/self/fd/" + std::to_string(mapped->descriptor);
  mapped->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!mapped->handle)
    return unavailable("its code cannot be loaded", dlerror());
  for (Launch &launch : program.launches) {
    if (launch.collective)
      continue;
    void *address = dlsym(mapped->handle, launch.kernel.c_str());
    if (!address)
      return Status(StatusCode::InvalidArgument, where,
                    "its code lacks kernel '" + launch.kernel + "'");
    launch.function = reinterpret_cast<KernelFunction>(address);
  }
  program.code = std::move(mapped);
  return {};
}

/// AMX-FP16, whose name g++ 12 does not know: leaf 7.1, EAX bit 21 of CPUID
/// (Intel, Architecture Instruction Set Extensions).
static bool hasTilesOfHalf() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 21 & 1);
}

std::span<const std::string_view> detail::cpuLevels() {
  // What code of a level may use: CpuTarget::available() asks for the same.
  static const std::vector<std::string_view> levels = [] {
    std::vector<std::string_view> found;
    bool hasAvx512 = __builtin_cpu_supports("x86-64-v4");
    bool hasDots = hasAvx512 && __builtin_cpu_supports("avx512bf16") &&
                   __builtin_cpu_supports("avx512vnni");
    if (hasDots && __builtin_cpu_supports("amx-bf16") &&
        __builtin_cpu_supports("amx-int8") && permitTiles()) {
      if (hasTilesOfHalf())
        found.push_back("amxfp16");
      found.push_back("amx");
    }
    // Other makers' cores multiply bf16 faster as f32.
    bool dotsFirst = hasDots && __builtin_cpu_is("amd");
    if (dotsFirst)
      found.push_back("avx512bf16");
    if (hasAvx512 && __builtin_cpu_supports("avx512vnni"))
      found.push_back("avx512vnni");
    if (hasAvx512)
      found.push_back("avx512");
    if (hasDots && !dotsFirst)
      found.push_back("avx512bf16");
    if (__builtin_cpu_supports("x86-64-v3")) {
      if (__builtin_cpu_supports("avxvnni"))
        found.push_back("avxvnni");
      found.push_back("avx2");
      for (std::string_view level :
           {"avxvnni-emulated", "avx512vnni-emulated", "avx512bf16-emulated",
            "amx-emulated", "amxfp16-emulated"})
        found.push_back(level);
    }
    return found;
  }();
  return levels;
}
