//===- PreludeText.cpp - the prelude as one text --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The build embeds the headers of Prelude/ as string literals.
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CUDA/Host/HostKernel.h"

#include <map>
#include <sstream>

using namespace mpc;

static const std::map<std::string, std::string> &headers() {
  static const std::map<std::string, std::string> texts = {
#include "PreludeHeaders.inc"
  };
  return texts;
}

/// Copies a header and, in place of their includes, the headers that it needs.
static void paste(const std::string &name, const std::string &left,
                  std::string &text) {
  text += "#line 1 \"" + name + "\"\n";
  std::istringstream lines(headers().at(name));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    constexpr std::string_view include = "#include \"";
    if (line.compare(0, include.size(), include) != 0) {
      text += line + "\n";
      continue;
    }
    std::string other = line.substr(include.size());
    other.resize(other.find('"'));
    if (other == left)
      continue;
    paste(other, left, text);
    text += "#line " + std::to_string(number + 1) + " \"" + name + "\"\n";
  }
}

std::string mpc::preludeText(PreludeSide side) {
  std::string text;
  paste("Prelude.h", side == PreludeSide::Host ? "Device.h" : "Host.h", text);
  return text;
}
