//===- Reporter.cpp - messages, documents and exit codes ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reporter.h"

#include "CrashHandler.h"

#include "mpc/Support/EscapedText.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

using namespace mpc;
using namespace mpc::tool;

/// Scripts expect one line per message; kernel compilers emit several.
static std::string onOneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return printable(text);
}

static void printMessage(const char *severity, const std::string &where,
                         const std::string &text) {
  std::string line = where.empty() ? text : where + ": " + text;
  std::fprintf(stderr, "%s: %s\n", severity, onOneLine(line).c_str());
}

void tool::printWarning(const std::string &where, const std::string &text) {
  printMessage("warning", where, text);
}

void Reporter::hear(const Diagnostic &message) {
  switch (message.severity) {
  case Diagnostic::Severity::Error:
    heardErrors.push_back(message);
    break;
  case Diagnostic::Severity::Warning: {
    bool known = std::any_of(
        heardWarnings.begin(), heardWarnings.end(), [&](const Diagnostic &w) {
          return w.where == message.where && w.text == message.text;
        });
    if (known)
      break;
    heardWarnings.push_back(message);
    if (quiet)
      break;
    if (beforeOutput)
      beforeOutput();
    printMessage("warning", message.where, message.text);
    break;
  }
  case Diagnostic::Severity::Remark:
    break;
  }
}

int Reporter::fail(const Status &status) {
  return fail(std::vector<Status>{status});
}

Json Reporter::printError(const std::string &code, const std::string &where,
                          const std::string &text) {
  std::string who = rank ? "rank " + std::to_string(rank) : "";
  printMessage("error",
               who.empty() || where.empty() ? who + where : who + ": " + where,
               text);
  return {{"code", code}, {"where", where}, {"text", onOneLine(text)}};
}

int Reporter::failCheck(const std::string &code, const std::string &where,
                        const std::string &text) {
  pendingNotes.clear();
  if (beforeOutput)
    beforeOutput();
  document({{"errors", Json::array({printError(code, where, text)})}});
  return finish(kCheckFailed);
}

int Reporter::fail(const std::vector<Status> &problems) {
  pendingNotes.clear();
  if (beforeOutput)
    beforeOutput();
  Json errors = Json::array();
  auto report = [&](const std::string &code, const std::string &where,
                    const std::string &text) {
    errors.push_back(printError(code, where, text));
  };
  // The compiler's diagnostics have the best location; a status that repeats
  // the first of them adds nothing.
  for (const Diagnostic &error : heardErrors) {
    report(statusCodeName(StatusCode::InvalidArgument), error.where,
           error.text);
    for (const std::string &note : error.notes)
      printMessage("note", "", note);
  }
  int exitCode = kBadInput;
  for (const Status &problem : problems) {
    if (problem.code() == StatusCode::Internal)
      exitCode = kInternalError;
    bool known = std::any_of(
        heardErrors.begin(), heardErrors.end(), [&](const Diagnostic &e) {
          return e.where == problem.where() && e.text == problem.text();
        });
    if (known)
      continue;
    report(statusCodeName(problem.code()), problem.where(), problem.text());
    for (const std::string &note : problem.notes())
      printMessage("note", "", note);
  }
  if (exitCode == kInternalError) {
    std::string path = writeReproducer("an internal error");
    std::fprintf(stderr,
                 "note: this is a bug of mpc; please report it with %s\n",
                 path.c_str());
  }
  if (json)
    document({{"errors", errors}});
  return finish(exitCode);
}

void Reporter::noteOnce(const std::string &topic, const std::string &text) {
  if (notedTopics.insert(topic).second)
    pendingNotes.push_back(text);
}

void Reporter::printPending() {
  for (const std::string &text : std::exchange(pendingNotes, {}))
    note(text);
}

void Reporter::note(const std::string &text) {
  if (quiet)
    return;
  printPending();
  if (beforeOutput)
    beforeOutput();
  printMessage("note", "", text);
}

void Reporter::print(const std::string &text) {
  printPending();
  if (json || rank != 0)
    return;
  if (beforeOutput)
    beforeOutput();
  std::fprintf(stdout, "%s\n", text.c_str());
}

void Reporter::line(const std::string &text) { print(printable(text)); }

void Reporter::lines(const std::string &text) { print(printableLines(text)); }

void Reporter::document(const Json &document) {
  printPending();
  if (!json || rank != 0)
    return;
  std::fprintf(stdout, "%s\n", jsonText(document).c_str());
}

int Reporter::finish(int code) {
  if (code == kDone)
    printPending();
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    printMessage("error", "standard output", "cannot be written");
    return code == kDone ? kBadInput : code;
  }
  return code;
}

double tool::jsonNumber(double value) {
  return std::isfinite(value) ? value
                              : std::numeric_limits<double>::quiet_NaN();
}

std::string
tool::formatTable(const std::vector<std::vector<std::string>> &cells,
                  const std::vector<bool> &rightAligned) {
  std::vector<std::vector<std::string>> rows = cells;
  for (auto &row : rows)
    for (std::string &cell : row)
      cell = printable(cell);
  std::vector<size_t> widths(rightAligned.size(), 0);
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      std::string padding(widths[i] - row[i].size(), ' ');
      line += (i ? "  " : "") +
              (rightAligned[i] ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (text.empty() ? "" : "\n") + line;
  }
  return text;
}

std::string tool::shortNumber(double value) {
  char text[32];
  double size = std::fabs(value);
  const char *form = value == 0                    ? "%.0f"
                     : size >= 1000 && size < 1e7  ? "%.0f"
                     : size >= 0.01 && size < 1000 ? "%.3g"
                                                   : "%.2e";
  std::snprintf(text, sizeof(text), form, value);
  return text;
}

std::string tool::shortBytes(double bytes) {
  const char *units[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(units); ++unit)
    bytes /= 1000;
  char text[32];
  std::snprintf(text, sizeof(text), unit ? "%.1f %s" : "%.0f %s", bytes,
                units[unit]);
  return text;
}
