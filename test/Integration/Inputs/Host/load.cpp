//===- load.cpp - a program that runs a compiled model --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links the runtime alone: no compiler is in the process.
// usage: load FILE.mpcx [LAYER]
//
//===----------------------------------------------------------------------===//

#include <mpc/Runtime/ExecutableFile.h>

#include <cstdio>

static int fail(const mpc::Status &status) {
  std::fprintf(stderr, "load: %s\n", status.toString().c_str());
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 2 && argc != 3)
    return 2;
  mpc::Result<mpc::Device> device = mpc::Device::cpu({.threads = 2});
  if (!device.ok())
    return fail(device.status());
  mpc::Result<mpc::Executable> model =
      mpc::loadExecutable(*device, argv[1], {.trusted = true});
  if (!model.ok())
    return fail(model.status());

  // Keras calls these compute_dtype, dtype and variable_dtype of a layer.
  if (argc == 3) {
    mpc::Result<mpc::LayerTypes> layer = model->layer(argv[2]);
    if (!layer.ok())
      return fail(layer.status());
    std::printf("%s: computes in %s, stores %s, keeps variables in %s\n",
                layer->path.c_str(), layer->computeType().c_str(),
                layer->storageType().c_str(), layer->variableType().c_str());
    for (const mpc::VariableType &variable : layer->variables)
      std::printf("  %s: %s\n", variable.name.c_str(), variable.type.c_str());
    return 0;
  }

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
