//===- load.cpp - a program that runs a compiled model --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links the runtime alone: no compiler is in the process.
// usage: load FILE.mpcx
//
//===----------------------------------------------------------------------===//

#include <mpc/Runtime/ExecutableFile.h>

#include <cstdio>

static int fail(const mpc::Status &status) {
  std::fprintf(stderr, "load: %s\n", status.toString().c_str());
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  mpc::Result<mpc::Device> device = mpc::Device::cpu({.threads = 2});
  if (!device.ok())
    return fail(device.status());
  mpc::Result<mpc::Executable> model =
      mpc::loadExecutable(*device, argv[1], {.trusted = true});
  if (!model.ok())
    return fail(model.status());

  std::vector<mpc::Buffer> inputs;
  for (const mpc::ProgramValue &input : model->program().arguments) {
    mpc::Result<mpc::Buffer> buffer = mpc::Buffer::allocate(input.type);
    if (!buffer.ok())
      return fail(buffer.status());
    inputs.push_back(*buffer);
  }
  mpc::Result<std::vector<mpc::Buffer>> results = model->run(inputs);
  if (!results.ok())
    return fail(results.status());
  for (size_t i = 0; i < results->size(); ++i) {
    const mpc::ProgramValue &output = model->program().results[i];
    std::printf("%s %s", output.name.c_str(), output.type.toString().c_str());
    if (output.type.element == mpc::ElementType::F32) {
      double sum = 0;
      for (float value : (*results)[i].as<float>())
        sum += value;
      std::printf(" sum %.3f", sum);
    }
    std::printf("\n");
  }
  return 0;
}
