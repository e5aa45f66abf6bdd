//===- PolicySchemaTest.cpp - the published schema and the reader ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// docs/Reference/policy.schema.json must list what PolicyReader reads, no more,
// no less.
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/Policy.h"

#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <nlohmann/json.hpp>

#include <set>

using namespace llvm;
using namespace mpc;
using Json = nlohmann::json;

namespace {

Json schema() {
  auto buffer = MemoryBuffer::getFile(MPC_POLICY_SCHEMA);
  if (!buffer) {
    ADD_FAILURE() << MPC_POLICY_SCHEMA << " cannot be read";
    return Json::object();
  }
  StringRef text = (*buffer)->getBuffer();
  return Json::parse(text.begin(), text.end(), nullptr,
                     /*allow_exceptions=*/false);
}

std::set<std::string> keysOf(const Json &object) {
  std::set<std::string> keys;
  for (auto &[key, value] : object.items())
    keys.insert(key);
  return keys;
}

std::string errorOf(const Json &policy) {
  Expected<Policy> read = Policy::parse(policy.dump(), "test.json");
  return read ? "" : toString(read.takeError());
}

TEST(PolicySchemaTest, HasTheFieldsOfTheReader) {
  std::set<std::string> fields;
  for (StringRef field : Policy::fieldNames())
    fields.insert(field.str());
  EXPECT_EQ(keysOf(schema()["properties"]), fields);
}

/// Every value of an enum of the schema is accepted, and every name that the
/// reader accepts is in the enum.
TEST(PolicySchemaTest, HasTheTypesOfTheReader) {
  Json defs = schema()["$defs"];
  for (auto [field, definition] :
       {std::pair("compute", "computeType"), std::pair("store", "storedType"),
        std::pair("variable", "storedType"),
        std::pair("gradient_wire", "storedType"),
        std::pair("output", "storedType")}) {
    std::set<std::string> listed = defs[definition]["enum"];
    for (const std::string &name : listed)
      EXPECT_EQ(errorOf({{"name", "a"}, {field, name}}), "") << name;
    for (PolicyType type : allPolicyTypes()) {
      std::string name = stringify(type).str();
      EXPECT_EQ(errorOf({{"name", "a"}, {field, name}}).empty(),
                listed.count(name) == 1)
          << field << " " << name;
    }
  }
  std::set<std::string> forced = defs["forcedType"]["enum"];
  for (const std::string &name : forced)
    EXPECT_EQ(errorOf({{"name", "a"}, {"overrides", {{"op:add", name}}}}), "")
        << name;
  for (PolicyType type : allPolicyTypes())
    EXPECT_EQ(forced.count(stringify(type).str()), 1u);
}

TEST(PolicySchemaTest, HasTheClassesAndAlgorithmsOfTheReader) {
  Json properties = schema()["properties"];
  std::set<std::string> classes = properties["default"]["enum"];
  for (const std::string &name : classes)
    EXPECT_TRUE(parsePrecisionClass(name)) << name;
  for (int i = 0; i <= int(PrecisionClass::Ban); ++i)
    EXPECT_EQ(classes.count(stringify(PrecisionClass(i)).str()), 1u);
  EXPECT_EQ(properties["classes"]["propertyNames"]["enum"],
            properties["default"]["enum"]);
  std::set<std::string> algorithms = properties["algorithm"]["enum"];
  EXPECT_EQ(algorithms.size(), 4u);
  for (const std::string &name : algorithms)
    EXPECT_TRUE(parsePolicyAlgorithm(name)) << name;
}

/// The types and groups of weights, as a name or in an object.
TEST(PolicySchemaTest, HasTheWeightsOfTheReader) {
  std::set<std::string> listed = schema()["$defs"]["weightType"]["enum"];
  for (const std::string &name : listed) {
    EXPECT_EQ(errorOf({{"name", "a"}, {"weights", name}}), "") << name;
    EXPECT_EQ(errorOf({{"name", "a"}, {"weights", {{"type", name}}}}), "")
        << name;
  }
  for (WeightType type :
       {WeightType::Float32, WeightType::Float16, WeightType::BFloat16,
        WeightType::Int16, WeightType::Int8, WeightType::Int4,
        WeightType::Float8})
    EXPECT_EQ(listed.count(stringify(type).str()), 1u);
  std::set<std::string> caches = schema()["$defs"]["cacheType"]["enum"];
  for (const std::string &name : caches)
    EXPECT_EQ(errorOf({{"name", "a"}, {"cache", name}}), "") << name;
  caches.insert({"int4", "int16"});
  EXPECT_EQ(caches, listed);
  Json object = schema()["$defs"]["weightFormat"]["properties"];
  for (int64_t group : object["group"]["enum"])
    EXPECT_EQ(errorOf({{"name", "a"},
                       {"weights", {{"type", "int4"}, {"group", group}}}}),
              "");
  for (const std::string &field : keysOf(object))
    EXPECT_EQ(errorOf({{"name", "a"},
                       {"weights", {{"type", "int4"}, {field, Json()}}}})
                  .find("unknown field"),
              std::string::npos)
        << field;
}

} // namespace
