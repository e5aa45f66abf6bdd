//===- run_mpcx.cpp - runs a compiled model from C++ ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads a file of `mpc compile`, runs it on ones and prints each output's mean.
// Links mpc::runtime, which needs no LLVM; build it with CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#include <mpc/Runtime/ExecutableFile.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>
#include <vector>

/// Returns the value of a result, or ends the program with its error.
template <typename T> static T valueOf(mpc::Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().toString().c_str());
    std::exit(1);
  }
  return std::move(*result);
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  mpc::Device device = valueOf(mpc::Device::cpu());
  // The file's machine code runs in this process: load trusted files only.
  mpc::Executable model =
      valueOf(mpc::loadExecutable(device, argv[1], {.trusted = true}));
  std::vector<mpc::Buffer> inputs;
  for (const mpc::ProgramValue &input : model.program().arguments) {
    inputs.push_back(valueOf(mpc::Buffer::allocate(input.type)));
    if (input.type.element == mpc::ElementType::F32)
      std::ranges::fill(inputs.back().as<float>(), 1.0f);
  }
  std::vector<mpc::Buffer> results = valueOf(model.run(inputs));
  for (size_t i = 0; i < results.size(); ++i) {
    const mpc::ProgramValue &output = model.program().results[i];
    std::span<const float> values = results[i].as<float>();
    std::printf("%s %s: mean %g\n", output.name.c_str(),
                output.type.toString().c_str(),
                std::accumulate(values.begin(), values.end(), 0.0) /
                    double(values.size()));
  }
}
