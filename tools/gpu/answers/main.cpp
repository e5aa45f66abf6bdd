//===- main.cpp - Runs many compiled models in one process ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Starts the device and its libraries, which takes seconds, only once. Each
// line of standard input has, separated by tabs, an .mpcx file, the .npz with
// its inputs and the .npz for its outputs, and is answered by a line of JSON.
// usage: answers [DEVICE=cuda]
//
//===----------------------------------------------------------------------===//

#include "PreparedModel.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Npy.h"

#include <iostream>
#include <sstream>

using namespace mpc;
using namespace mpc::tool;

/// Runs one file; returns the fields of the answer.
static Result<Json> answer(const std::string &line, const Device &device,
                           const std::string &deviceName) {
  std::istringstream words(line);
  std::string model, inputs, output;
  if (!std::getline(words, model, '\t') || !std::getline(words, inputs, '\t') ||
      !std::getline(words, output, '\t'))
    return Status(StatusCode::InvalidArgument, "line",
                  "names no model, inputs and outputs apart by tabs");
  CommonOptions options;
  options.model = model;
  options.device = deviceName;
  Result<std::vector<NamedArray>> arrays =
      loadArrays({inputs}, /*maxMemory=*/0);
  if (!arrays.ok())
    return arrays.status();
  Reporter reporter(/*json=*/true, /*quiet=*/true);
  PreparedModel subject;
  if (std::vector<Status> problems = prepareSubject(
          options, *arrays, /*draw=*/false, device, reporter, subject);
      !problems.empty())
    return problems.front();
  auto start = Clock::now();
  Result<std::vector<Buffer>> results = subject.executable->run(subject.inputs);
  if (!results.ok())
    return results.status();
  double took = millisecondsSince(start);
  std::vector<NamedArray> written;
  const std::vector<ProgramValue> &values =
      subject.executable->program().results;
  for (size_t i = 0; i < results->size(); ++i)
    written.push_back({values[i].name, (*results)[i], ""});
  if (Status status = writeNpz(output, written); !status.ok())
    return status;
  return Json{{"milliseconds", took}, {"load_ms", subject.compileMs}};
}

int main(int argc, char **argv) {
  std::string name = argc > 1 ? argv[1] : "cuda";
  CommonOptions options;
  options.device = name;
  Result<Device> device = makeDevice(options);
  if (!device.ok()) {
    std::cerr << device.status().toString() << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    Result<Json> made = answer(line, *device, name);
    Json reply = made.ok() ? *made : Json{{"error", made.status().toString()}};
    std::cout << jsonText(reply) << std::endl;
  }
  return 0;
}
