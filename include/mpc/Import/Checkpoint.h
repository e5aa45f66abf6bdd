//===- Checkpoint.h - transformers of checkpoint files ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_IMPORT_CHECKPOINT_H
#define MPC_IMPORT_CHECKPOINT_H

#include "mpc/Runtime/Status.h"
#include "mpc/Runtime/TensorType.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mpc {

/// Symbolic dimensions of a checkpoint's inputs, as Optimum's exports name
/// them. The length of the attention mask is the sum of two.
inline constexpr const char *kBatchDim = "batch_size",
                            *kTokensDim = "sequence_length",
                            *kPastDim = "past_sequence_length",
                            *kTotalDim =
                                "past_sequence_length + sequence_length";

/// A transformer whose graph is written from a configuration: a Hugging Face
/// folder with config.json and safetensors files, or a GGUF file. Untrusted:
/// every failure is one sentence at a file. Immutable and thread-safe.
class Checkpoint {
public:
  struct Input {
    std::string name;
    TensorType type;
    /// Symbol of each dimension; empty if it is fixed, else the extent is -1.
    std::vector<std::string> symbols;
    /// True for the KV caches of decoders.
    bool isOptional = false;
  };
  struct Bytes {
    /// Null if `compute` is set.
    std::shared_ptr<const std::byte> data;
    size_t size = 0;
    /// Set for quantized blocks, which are dequantized each time: writes the
    /// bytes into memory of `size` bytes. Lives as long as the checkpoint.
    std::function<void(std::span<std::byte>)> compute = {};
  };

  /// Returns true if `path` is a checkpoint by its form: a folder, or a
  /// name that ends in ".gguf".
  static bool isCheckpoint(const std::string &path);
  /// Opens the checkpoint at `path`. Reads headers, and files of up to 64 MiB;
  /// maps larger ones.
  static Result<std::shared_ptr<const Checkpoint>>
  open(const std::string &path);
  virtual ~Checkpoint() = default;

  /// The inputs, KV caches of decoders included.
  virtual const std::vector<Input> &inputs() const = 0;
  /// Returns text of the mpc dialect for the shapes of the inputs by name. Its
  /// external constants are named by their identities (file and position, with
  /// a digest or device, inode and times). Without past rows a decoder's text
  /// has no cache inputs.
  virtual Result<std::string>
  text(const std::map<std::string, std::vector<int64_t>> &shapes) const = 0;
  /// Returns the bytes of an external constant of the text.
  virtual Result<Bytes> external(const std::string &identity) const = 0;
  /// Tokens that end a generated text; may be empty.
  virtual const std::vector<int64_t> &endIds() const = 0;
};

} // namespace mpc

#endif // MPC_IMPORT_CHECKPOINT_H
