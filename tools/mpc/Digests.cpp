//===- Digests.cpp - digests of results -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Digests.h"

#include "NamedArrays.h"

#include "Runtime/Sha256.h"

#include "mpc/Support/Files.h"
#include "mpc/Support/StrictJson.h"

using namespace mpc;
using namespace mpc::tool;

std::string tool::digestOf(const Buffer &array) {
  // The zero byte ends the type.
  std::string type = array.type().toString();
  std::span<const std::byte> parts[] = {
      std::as_bytes(std::span(type.c_str(), type.size() + 1)),
      {static_cast<const std::byte *>(array.data()), array.size()}};
  return detail::toHex(detail::sha256OfParts(parts));
}

Json tool::digestsOf(std::span<const ProgramValue> values,
                     std::span<const Buffer> arrays) {
  Json digests = Json::object();
  for (size_t i = 0; i < values.size(); ++i)
    digests[values[i].name] = digestOf(arrays[i]);
  return digests;
}

/// A document of `mpc run --digest --json`.
struct Recorded {
  nlohmann::json inputs, outputs, bitClass;
};

static Result<Recorded> readDigests(const std::string &file) {
  Result<std::string> text = readWholeFile(file);
  if (!text.ok())
    return text.status();
  Result<nlohmann::json> document =
      parseStrictJson(*text, file, "holds digests");
  if (!document.ok())
    return document.status();
  Recorded recorded;
  auto take = [&](const char *key, nlohmann::json &into) {
    auto found = document->find(key);
    if (found != document->end())
      into = *found;
    return found != document->end();
  };
  auto isTable = [](const nlohmann::json &digests) {
    if (!digests.is_object())
      return false;
    for (const nlohmann::json &digest : digests)
      if (!digest.is_string())
        return false;
    return true;
  };
  auto digests = document->find("digests");
  if (digests != document->end() && digests->is_object()) {
    *document = nlohmann::json(*digests);
    if (take("inputs", recorded.inputs) && take("outputs", recorded.outputs) &&
        take("bit_class", recorded.bitClass) && isTable(recorded.inputs) &&
        isTable(recorded.outputs))
      return recorded;
  }
  return Status(StatusCode::InvalidArgument, file,
                "holds no digests; write it with mpc run --digest --json");
}

/// Returns a name or "none".
static std::string classText(const nlohmann::json &bitClass) {
  return bitClass.is_string() ? bitClass.get<std::string>() : "none";
}

int tool::checkDigests(const CommonOptions &options, const std::string &file) {
  Reporter reporter(options.json, options.quiet);
  Result<Recorded> recorded = readDigests(file);
  if (!recorded.ok())
    return reporter.fail(recorded.status());
  Result<std::vector<NamedArray>> arrays =
      loadArrays(options.inputs, options.maxMemory);
  if (!arrays.ok())
    return reporter.fail(arrays.status());
  Result<Device> device = makeDevice(options);
  if (!device.ok())
    return reporter.fail(device.status());
  PreparedModel subject;
  if (std::vector<Status> problems = prepareSubject(
          options, *arrays, /*draw=*/true, *device, reporter, subject);
      !problems.empty())
    return reporter.fail(problems);
  const Program &program = subject.executable->program();
  Json inputs = digestsOf(program.arguments, subject.inputs);
  for (auto &[name, digest] : recorded->inputs.items())
    if (!inputs.contains(name) || inputs[name] != digest)
      return reporter.fail(Status(StatusCode::InvalidArgument, file,
                                  "was recorded with another input \"" + name +
                                      "\"; give the same --input or --seed"));
  Result<std::vector<Buffer>> results =
      subject.executable->run(subject.inputs, {});
  if (!results.ok())
    return reporter.fail(results.status());

  Json outputs = digestsOf(program.results, *results), list = Json::array();
  std::vector<std::vector<std::string>> table = {
      {"output", "type", "sha256", "equal"}};
  bool ok = true;
  for (const ProgramValue &value : program.results) {
    auto wanted = recorded->outputs.find(value.name);
    if (wanted == recorded->outputs.end())
      return reporter.fail(
          Status(StatusCode::InvalidArgument, file,
                 "holds no digest of the output \"" + value.name + "\""));
    bool isEqual = *wanted == outputs[value.name];
    ok &= isEqual;
    list.push_back({{"name", value.name},
                    {"shape", value.type.shape},
                    {"type", std::string(elementTypeName(value.type.element))},
                    {"sha256", outputs[value.name]},
                    {"recorded", *wanted},
                    {"ok", isEqual}});
    table.push_back({value.name, value.type.toString(),
                     outputs[value.name].get<std::string>(),
                     isEqual ? "yes" : "NO"});
  }
  reporter.lines(formatTable(table, {false, false, false, false}));
  std::string ours = classText(subject.bitClass()),
              theirs = classText(recorded->bitClass);
  // Only results of one class are equal on all machines.
  if (!ok && (ours != theirs || ours == "none"))
    reporter.line("the bit classes are " + ours + " here and " + theirs +
                  " in " + file + "; bits are promised within one class only");
  reporter.line(ok ? "all digests are equal" : "the digests differ");
  reporter.document({{"model", options.model},
                     {"policy", subject.policy},
                     {"device", device->name()},
                     {"isa", subject.isa},
                     {"bit_class", subject.bitClass()},
                     {"ok", ok},
                     {"digests", list}});
  return reporter.finish(ok ? kDone : kCheckFailed);
}
