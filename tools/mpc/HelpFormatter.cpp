//===- HelpFormatter.cpp - help, man pages and shell completion -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HelpFormatter.h"

#include "mpc/Runtime/Suggestions.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <sstream>

using namespace mpc;
using namespace mpc::tool;

static constexpr size_t kColumns = 80;
/// Column at which descriptions start.
static constexpr size_t kIndent = 25;

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

static bool startsWith(const std::string &text, const char *start) {
  return text.rfind(start, 0) == 0;
}

/// Splits "a,b,c", or lines, at `separator`.
static std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    if (!part.empty())
      parts.push_back(part);
  return parts;
}

static std::string join(const std::vector<std::string> &parts,
                        const std::string &separator) {
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : separator) + part;
  return text;
}

/// Returns the part of a type name that a validator has set, else all of it:
/// "TEXT:{a,b}" -> "{a,b}".
static std::string typeName(const CLI::Option &option) {
  std::string type = option.get_type_name();
  size_t colon = type.find(':');
  return colon == std::string::npos ? type : type.substr(colon + 1);
}

/// Returns the values that a flag allows; empty if they are not a list.
static std::vector<std::string> valuesOf(const CLI::Option &option) {
  std::string type = typeName(option);
  if (!startsWith(type, "{"))
    return {};
  return split(type.substr(1, type.size() - 2), ',');
}

/// Formats the value of a flag: "FILE", "N", "a|b"; empty for a switch.
static std::string valueText(const CLI::Option &option) {
  if (!option.get_option_text().empty())
    return option.get_option_text();
  if (std::vector<std::string> values = valuesOf(option); !values.empty())
    return join(values, "|");
  std::string type = typeName(option);
  if (startsWith(type, "INT") || startsWith(type, "UINT"))
    return "N";
  return startsWith(type, "FLOAT") ? "X" : type;
}

/// Formats all names of a flag, without dashes of positional arguments, or the
/// short and the first long one.
static std::string nameText(const CLI::Option &option, bool all) {
  if (option.get_positional())
    return option.get_name(/*positional=*/true, false);
  std::vector<std::string> names;
  for (const std::string &name : option.get_snames())
    names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    if (all || names.size() < 1 || name == option.get_lnames().front())
      names.push_back("--" + name);
  return join(names, ", ");
}

/// Formats the description, without details unless `all`, and the default.
static std::string describe(const CLI::Option &option, bool all) {
  std::string text = option.get_description();
  if (size_t end = text.find(". "); !all && end != std::string::npos)
    text.resize(end);
  const std::string &value = option.get_default_str();
  if (!value.empty())
    text += " [" + value + "]";
  return text;
}

/// Returns the flags of a group that help shows, without help itself.
static std::vector<const CLI::Option *> flagsOf(const CLI::App &app,
                                                const std::string &group) {
  std::vector<const CLI::Option *> flags =
      app.get_options([&](const CLI::Option *option) {
        return option->get_group() == group && option != app.get_help_ptr() &&
               option != app.get_help_all_ptr();
      });
  // Arguments first.
  for (size_t i = 1; i < flags.size(); ++i)
    if (flags[i]->get_positional())
      std::rotate(flags.begin(), flags.begin() + i, flags.begin() + i + 1);
  return flags;
}

/// Returns the groups of a command in the order of help: the model, the
/// command's own, those that commands share.
static std::vector<std::string> groupsOf(const CLI::App &app) {
  std::vector<std::string> last = {kPrecisionGroup, kTargetGroup, kOutputGroup,
                                   kMoreGroup},
                           groups;
  auto add = [&](const std::string &group) {
    if (!group.empty() && !flagsOf(app, group).empty() &&
        std::find(groups.begin(), groups.end(), group) == groups.end())
      groups.push_back(group);
  };
  add(kModelGroup);
  for (const std::string &group : app.get_groups())
    if (std::find(last.begin(), last.end(), group) == last.end())
      add(group);
  for (const std::string &group : last)
    add(group);
  return groups;
}

/// Flags without a group of their own are those of the command.
static std::string titleOf(const CLI::App &app, const std::string &group) {
  return group == "Options" ? app.get_name() : group;
}

//===----------------------------------------------------------------------===//
// Help
//===----------------------------------------------------------------------===//

