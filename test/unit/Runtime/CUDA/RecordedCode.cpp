//===- RecordedCode.cpp - which kernels machine code holds ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecordedCode.h"

#include "RecordingDriver.h"

#include <elf.h>

#include <cstring>
#include <sstream>

using namespace mpc;

static constexpr const char kMagic[] = "mpc test code\n";

std::vector<std::byte>
recording::machineCode(const std::map<std::string, int> &parametersOfKernels) {
  std::string text = kMagic;
  for (const auto &[name, parameters] : parametersOfKernels)
    text += name + " " + std::to_string(parameters) + "\n";
  const auto *bytes = reinterpret_cast<const std::byte *>(text.c_str());
  return {bytes, bytes + text.size() + 1};
}

/// Parameters of a kernel from its section .nv.info.NAME: a list of attributes,
/// of which 0x19 is the total size of all parameters in bytes.
static int parametersIn(const char *info, size_t size) {
  for (size_t at = 0; at + 4 <= size;) {
    auto format = static_cast<unsigned char>(info[at]);
    auto attribute = static_cast<unsigned char>(info[at + 1]);
    uint16_t value = 0;
    std::memcpy(&value, info + at + 2, sizeof(value));
    if (attribute == 0x19)
      return value / 8;
    at += 4 + (format == 4 ? value : 0);
  }
  return 0;
}

static std::map<std::string, int> kernelsOfCubin(const char *image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  auto section = [&](unsigned index) {
    Elf64_Shdr found;
    std::memcpy(&found,
                image + header.e_shoff + size_t(index) * header.e_shentsize,
                sizeof(found));
    return found;
  };
  const char *names = image + section(header.e_shstrndx).sh_offset;
  std::map<std::string, int> kernels;
  static const std::string code = ".text.", info = ".nv.info.";
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr found = section(i);
    std::string name = names + found.sh_name;
    if (name.rfind(code, 0) == 0)
      kernels.emplace(name.substr(code.size()), 0);
    else if (name.rfind(info, 0) == 0)
      kernels[name.substr(info.size())] =
          parametersIn(image + found.sh_offset, found.sh_size);
  }
  return kernels;
}

std::map<std::string, int> recording::kernelsOf(const void *image) {
  const char *text = static_cast<const char *>(image);
  if (std::memcmp(text, ELFMAG, SELFMAG) == 0)
    return kernelsOfCubin(text);
  if (std::strncmp(text, kMagic, sizeof(kMagic) - 1) != 0)
    return {};
  std::map<std::string, int> kernels;
  std::istringstream lines(text + sizeof(kMagic) - 1);
  std::string name;
  for (int parameters = 0; lines >> name >> parameters;)
    kernels[name] = parameters;
  return kernels;
}
