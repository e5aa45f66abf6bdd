//===- ProviderOptions.cpp - options of a session -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProviderOptions.h"

#include "mpc/JIT/BestPolicy.h"
#include "mpc/JIT/OptionChecks.h"
#include "mpc/Runtime/Suggestions.h"

#include <cctype>
#include <charconv>
#include <functional>

using namespace mpc;
using namespace mpc::ort;

namespace {

Status refuse(const std::string &key, const std::string &text) {
  return Status(StatusCode::InvalidArgument, "provider option '" + key + "'",
                text);
}

Result<int64_t> parseNumber(const std::string &key, const std::string &text) {
  int64_t number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    return refuse(key, "must be a whole number, but is '" + text + "'");
  return number;
}

Status parseFlag(const std::string &key, const std::string &text, bool &flag) {
  if (text != "0" && text != "1")
    return refuse(key, "must be 0 or 1, but is '" + text + "'");
  flag = text == "1";
  return {};
}

/// Splits "a=b;c=d" at the last equality sign of each part, since names may
/// contain one, and calls `take` for each pair.
Status
parsePairs(const std::string &key, const std::string &text, char separator,
           const std::function<Status(const std::string &, const std::string &)>
               &take) {
  for (size_t start = 0; start < text.size();) {
    size_t end = std::min(text.find(separator, start), text.size());
    std::string part = text.substr(start, end - start);
    start = end + 1;
    if (part.find_first_not_of(' ') == std::string::npos)
      continue;
    part.erase(0, part.find_first_not_of(' '));
    size_t sign = part.rfind('=');
    if (sign == std::string::npos || sign == 0 || sign + 1 == part.size())
      return refuse(key, "'" + part + "' is not of the form NAME=VALUE");
    if (Status status = take(part.substr(0, sign), part.substr(sign + 1));
        !status.ok())
      return status;
  }
  return {};
}

using Setter = Status (*)(ProviderOptions &, const std::string &key,
                          const std::string &value);

const std::map<std::string, Setter> &setters() {
  static const std::map<std::string, Setter> table = {
      {"policy",
       [](ProviderOptions &options, const std::string &key,
          const std::string &value) -> Status {
         options.compile.policy = value;
         return {};
       }},
      {"set",
       [](ProviderOptions &options, const std::string &key,
          const std::string &value) {
         return parsePairs(
             key, value, ';',
             [&](const std::string &name, const std::string &type) {
               options.compile.sets.emplace_back(name, type);
               return Status();
             });
       }},
      {"rounding",
       [](ProviderOptions &options, const std::string &key,
          const std::string &value) {
         if (value != "strict" && value != "relaxed")
           return refuse(key,
                         "must be strict or relaxed, but is '" + value + "'");
         options.compile.rounding =
             value == "relaxed" ? RoundingMode::Relaxed : RoundingMode::Strict;
         return Status();
       }},
      {"target",
       [](ProviderOptions &options, const std::string &key,
          const std::string &value) {
         if (value != "cpu" && value.rfind("cpu:", 0) != 0)
           return refuse(key, "must be cpu or cpu:LEVEL, but is '" + value +
                                  "'; tensors are in host memory");
         options.compile.target = value == "cpu" ? "" : value;
         return Status();
       }},
      {"threads",
       [](ProviderOptions &options, const std::string &key,
          const std::string &value) {
         Result<int64_t> number = parseNumber(key, value);
         if (!number.ok())
           return number.status();
         if (*number > 1024)
           return refuse(key, "must be at most 1024, but is " + value);
         options.compile.threads = int(*number);
         options.threads = options.compile.threads;
         return Status();
       }},
      {"max_memory",
       [](ProviderOptions &options, const std::string &key,
          const std::string &value) {
         Result<int64_t> number = parseNumber(key, value);
         if (!number.ok())
           return number.status();
         options.compile.maxMemory = *number;
         return Status();
       }},
      {"dims",
       [](ProviderOptions &options, const std::string &key,
          const std::string &value) {
         return parsePairs(
             key, value, ',',
             [&](const std::string &name, const std::string &extent) {
               Result<int64_t> number = parseNumber(key, extent);
               if (number.ok())
                 options.compile.dims[name] = *number;
               return number.status();
             });
       }},
      {"cache",
       [](ProviderOptions &options, const std::string &key,
          const std::string &value) {
         return parseFlag(key, value, options.compile.useCache);
       }},
      {"trusted",
       [](ProviderOptions &options, const std::string &key,
          const std::string &value) {
         return parseFlag(key, value, options.trusted);
       }},
  };
  return table;
}

} // namespace

Result<ProviderOptions>
ProviderOptions::parse(const std::map<std::string, std::string> &entries) {
  std::string prefix = "ep.";
  for (const char *c = kProviderName; *c; ++c)
    prefix += char(std::tolower(static_cast<unsigned char>(*c)));
  prefix += '.';
  ProviderOptions options;
  for (const auto &[entry, value] : entries) {
    if (entry == "session.disable_cpu_ep_fallback")
      options.fallsBack = value != "1";
    else if (entry == "ep.context_enable")
      options.writesContext = value == "1";
    else if (entry == "ep.context_embed_mode")
      options.embedsContext = value != "0";
    else if (entry == "ep.context_file_path")
      options.contextPath = value;
    if (entry.rfind(prefix, 0) != 0)
      continue;
    std::string key = entry.substr(prefix.size());
    auto setter = setters().find(key);
    if (setter == setters().end()) {
      std::vector<std::string> known;
      for (const auto &[name, set] : setters())
        known.push_back(name);
      return refuse(key, "is unknown" + didYouMean(key, known));
    }
    if (Status status = setter->second(options, key, value); !status.ok())
      return status;
  }
  if (options.compile.policy == "best") {
    Result<std::string> best = bestPolicy(options.compile.target);
    if (!best.ok())
      return best.status();
    options.compile.policy = *best;
  }
  if (Status status = checkOptions(options.compile); !status.ok())
    return status;
  return options;
}