/// Formats `text` in lines that start at `column` after `first`.
static std::string wrap(const std::string &first, const std::string &text,
                        size_t column) {
  std::string lines, line = first;
  if (line.size() + 2 > column) {
    lines = line + "\n";
    line.clear();
  }
  line.resize(column, ' ');
  bool isFirst = true;
  for (const std::string &word : split(text, ' ')) {
    if (!isFirst && line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line.assign(column, ' ');
      isFirst = true;
    }
    line += (isFirst ? "" : " ") + word;
    isFirst = false;
  }
  return lines + line + "\n";
}

static std::string usageLine(const CLI::App &app, const std::string &name) {
  std::string text = "usage: " + name + " [FLAGS]";
  for (const CLI::Option *option : app.get_options(
           [](const CLI::Option *o) { return o->get_positional(); }))
    text += option->get_required() ? " " + nameText(*option, false)
                                   : " [" + nameText(*option, false) + "]";
  return text + "\n";
}

static std::string programHelp(const CLI::App &app) {
  std::string text = app.get_name() + ": " + app.get_description() +
                     "\nusage: " + app.get_name() + " COMMAND [FLAGS] ...\n";
  std::vector<std::string> groups;
  for (const CLI::App *command : app.get_subcommands({}))
    if (!command->get_group().empty() &&
        std::find(groups.begin(), groups.end(), command->get_group()) ==
            groups.end())
      groups.push_back(command->get_group());
  for (const std::string &group : groups) {
    text += group + "\n";
    for (const CLI::App *command : app.get_subcommands({}))
      if (command->get_group() == group)
        text +=
            wrap("  " + command->get_name(), command->get_description(), 17);
  }
  text += "examples\n";
  for (const std::string &example : split(app.get_footer(), '\n'))
    text += "  " + example + "\n";
  return text + app.get_name() + " COMMAND --help describes a command, " +
         app.get_name() + " --version prints the version\n";
}

static std::string commandHelp(const CLI::App &app, const std::string &name,
                               bool all) {
  std::string text =
      name + ": " + app.get_description() + "\n" + usageLine(app, name);
  bool hasDetails = all;
  for (const std::string &group : groupsOf(app)) {
    std::vector<const CLI::Option *> flags = flagsOf(app, group);
    if (group == kMoreGroup && !all) {
      std::string names;
      for (const CLI::Option *flag : flags)
        names += (names.empty() ? "" : " ") + nameText(*flag, false);
      text += wrap(group, names, 6);
      continue;
    }
    text += titleOf(app, group) + "\n";
    for (const CLI::Option *flag : flags) {
      std::string value = valueText(*flag);
      text +=
          wrap("  " + nameText(*flag, all) +
                   (value.empty() || flag->get_positional() ? "" : " " + value),
               describe(*flag, all), kIndent);
    }
  }
  if (std::vector<std::string> examples = split(app.get_footer(), '\n');
      !examples.empty()) {
    text += "examples\n";
    for (const std::string &example : examples)
      text += "  " + example + "\n";
  }
  if (!hasDetails)
    text += name + " --help-all describes every flag in full\n";
  return text;
}

std::string HelpFormatter::make_help(const CLI::App *app, std::string name,
                                     CLI::AppFormatMode mode) const {
  bool all = mode == CLI::AppFormatMode::All;
  if (app->get_parent())
    return commandHelp(*app, name, all);
  std::string text = programHelp(*app);
  if (all)
    for (const CLI::App *command : app->get_subcommands({}))
      text +=
          "\n" + commandHelp(*command, name + " " + command->get_name(), all);
  return text;
}

//===----------------------------------------------------------------------===//
// Usage errors
//===----------------------------------------------------------------------===//

/// Returns a sentence about a flag that `command` lacks.
static std::string describeUnknownFlag(const CLI::App &command,
                                       const std::string &given) {
  std::string word = given.substr(0, given.find('='));
  std::vector<std::string> known;
  for (const CLI::Option *option :
       command.get_options([](const CLI::Option *) { return true; }))
    for (const std::string &name : option->get_lnames())
      known.push_back("--" + name);
  return "unknown flag '" + word + "'" + didYouMean(word, known) + "; mpc " +
         command.get_name() + " --help lists the flags";
}

/// Returns CLI11's sentence about the number of a flag's values in plain words.
static std::string describeMismatch(const std::string &line) {
  std::string flag = line.substr(0, line.find(": "));
  if (line.ends_with(" missing"))
    return flag + " needs a value";
  if (line.find("At Most 1 ") != std::string::npos)
    return flag + " is given " + split(line, ' ').back() + " times";
  return line;
}

