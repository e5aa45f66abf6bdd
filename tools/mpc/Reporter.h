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

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace mpc::tool {

using Json = nlohmann::ordered_json;

/// Exit codes for scripts.
enum ExitCode : int {
  kDone = 0,
  kBadInput = 1,
  kBadUsage = 2,
  kInternalError = 3,
  kCheckFailed = 4,
  /// Plus the number of the signal that ended the work early: 130 for Ctrl-C.
  kStoppedBySignal = 128,
};

/// Output of a command: results to stdout (one JSON document with --json),
/// messages to stderr; determines the exit code.
class Reporter {
public:
  Reporter(bool json, bool quiet) : json(json), quiet(quiet) {}
  /// For one of several ranks: rank 0 prints everything, the others only their
  /// failures, with their rank.
  Reporter(bool json, bool quiet, int rank)
      : json(json), quiet(quiet || rank != 0), rank(rank) {}

  /// Receives a diagnostic: warnings are printed at once (unless quiet), errors
  /// are held until fail().
  void hear(const Diagnostic &message);
  /// Warnings so far, without duplicates.
  const std::vector<Diagnostic> &warnings() const { return heardWarnings; }

  /// Prints every error, one line each, and returns the exit code.
  int fail(const Status &status);
  int fail(const std::vector<Status> &problems);
  /// Prints the error of a check that failed, under a `code` for scripts;
  /// returns kCheckFailed.
  int failCheck(const std::string &code, const std::string &where,
                const std::string &text);

  /// Prints a note about an automatic choice to stderr, unless quiet.
  void note(const std::string &text);
  /// The same, but only the first time for `topic`, and before the next output:
  /// not if the command fails first.
  void noteOnce(const std::string &topic, const std::string &text);
  /// Prints a line of text; nothing with --json. Line feeds are escaped, since
  /// names may contain them.
  void line(const std::string &text);
  /// Prints lines of text with already escaped names; nothing with --json.
  void lines(const std::string &text);
  /// Sets a callback that is called before each line of output, to clear a
  /// progress bar.
  void onOutput(std::function<void()> callback) {
    beforeOutput = std::move(callback);
  }
  /// Writes the document with --json.
  void document(const Json &document);
  /// Ends a command: returns `code`, or kBadInput if stdout could not be
  /// written.
  int finish(int code);

private:
  void print(const std::string &text);
  /// Prints an error; returns its entry in the document.
  Json printError(const std::string &code, const std::string &where,
                  const std::string &text);
  void printPending();

  bool json;
  bool quiet;
  int rank = 0;
  std::vector<Diagnostic> heardErrors, heardWarnings;
  std::set<std::string> notedTopics;
  std::vector<std::string> pendingNotes;
  std::function<void()> beforeOutput;
};

/// Prints a warning to stderr without a Reporter.
void printWarning(const std::string &where, const std::string &text);

/// Returns `value`, or NaN, which is written as null, if it is not finite.
double jsonNumber(double value);

/// Formats a table, padding columns to their widest cell; `rightAligned`
/// columns are right-aligned. The first row is the heading. Cells are made
/// printable.
std::string formatTable(const std::vector<std::vector<std::string>> &cells,
                        const std::vector<bool> &rightAligned);

/// Formats a number for a table: "1.23e-05", "12.3".
std::string shortNumber(double value);
/// Formats a size: "1.2 MB".
std::string shortBytes(double bytes);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_REPORTER_H
