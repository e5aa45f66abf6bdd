//===- TraceFile.cpp - timeline of a step ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The format: Trace Event Format, Google, 2016.
//
//===----------------------------------------------------------------------===//

#include "TraceFile.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Files.h"

#include <nlohmann/json.hpp>

using namespace mpc;
using namespace mpc::tool;

/// Returns the events of one rank, a list.
static nlohmann::json eventsOf(int rank, const Program &program,
                               const RunTrace &trace) {
  nlohmann::json events = nlohmann::json::array();
  auto name = [&](const char *what, int row, const std::string &text) {
    events.push_back({{"name", what},
                      {"ph", "M"},
                      {"pid", rank},
                      {"tid", row},
                      {"args", {{"name", text}}}});
  };
  name("process_name", 0, "rank " + std::to_string(rank));
  name("thread_name", 0, "launches");
  name("thread_name", 1, "messages");
  auto add = [&](int row, const RunTrace::Span &span) {
    const Launch &launch = program.launches[size_t(span.launch)];
    constexpr double kMicro = 1e6;
    events.push_back(
        {{"name", launch.kernel},
         {"cat", launch.kind},
         {"ph", "X"},
         {"pid", rank},
         {"tid", row},
         {"ts", kMicro * span.begin},
         {"dur", kMicro * (span.end - span.begin)},
         {"args", {{"bytes", launch.bytes}, {"ops", launch.ops}}}});
  };
  for (const RunTrace::Span &span : trace.launches)
    add(0, span);
  for (const RunTrace::Span &span : trace.messages)
    add(1, span);
  return events;
}

Status tool::writeTrace(const std::string &path, const Program &program,
                        const RunTrace &trace,
                        const std::shared_ptr<Communicator> &group) {
  nlohmann::json events = eventsOf(group ? group->rank() : 0, program, trace);
  if (group && group->size() > 1) {
    Result<std::vector<std::string>> all =
        gatherTexts(*group, jsonText(events));
    if (!all.ok())
      return all.status();
    if (group->rank() != 0)
      return {};
    events = nlohmann::json::array();
    for (const std::string &text : *all)
      for (nlohmann::json &event : nlohmann::json::parse(text))
        events.push_back(std::move(event));
  }
  std::string text = jsonText(nlohmann::json{{"traceEvents", std::move(events)},
                                             {"displayTimeUnit", "ms"}});
  return writeWholeFile(path, {text});
}