std::string tool::explainUsage(const CLI::App &app,
                               const std::vector<std::string> &words,
                               const CLI::ParseError &error) {
  std::string text = error.what(), line = text.substr(0, text.find('\n'));
  std::vector<std::string> names;
  const CLI::App *command = nullptr;
  for (const CLI::App *known : app.get_subcommands({})) {
    names.push_back(known->get_name());
    if (words.size() > 1 && known->get_name() == words[1])
      command = known;
  }
  if (!command && words.size() > 1) {
    bool isFlag = startsWith(words[1], "-");
    if (app.get_option_no_throw("--" + words[1]))
      names = {"--" + words[1]};
    else if (isFlag)
      names = {"--help", "--help-all", "--version"};
    return (isFlag ? "unknown flag '" : "unknown command '") + words[1] + "'" +
           didYouMean(words[1], names) + "; mpc --help lists the commands";
  }
  if (error.get_exit_code() == int(CLI::ExitCodes::ArgumentMismatch))
    return describeMismatch(line);
  if (!command)
    return "a command is required; mpc --help lists them";
  auto isFlag = [](const std::string &word) {
    return word.size() > 1 && word[0] == '-' && !std::isdigit(word[1]);
  };
  if (error.get_exit_code() != int(CLI::ExitCodes::ExtrasError)) {
    // CLI11 reports a missing argument before an unknown flag.
    for (size_t i = 2; i < words.size() && words[i] != "--"; ++i)
      if (std::string flag = words[i].substr(0, words[i].find('='));
          error.get_name() == "RequiredError" && isFlag(flag) &&
          !command->get_option_no_throw(flag))
        return describeUnknownFlag(*command, flag);
    return line;
  }
  // CLI11 has forgotten the words, but lists them after a colon.
  std::vector<std::string> extras = split(line, ' ');
  auto flag = std::find_if(extras.begin(), extras.end(), isFlag);
  if (flag == extras.end())
    return "unexpected argument '" + line.substr(line.find(": ") + 2) + "'";
  return describeUnknownFlag(*command, *flag);
}

//===----------------------------------------------------------------------===//
// Shell completion
//===----------------------------------------------------------------------===//

