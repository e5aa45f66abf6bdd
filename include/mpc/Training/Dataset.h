//===- Dataset.h - examples and their labels --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrays whose first extent counts examples, and how they become batches.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TRAINING_DATASET_H
#define MPC_TRAINING_DATASET_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Runtime/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mpc {

/// A tensor with its name.
struct NamedTensor {
  std::string name;
  Buffer data;
};

/// How numbers of a data set become a model's: (x * scale - mean) / deviation.
/// Only float inputs are normalised; integers and labels stay as they are.
struct Normalization {
  double scale = 1, mean = 0, deviation = 1;

  /// Bytes (pixels) become [0, 1]; floats stay as they are.
  static Normalization ofBytes() { return {.scale = 1.0 / 255}; }
};

/// Examples with labels, in host memory. Copies of the handle share the arrays,
/// which nothing here writes. All members may be called from any thread.
class Dataset {
public:
  /// `inputs` and `labels` must have the same first extent, which counts the
  /// examples; where there is one input its name may be empty.
  static Result<Dataset> fromArrays(std::vector<NamedTensor> inputs,
                                    Buffer labels);

  /// A text of tokens (integers in one dimension) as examples of `length`
  /// tokens, one behind the other, whose labels are the tokens one further.
  /// What fills no example is left out; nothing is copied.
  static Result<Dataset> fromTokens(Buffer tokens, int64_t length);

  /// Reads a part ("train" or "test") of a data set from
  /// - a folder with idx files of the MNIST names (`train-images-idx3-ubyte`,
  ///   `t10k-labels-idx1-ubyte`, ...), each plain or with `.gz`;
  /// - a folder with `train.npz` and `test.npz`: an array `label` (or `labels`
  ///   or `y`), and the inputs by their names, or one of any name;
  /// - one `.npz` with x_train, y_train, x_test and y_test;
  /// - files of tokens: one `.npy` (integers in one dimension) or `.bin`
  ///   (unsigned 16-bit ones without a header), which has no test part, or a
  ///   folder with `train` and `test` (or `val`) of these ends. They are mapped
  ///   and must stay as they are; `length` tokens are an example.
  /// The files are untrusted. NotFound where the part is not there.
  static Result<Dataset> read(const std::string &path, const std::string &part,
                              int64_t length = 0);

  /// Whether read() finds tokens at `path`, and needs the length of examples.
  static bool holdsTokens(const std::string &path);

  /// Number of examples.
  int64_t size() const { return count; }
  std::span<const NamedTensor> inputs() const { return arrays; }
  const Buffer &labels() const { return labelArray; }
  /// Where it came from, for messages.
  const std::string &name() const { return origin; }
  /// Whether the examples are pieces of a text.
  bool isText() const { return text; }

  /// The normalisation under which the inputs of integer type have values in
  /// [0, 1] (bytes), or mean 0 and deviation 1 over all examples.
  Normalization unitRange() const;
  Normalization standard() const;

private:
  int64_t count = 0;
  std::vector<NamedTensor> arrays;
  Buffer labelArray;
  std::string origin;
  bool text = false;
};

/// The order in which an epoch sees `count` examples: a permutation that is a
/// function of the seed and the epoch alone. Example i has the key
/// mix(mix(seed + epoch * g) + i * g), where g = 0x9e3779b97f4a7c15 and mix is
/// the finaliser of splitmix64; the order sorts by key, then by i. (Steele,
/// Lea, Flood: Fast splittable pseudorandom number generators, 2014.)
std::vector<int64_t> epochOrder(int64_t count, uint64_t seed, int64_t epoch);

/// Makes batches of a data set in the types that a program wants.
class Batcher {
public:
  /// `inputs` are the names and types of one batch, the first extent of each
  /// being the batch's; `label` likewise. An array fits an input where the
  /// elements of one example are as many; bytes and integers are converted to
  /// floats. Labels of integer type must lie in [0, classes) where `classes` is
  /// positive, or be `ignored`, which no token of a text can be.
  /// InvalidArgument, naming the array, the input and both shapes or types,
  /// where something does not fit.
  static Result<Batcher>
  create(const Dataset &data, std::vector<std::string> inputNames,
         std::vector<TensorType> inputTypes, TensorType label,
         const Normalization &normalization, int64_t classes = 0,
         std::optional<int64_t> ignored = {});

  /// Examples in a batch.
  int64_t batch() const { return types.front().shape.front(); }
  int64_t size() const { return count; }

  /// The examples numbered `rows` (as many as a batch has): one buffer per
  /// input, then the labels. From any thread.
  Result<std::vector<Buffer>> gather(std::span<const int64_t> rows) const;

private:
  Batcher() = default;

  int64_t count = 0;
  /// Per input and last for the labels: where its examples come from and the
  /// type of one batch.
  std::vector<Buffer> sources;
  std::vector<TensorType> types;
  Normalization normalization;
};

} // namespace mpc

#endif // MPC_TRAINING_DATASET_H
