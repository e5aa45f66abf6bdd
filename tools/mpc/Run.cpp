//===- Run.cpp - mpc run --------------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Digests.h"
#include "RunCommands.h"

#include "mpc/Runtime/Finiteness.h"
#include "mpc/Support/Files.h"

#include <chrono>
#include <map>

using namespace mpc;
using namespace mpc::tool;

int tool::runCommand(const RunArguments &options) {
  Reporter reporter(options.common.json, options.common.quiet);
  Result<std::vector<NamedArray>> arrays =
      loadArrays(options.common.inputs, options.common.maxMemory);
  if (!arrays.ok())
    return reporter.fail(arrays.status());
  if (!options.output.empty())
    if (Status status = checkWritable(options.output); !status.ok())
      return reporter.fail(status);
  Result<Device> device = makeDevice(options.common);
  if (!device.ok())
    return reporter.fail(device.status());
  PreparedModel subject;
  if (std::vector<Status> problems =
          prepareSubject(options.common, *arrays, /*draw=*/options.digest,
                         *device, reporter, subject);
      !problems.empty())
    return reporter.fail(problems);

  const Program &program = subject.executable->program();
  std::vector<int64_t> suspects;
  RunOptions run;
  run.nonFinite = &suspects;
  auto start = std::chrono::steady_clock::now();
  Result<std::vector<Buffer>> results =
      subject.executable->run(subject.inputs, run);
  std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - start;
  if (!results.ok())
    return reporter.fail(results.status());
  std::map<std::string, int64_t> nonFinite;
  for (const NonFiniteResult &result :
       findNonFinite(program, subject.inputs, *results, suspects)) {
    nonFinite[result.name] = result.count;
    reporter.hear({Diagnostic::Severity::Warning,
                   "run",
                   options.common.model,
                   "",
                   result.text(),
                   {}});
  }

  std::vector<NamedArray> written;
  written.reserve(results->size());
  for (size_t i = 0; i < results->size(); ++i)
    written.push_back({program.results[i].name, (*results)[i], ""});
  if (!options.output.empty()) {
    bool single =
        options.output.size() > 4 &&
        options.output.compare(options.output.size() - 4, 4, ".npy") == 0;
    if (single && written.size() != 1)
      return reporter.fail(Status(StatusCode::InvalidArgument, options.output,
                                  "holds one array, but the model has " +
                                      std::to_string(written.size()) +
                                      " outputs; name an .npz"));
    Status status = single ? writeNpy(options.output, written.front().data)
                           : writeNpz(options.output, written);
    if (!status.ok())
      return reporter.fail(status);
  }

  Json outputs = Json::object();
  for (const ProgramValue &value : program.results) {
    std::string type(elementTypeName(value.type.element));
    Json file = options.output.empty() ? Json(nullptr) : Json(options.output);
    outputs[value.name] = {
        {"shape", value.type.shape}, {"type", type}, {"file", file}};
    if (auto found = nonFinite.find(value.name); found != nonFinite.end())
      outputs[value.name]["non_finite"] = found->second;
    reporter.line(value.name + ": " + value.type.toString() +
                  (options.output.empty() ? "" : " -> " + options.output));
  }
  reporter.line(shortNumber(took.count()) + " ms");
  Json document = {{"outputs", outputs},
                   {"milliseconds", took.count()},
                   {"compile_ms", subject.compileMs},
                   {"cached", subject.isCached},
                   {"verified", options.common.verifyFiles},
                   {"bit_class", subject.bitClass()}};
  if (options.digest) {
    Json digests = digestsOf(program.results, *results);
    for (auto &[name, digest] : digests.items())
      reporter.line("sha256 " + digest.get<std::string>() + " " + name);
    Json bitClass = subject.bitClass();
    reporter.line("bit class: " + (bitClass.is_string()
                                       ? bitClass.get<std::string>()
                                       : "none"));
    document["digests"] = {
        {"bit_class", bitClass},
        {"inputs", digestsOf(program.arguments, subject.inputs)},
        {"outputs", digests}};
  }
  reporter.document(document);
  return reporter.finish(kDone);
}