/// Quotes a text for a shell.
static std::string quoted(const std::string &text) {
  std::string result = "'";
  for (char c : text)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

namespace {

/// One long flag with what shells need.
struct CompletedFlag {
  std::string name, text;
  bool takesValue = false;
  std::vector<std::string> values;
};

} // namespace

static std::vector<CompletedFlag>
completedFlags(const CLI::App &command,
               const std::vector<std::string> &policies) {
  std::vector<CompletedFlag> flags;
  for (const CLI::Option *option : command.get_options(
           [](const CLI::Option *o) { return !o->get_group().empty(); }))
    for (const std::string &name : option->get_lnames())
      flags.push_back({name, describe(*option, /*all=*/false),
                       !valueText(*option).empty(),
                       name == "policy" ? policies : valuesOf(*option)});
  return flags;
}

std::string tool::completionScript(const CLI::App &app,
                                   const std::string &shell,
                                   const std::vector<std::string> &policies) {
  std::vector<const CLI::App *> commands = app.get_subcommands({});
  std::string text, names;
  for (const CLI::App *command : commands)
    names += (names.empty() ? "" : " ") + command->get_name();
  if (shell == "bash") {
    text = "# Completion of mpc in bash: source this file.\n_mpc() {\n"
           "  local word=${COMP_WORDS[COMP_CWORD]} before= flags= values=\n"
           "  ((COMP_CWORD > 1)) && before=${COMP_WORDS[COMP_CWORD-1]}\n"
           "  COMPREPLY=()\n  if ((COMP_CWORD == 1)); then\n"
           "    COMPREPLY=($(compgen -W \"" +
           names +
           " --help --version\" -- \"$word\"))\n    return\n  fi\n"
           "  case ${COMP_WORDS[1]} in\n";
    for (const CLI::App *command : commands) {
      std::string flags, values;
      for (const CompletedFlag &flag : completedFlags(*command, policies)) {
        flags += " --" + flag.name;
        if (!flag.values.empty())
          values += "      --" + flag.name +
                    ") values=" + quoted(join(flag.values, " ")) + ";;\n";
      }
      text += "  " + command->get_name() + ")\n    flags='" + flags.substr(1) +
              "'\n";
      if (!values.empty())
        text += "    case $before in\n" + values + "    esac;;\n";
      else
        text += "    ;;\n";
    }
    return text +
           "  esac\n  if [[ $values ]]; then\n"
           "    COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
           "  elif [[ $word == -* ]]; then\n"
           "    COMPREPLY=($(compgen -W \"$flags\" -- \"$word\"))\n"
           "  else\n    COMPREPLY=($(compgen -f -- \"$word\"))\n  fi\n}\n"
           "complete -o filenames -F _mpc mpc\n";
  }
  if (shell == "zsh") {
    text = "#compdef mpc\n# Completion of mpc in zsh: a file _mpc in $fpath.\n"
           "local -a commands\ncommands=(\n";
    for (const CLI::App *command : commands)
      text += "  " +
              quoted(command->get_name() + ":" + command->get_description()) +
              "\n";
    text += ")\nif (( CURRENT == 2 )); then\n  _describe command commands\n"
            "  return\nfi\nlocal name=$words[2]\nshift words\n"
            "(( CURRENT-- ))\ncase $name in\n";
    for (const CLI::App *command : commands) {
      text += command->get_name() + ")\n  _arguments";
      for (const CompletedFlag &flag : completedFlags(*command, policies)) {
        std::string about = flag.text;
        std::replace(about.begin(), about.end(), '[', '(');
        std::replace(about.begin(), about.end(), ']', ')');
        std::string action = !flag.takesValue ? ""
                             : flag.values.empty()
                                 ? ":value:_files"
                                 : ":value:(" + join(flag.values, " ") + ")";
        text += " \\\n    " +
                quoted("*--" + flag.name + "[" + about + "]" + action);
      }
      text += " \\\n    '*:file:_files';;\n";
    }
    return text + "esac\n";
  }
  text = "# Completion of mpc in fish: a file mpc.fish in a completions "
         "folder.\n";
  for (const CLI::App *command : commands) {
    text += "complete -c mpc -n __fish_use_subcommand -a " +
            command->get_name() + " -d " + quoted(command->get_description()) +
            "\n";
    for (const CompletedFlag &flag : completedFlags(*command, policies)) {
      text += "complete -c mpc -n '__fish_seen_subcommand_from " +
              command->get_name() + "' -l " + flag.name + " -d " +
              quoted(flag.text);
      if (!flag.values.empty())
        text += " -x -a " + quoted(join(flag.values, " "));
      else if (flag.takesValue)
        text += " -r";
      text += "\n";
    }
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Man pages
//===----------------------------------------------------------------------===//

/// Escapes a text for troff.
static std::string troff(const std::string &text) {
  std::string result;
  for (char c : text) {
    if (result.empty() && (c == '.' || c == '\''))
      result += "\\&";
    result += c == '-'    ? std::string("\\-")
              : c == '\\' ? std::string("\\e")
                          : std::string(1, c);
  }
  return result;
}

std::string tool::manPage(const CLI::App &command, const std::string &version) {
  const CLI::App *program = command.get_parent();
  std::string name = (program ? program->get_name() + "-" : "") +
                     command.get_name(),
              title = name, words = name;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  std::replace(words.begin(), words.end(), '-', ' ');
  if (program) // "tune-kernels" has a dash of its own
    words = program->get_name() + " " + command.get_name();
  std::string text = ".TH " + title + " 1 \"\" \"" + version +
                     "\"\n.SH NAME\n" + troff(name) + " \\- " +
                     troff(command.get_description()) + "\n.SH SYNOPSIS\n";
  if (!program) {
    text += troff(words + " COMMAND [FLAGS] ...") + "\n.SH COMMANDS\n";
    for (const CLI::App *one : command.get_subcommands({}))
      text += ".TP\n.B " + troff(one->get_name()) + "\n" +
              troff(one->get_description()) + "\n";
  } else {
    std::string usage = usageLine(command, words);
    text += troff(usage.substr(7));
    for (const std::string &group : groupsOf(command)) {
      text += ".SH " + troff(titleOf(command, group)) + "\n";
      for (const CLI::Option *flag : flagsOf(command, group)) {
        std::string value = valueText(*flag);
        text += ".TP\n.B " + troff(nameText(*flag, /*all=*/true));
        if (!value.empty() && !flag->get_positional())
          text += " \\fI" + troff(value) + "\\fR";
        text += "\n" + troff(describe(*flag, /*all=*/true)) + "\n";
      }
    }
  }
  text += ".SH EXAMPLES\n.nf\n";
  for (const std::string &example : split(command.get_footer(), '\n'))
    text += troff(example) + "\n";
  return text + ".fi\n";
}
