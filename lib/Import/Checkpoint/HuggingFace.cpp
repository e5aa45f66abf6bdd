//===- HuggingFace.cpp - configurations of Hugging Face models ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HuggingFace.h"

#include "FamilyReader.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Support/StrictJson.h"

using namespace mpc;
using namespace mpc::checkpoint;
using Json = nlohmann::json;

/// Lists the known architectures.
static std::string knownArchitectures() {
  std::string list;
  for (const Family &family : families())
    for (const Architecture &architecture : family.architectures)
      list += (list.empty() ? "" : ", ") + std::string(architecture.name);
  return list;
}

Result<ModelConfig>
mpc::checkpoint::readHuggingFaceConfig(std::string_view text,
                                       const std::string &where,
                                       const WeightStore &weights) {
  Result<Json> json = parseStrictJson(text, where, "has a configuration");
  if (!json.ok())
    return json.status();
  ConfigReader keys(*json, where);
  std::vector<std::string> architectures = keys.texts("architectures");
  if (!keys.status().ok())
    return keys.status();
  if (architectures.empty())
    return Status(StatusCode::InvalidArgument, where,
                  "has no key 'architectures' with the class of the model");
  const std::string &name = architectures.front();
  for (const Family &family : families())
    for (const Architecture &architecture : family.architectures)
      if (name == architecture.name) {
        Result<ModelConfig> config =
            FamilyReader(family, architecture, *json, where, weights).read();
        if (!config.ok())
          return config.status();
        Result<std::vector<int64_t>> ends = readEndIds(text, where);
        if (!ends.ok())
          return ends.status();
        config->endIds = *ends;
        return config;
      }
  return Status(StatusCode::InvalidArgument, where,
                "has the architecture '" + printable(name.substr(0, 100)) +
                    "', which is not supported; the supported ones are " +
                    knownArchitectures());
}

Result<std::vector<int64_t>>
mpc::checkpoint::readEndIds(std::string_view text, const std::string &where) {
  Result<Json> json = parseStrictJson(text, where, "has a configuration");
  if (!json.ok())
    return json.status();
  std::vector<int64_t> ids;
  auto found = json->find("eos_token_id");
  if (found == json->end() || found->is_null())
    return ids;
  Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json &id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kMostVocabulary)
      return Status(StatusCode::InvalidArgument, where,
                    "key 'eos_token_id' is neither a token id nor a list of "
                    "token ids");
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}
