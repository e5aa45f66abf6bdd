//===- host.cpp - a program that embeds mpc -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a model at start-up and runs it from two threads.
// usage: host MODEL POLICY [cuda]
//
//===----------------------------------------------------------------------===//

#include <mpc/JIT/Engine.h>

#include <algorithm>
#include <cstdio>
#include <thread>

/// Prints a failure and returns the exit code.
static int fail(const mpc::Status &status) {
  std::fprintf(stderr, "host: %s\n", status.toString().c_str());
  for (const std::string &note : status.notes())
    std::fprintf(stderr, "  %s\n", note.c_str());
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 3 && argc != 4)
    return 2;
  // A device is shared by everything that runs on it.
  mpc::Result<mpc::Device> device =
      argc == 4 ? mpc::Device::cuda() : mpc::Device::cpu({.threads = 2});
  if (!device.ok())
    return fail(device.status());
  mpc::Result<mpc::Engine> engine = mpc::Engine::create(*device);
  if (!engine.ok())
    return fail(engine.status());

  mpc::CompileOptions options;
  options.policy = argv[2];
  options.onDiagnostic = [](const mpc::Diagnostic &message) {
    if (message.severity == mpc::Diagnostic::Severity::Warning)
      std::fprintf(stderr, "%s: %s\n", message.where.c_str(),
                   message.text.c_str());
  };
  mpc::Result<mpc::Executable> model = engine->compile(argv[1], options);
  if (!model.ok())
    return fail(model.status());

  // One buffer per input, of the type that the program declares.
  std::vector<mpc::Buffer> inputs;
  for (const mpc::ProgramValue &input : model->program().arguments) {
    mpc::Result<mpc::Buffer> buffer = mpc::Buffer::allocate(input.type);
    if (!buffer.ok())
      return fail(buffer.status());
    if (input.type.element == mpc::ElementType::F32)
      for (float &value : buffer->as<float>())
        value = 0.5f;
    inputs.push_back(*buffer);
  }

  // An executable may run on several threads at once.
  bool agree = true;
  mpc::Result<std::vector<mpc::Buffer>> first = model->run(inputs);
  if (!first.ok())
    return fail(first.status());
  std::thread other([&] {
    mpc::Result<std::vector<mpc::Buffer>> second = model->run(inputs);
    for (size_t i = 0; second.ok() && i < second->size(); ++i) {
      auto a = (*first)[i].as<uint8_t>(), b = (*second)[i].as<uint8_t>();
      agree &= std::equal(a.begin(), a.end(), b.begin(), b.end());
    }
    agree &= second.ok();
  });
  other.join();

  for (size_t i = 0; i < first->size(); ++i) {
    const mpc::ProgramValue &output = model->program().results[i];
    std::printf("%s %s", output.name.c_str(), output.type.toString().c_str());
    if (output.type.element == mpc::ElementType::F32) {
      double sum = 0;
      for (float value : (*first)[i].as<float>())
        sum += value;
      std::printf(" sum %.3f", sum);
    }
    std::printf("\n");
  }
  std::printf("%zu launches, threads %s\n", model->program().launches.size(),
              agree ? "agree" : "differ");
  return agree ? 0 : 1;
}
