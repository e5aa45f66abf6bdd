//===- Dataset.h - data sets and batches ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrays whose first dimension is the examples, and their conversion to
// batches.
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

/// A named tensor.
struct NamedTensor {
  std::string name;
  Buffer data;
};

/// Normalization of inputs: (x * scale - mean) / deviation. Applies to float
/// inputs only; integers and labels are unchanged.
struct Normalization {
  double scale = 1, mean = 0, deviation = 1;

  /// Maps bytes (pixels) to [0, 1]; floats are unchanged.
  static Normalization ofBytes() { return {.scale = 1.0 / 255}; }
};

/// Examples with labels, in host memory. Copies of the handle share the
/// immutable arrays. Thread-safe.
class Dataset {
public:
  /// `inputs` and `labels` must have the same first extent, the number of
  /// examples; a single input may have an empty name.
  static Result<Dataset> fromArrays(std::vector<NamedTensor> inputs,
                                    Buffer labels);

  /// Splits a token sequence (a 1-D integer array) into consecutive examples of
  /// `length` tokens, whose labels are the tokens shifted by one (next-token
  /// prediction). Drops the incomplete last example; copies nothing.
  static Result<Dataset> fromTokens(Buffer tokens, int64_t length);

  /// Reads a split ("train" or "test") of a data set from
  /// - a folder with idx files of the MNIST names (`train-images-idx3-ubyte`,
  ///   `t10k-labels-idx1-ubyte`, ...), each plain or with `.gz`;
  /// - a folder with `train.npz` and `test.npz`: an array `label` (or `labels`
  ///   or `y`), and the inputs by their names, or one of any name;
  /// - one `.npz` with x_train, y_train, x_test and y_test;
  /// - token files: one `.npy` (a 1-D integer array) or `.bin` (raw unsigned
  ///   16-bit integers), which has no test split, or a folder with `train` and
  ///   `test` (or `val`) files of these extensions. They are memory-mapped and
  ///   must not change; `length` is the number of tokens per example.
  /// The files are untrusted. Returns NotFound if the split does not exist.
  static Result<Dataset> read(const std::string &path, const std::string &part,
                              int64_t length = 0);

  /// Returns true if `path` contains token files, which need the length of
  /// examples.
  static bool holdsTokens(const std::string &path);

  /// Number of examples.
  int64_t size() const { return count; }
  std::span<const NamedTensor> inputs() const { return arrays; }
  const Buffer &labels() const { return labelArray; }
  /// Origin, for messages.
  const std::string &name() const { return origin; }
  /// Returns true if the examples are parts of a token sequence.
  bool isText() const { return text; }

  /// Return normalizations that map integer inputs to [0, 1] (bytes), or to
  /// mean 0 and deviation 1 over all examples.
  Normalization unitRange() const;
  Normalization standard() const;

private:
  int64_t count = 0;
  std::vector<NamedTensor> arrays;
  Buffer labelArray;
  std::string origin;
  bool text = false;
};

/// Returns the shuffled order of `count` examples in an epoch: a permutation
/// that depends on seed and epoch only. Example i has the key mix(mix(seed +
/// epoch * g) + i * g), where g = 0x9e3779b97f4a7c15 and mix is the finalizer
/// of splitmix64; the order sorts by key, then by i. (Steele, Lea, Flood: Fast
/// splittable pseudorandom number generators, 2014.)
std::vector<int64_t> epochOrder(int64_t count, uint64_t seed, int64_t epoch);

/// Assembles batches of a data set in a program's types.
class Batcher {
public:
  /// `inputs` are the names and types of one batch, with the batch size as the
  /// first extent; `label` likewise. An array fits an input if one example has
  /// equally many elements; bytes and integers are converted to floats. Integer
  /// labels must be in [0, classes) if `classes` is positive, or equal
  /// `ignored`, which tokens must not. Returns InvalidArgument, naming the
  /// array, the input and both shapes or types, if something does not fit.
  static Result<Batcher>
  create(const Dataset &data, std::vector<std::string> inputNames,
         std::vector<TensorType> inputTypes, TensorType label,
         const Normalization &normalization, int64_t classes = 0,
         std::optional<int64_t> ignored = {});

  /// Number of examples in a batch.
  int64_t batch() const { return types.front().shape.front(); }
  int64_t size() const { return count; }

  /// Returns the examples `rows` (one index per batch entry): one buffer per
  /// input, then the labels. Thread-safe.
  Result<std::vector<Buffer>> gather(std::span<const int64_t> rows) const;

private:
  Batcher() = default;

  int64_t count = 0;
  /// Source and batch type of each input and, last, of the labels.
  std::vector<Buffer> sources;
  std::vector<TensorType> types;
  Normalization normalization;
};

} // namespace mpc

#endif // MPC_TRAINING_DATASET_H
