//===- FamilyReader.h - configuration of a model family ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_FAMILYREADER_H
#define MPC_LIB_IMPORT_CHECKPOINT_FAMILYREADER_H

#include "ConfigReader.h"
#include "Families.h"
#include "WeightStore.h"

namespace mpc::checkpoint {

// Bounds that no model reaches; products of three fit into 63 bits.
inline constexpr int64_t kMostLayers = 1 << 10, kMostWidth = 1 << 20,
                         kMostVocabulary = 1 << 24, kMostTokens = 1 << 30,
                         kMostHeadSize = 1 << 12;

/// Fills a ModelConfig from the keys of a family.
class FamilyReader {
public:
  FamilyReader(const Family &family, const Architecture &architecture,
               const nlohmann::json &json, const std::string &where,
               const WeightStore &weights)
      : family(family), architecture(architecture), where(where),
        weights(weights), keys(json, where) {}

  Result<ModelConfig> read();

private:
  void readSizes();
  void readForms();
  void readWindows();
  void readRopes();
  void readHead();
  /// Decides which of two tensors a tied model uses: the model is not tied if
  /// the file has both and they differ.
  void readTies();
  /// Returns true if two tensors of the file have the same type and bytes.
  bool areEqual(const std::string &first, const std::string &second);
  void readNames();
  /// Reads a scaling method with its parameters, which is at `path` of the
  /// configuration; `json` may be null.
  Rope readRope(const nlohmann::json *json, const std::string &path,
                double theta);
  double readTheta();
  bool flag(const Flag &flag) {
    return flag.key ? keys.flag(flag.key, flag.value) : flag.value;
  }
  Activation activation(llvm::StringRef key, llvm::StringRef fallback);
  bool hasWindow(int64_t layer) const {
    return !config.windows.empty() && config.windows[layer] != 0;
  }

  const Family &family;
  const Architecture &architecture;
  std::string where;
  const WeightStore &weights;
  ConfigReader keys;
  ModelConfig config;
};

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_FAMILYREADER_H
