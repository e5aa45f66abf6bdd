//===- HelpFormatter.h - help, man pages and shell completion ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All are generated from the declared flags. A flag's description is a short
// phrase, optionally followed by ". " and details, which only --help-all and
// man pages print. A command's footer holds its examples, one per line.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_HELPFORMATTER_H
#define MPC_TOOLS_MPC_HELPFORMATTER_H

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace mpc::tool {

/// Groups of flags in --help. The flags of kMore are listed by name only.
inline constexpr const char *kModelGroup = "model";
inline constexpr const char *kPrecisionGroup = "precision";
inline constexpr const char *kTargetGroup = "target";
inline constexpr const char *kOutputGroup = "output";
inline constexpr const char *kMoreGroup = "more";

/// Help for terminals of 80 columns, with at most 40 lines per command.
class HelpFormatter : public CLI::FormatterBase {
public:
  std::string make_help(const CLI::App *app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

/// Returns the sentence about a command line that CLI11 refused with `error`:
/// names the unknown command or flag and similar ones.
std::string explainUsage(const CLI::App &app,
                         const std::vector<std::string> &words,
                         const CLI::ParseError &error);

/// Returns the completion script of the commands of `app` for "bash", "zsh" or
/// "fish"; `policies` are the values of --policy.
std::string completionScript(const CLI::App &app, const std::string &shell,
                             const std::vector<std::string> &policies);

/// Returns the man page (troff) of a command, or of the program itself.
std::string manPage(const CLI::App &command, const std::string &version);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_HELPFORMATTER_H
