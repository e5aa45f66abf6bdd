//===- Reporter.h - messages, documents and exit codes ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_REPORTER_H
#define MPC_TOOLS_MPC_REPORTER_H

#include "mpc/JIT/Options.h"
#include "mpc/Runtime/Status.h"

#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <vector>

namespace mpc::tool {

using Json = nlohmann::ordered_json;

/// Exit codes that scripts rely on.
enum ExitCode : int {
  kDone = 0,
  kBadInput = 1,
  kBadUsage = 2,
  kInternalError = 3,
  kCheckFailed = 4,
};

/// Where a command's words go: results to stdout (one JSON document under
/// --json), messages to stderr. Ends each command with its exit code.
class Reporter {
public:
  Reporter(bool json, bool quiet) : json(json), quiet(quiet) {}
  /// Of a process that runs as one of several ranks: rank 0 speaks for all,
  /// another one says only what it fails with, and who it is.
  Reporter(bool json, bool quiet, int rank)
      : json(json), quiet(quiet || rank != 0), rank(rank) {}

  /// Takes a message of the compiler: warnings appear at once (unless quiet),
  /// errors are kept until fail().
  void hear(const Diagnostic &message);
  /// Warnings heard so far, each once.
  const std::vector<Diagnostic> &warnings() const { return heardWarnings; }

  /// Prints every error, one line each, and returns the exit code.
  int fail(const Status &status);
  int fail(const std::vector<Status> &problems);

  /// Says on stderr what was chosen for the user, unless quiet.
  void note(const std::string &text);
  /// The same, but only the first time for `topic`.
  void noteOnce(const std::string &topic, const std::string &text);
  /// Writes a line of text for people; nothing under --json. Line feeds are
  /// escaped: names may hold some.
  void line(const std::string &text);
  /// Writes lines of text for people, in which names were escaped; nothing
  /// under --json.
  void lines(const std::string &text);
  /// Writes the document under --json.
  void document(const Json &document);
  /// Ends a command: `code`, or kBadInput where stdout could not be written.
  int finish(int code);

private:
  bool json;
  bool quiet;
  int rank = 0;
  std::vector<Diagnostic> heardErrors, heardWarnings;
  std::set<std::string> notedTopics;
};

/// Prints a warning to stderr where no Reporter is at hand.
void printWarning(const std::string &where, const std::string &text);

/// `value`, or NaN, which is written as null, where it is not finite.
double jsonNumber(double value);

/// Columns padded to their widest cell; cells of `rightAligned` columns to the
/// right. The first row is the heading. Cells are made printable.
std::string formatTable(const std::vector<std::vector<std::string>> &cells,
                        const std::vector<bool> &rightAligned);

/// "1.23e-05", "12.3": a number for a table.
std::string shortNumber(double value);
/// "1.2 MB".
std::string shortBytes(double bytes);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_REPORTER_H
