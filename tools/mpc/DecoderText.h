//===- DecoderText.h - a text as samples of a decoder -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_DECODERTEXT_H
#define MPC_TOOLS_MPC_DECODERTEXT_H

#include "SampleInputs.h"

#include "JIT/DecoderSignature.h"

namespace mpc::tool {

/// A text in windows of equal length, each of which a decoder reads without
/// earlier context.
class DecoderText {
public:
  /// Reads the token ids of `file` (readTokens) and the inputs of `model`.
  /// Fails if the model is no decoder or the text is shorter than a window. Of
  /// several windows, tokens after the last whole one are dropped.
  static Result<DecoderText> read(const std::string &file, int64_t window,
                                  const ModelSource &model);

  /// Imports the model for one window, without cache rows; the windows become
  /// its samples. Fails if a token is outside the vocabulary.
  std::vector<Status> load(SampledModel &model, const CommonOptions &common,
                           const CompileOptions &options);

  /// Returns `options` with the shapes and caches of a decode step whose KV
  /// cache has as many rows as a window.
  CompileOptions stepOptions(const CompileOptions &options) const;

  const std::vector<std::vector<int64_t>> &windows() const { return parts; }
  /// After load(): index of the logits among the results.
  size_t logits() const { return result; }

private:
  Result<std::vector<NamedArray>>
  inputsOf(const std::vector<int64_t> &window) const;
  Status checkVocabulary(const SampledModel &model,
                         const std::string &name) const;

  std::string file;
  DecoderSignature signature;
  std::vector<std::vector<int64_t>> parts;
  size_t result = 0;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_DECODERTEXT_H
