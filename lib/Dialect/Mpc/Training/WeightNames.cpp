//===- WeightNames.cpp - names of parameters and buffers ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mpc;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

SmallVector<std::string> mpc::wordsOf(StringRef name) {
  SmallVector<std::string> words;
  std::string word;
  auto finish = [&] {
    if (!word.empty())
      words.push_back(std::move(word));
    word.clear();
  };
  for (size_t i = 0; i < name.size(); ++i) {
    char c = name[i];
    // "reLU" is re and lu, "DFTBasis" is dft and basis.
    if (llvm::isUpper(c) && i > 0 &&
        (llvm::isLower(name[i - 1]) ||
         (i + 1 < name.size() && llvm::isLower(name[i + 1]))))
      finish();
    if (llvm::isAlpha(c))
      word += llvm::toLower(c);
    else
      finish();
  }
  finish();
  return words;
}

/// Returns the words of the last component with letters: {"weight"} of
/// "h.0.fc.weight", "dense/weight:0", "dense/weight/ReadVariableOp:0" and
/// "fc.weight.3".
static SmallVector<std::string> lastWords(StringRef name) {
  // The exporter's "onnx::ReduceMean_12" is named after its use.
  if (name.contains("::"))
    return {};
  name.consume_back(":0");
  name.consume_back("/ReadVariableOp");
  SmallVector<std::string> words;
  while (!name.empty() && words.empty()) {
    size_t at = name.find_last_of("./:");
    words = wordsOf(name.drop_front(at == StringRef::npos ? 0 : at + 1));
    name = name.take_front(at == StringRef::npos ? 0 : at);
  }
  return words;
}

static bool isAny(ArrayRef<std::string> words, ArrayRef<StringRef> list) {
  return llvm::any_of(
      words, [&](StringRef word) { return llvm::is_contained(list, word); });
}

/// Words of constants in any place of the last component.
static constexpr StringRef kConstants[] = {
    "mask", "alibi",    "basis", "fourier",  "dft",        "idft",
    "stft", "istft",    "dct",   "hann",     "hamming",    "blackman",
    "blur", "gaussian", "sobel", "sinusoid", "sinusoidal", "mel"};

bool mpc::isParameterName(StringRef name) {
  SmallVector<std::string> words = lastWords(name);
  if (words.empty())
    return false;
  StringRef last = words.back();
  // Also those of masked positions. "embed" alone may be a codebook.
  if (llvm::is_contained({"token", "tokens"}, last) ||
      (words.size() > 1 &&
       llvm::is_contained({"embed", "embedding", "embeddings"}, last)))
    return true;
  if (isAny(words, kConstants))
    return false;
  // Kernels are those of Keras; others are of any kind.
  return llvm::is_contained({"weight", "weights", "gamma", "beta"}, last) ||
         llvm::is_contained({"bias", "biases", "kernel", "embeddings",
                             "logit_scale", "depthwise_kernel",
                             "pointwise_kernel", "recurrent_kernel"},
                            llvm::join(words, "_"));
}

bool mpc::isBiasName(StringRef name) {
  SmallVector<std::string> words = lastWords(name);
  return words.size() > 1 &&
         llvm::is_contained({"bias", "biases"}, words.back());
}

bool mpc::isBufferName(StringRef name) {
  SmallVector<std::string> words = lastWords(name);
  if (words.empty() || isParameterName(name))
    return false;
  if (isAny(words, kConstants) ||
      isAny(wordsOf(name), {"dft", "idft", "stft", "istft"}))
    return true;
  static constexpr StringRef kLast[] = {
      "mean",   "avg",     "noise",   "std",        "var",    "freqs", "cos",
      "sin",    "anchors", "strides", "window",     "buffer", "cis",   "grid",
      "slopes", "cached",  "cache",   "filterbank", "fb"};
  static constexpr StringRef kWhole[] = {"pe",
                                         "filt",
                                         "position_ids",
                                         "noise_const",
                                         "final_logits_bias",
                                         "action_scale",
                                         "action_bias"};
  static constexpr StringRef kEnds[] = {"freq", "filter"};
  // A logarithm of a deviation (log_std) is learned.
  return (llvm::is_contained(kLast, words.back()) && !isAny(words, {"log"})) ||
         llvm::is_contained(kWhole, llvm::join(words, "_")) ||
         (words.size() > 1 && llvm::is_contained(kEnds, words.back()));
}

bool mpc::isNumberName(StringRef name) {
  SmallVector<std::string> words = wordsOf(name), last = lastWords(name);
  if (name.ends_with("/x:0") || name.ends_with("/y:0") ||
      isAny(words, {"const", "constant", "constants"}) || last.empty() ||
      llvm::is_contained({"eps", "epsilon", "min", "max"}, last.back()) ||
      llvm::is_contained(
          {"zero", "zeros", "half", "one", "ones", "two", "three", "six"},
          llvm::join(last, "_")))
    return true;
  StringRef stem = name.rtrim("0123456789");
  return (stem.size() < name.size() &&
          llvm::is_contained({"val_", "tmp_", "t_", "_", "x_", "scalar_tensor_",
                              "scalar_tensor_default_"},
                             stem)) ||
         name == "scalar_tensor_default";
}
