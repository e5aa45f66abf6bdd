//===- PreludeText.cpp - text of the prelude ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The build embeds the headers of Prelude/ and lib/Target/Math as string
// literals.
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CUDA/Host/HostKernel.h"

#include <map>
#include <set>
#include <sstream>

using namespace mpc;

static const std::map<std::string, std::string> &headers() {
  static const std::map<std::string, std::string> texts = {
#include "PreludeHeaders.inc"
  };
  return texts;
}

/// Copies a header, expanding the first include of each header recursively.
static void paste(const std::string &name, std::set<std::string> &done,
                  std::string &text) {
  if (!done.insert(name).second)
    return;
  text += "#line 1 \"" + name + "\"\n";
  std::istringstream lines(headers().at(name));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (!line.starts_with("#include \"")) {
      text += line + "\n";
      continue;
    }
    // Folders exist only at build time.
    size_t last = line.rfind('"'), first = line.find_last_of("\"/", last - 1);
    paste(line.substr(first + 1, last - first - 1), done, text);
    text += "#line " + std::to_string(number + 1) + " \"" + name + "\"\n";
  }
}

std::string mpc::preludeText(PreludeSide side) {
  std::string text;
  std::set<std::string> done = {side == PreludeSide::Host ? "Device.h"
                                                          : "Host.h"};
  paste("Prelude.h", done, text);
  return text;
}
