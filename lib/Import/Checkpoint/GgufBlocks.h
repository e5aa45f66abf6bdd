//===- GgufBlocks.h - block formats of GGUF tensors -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensor types of ggml: plain floats, and blocks of quantized numbers with
// their scales. All functions are pure and thread-safe.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_GGUFBLOCKS_H
#define MPC_LIB_IMPORT_CHECKPOINT_GGUFBLOCKS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace mpc::checkpoint {

/// A tensor type of ggml. A row of a tensor is a sequence of blocks.
struct BlockFormat {
  /// Decodes one block of `bytes` bytes to `elements` numbers.
  using Decoder = void (*)(const uint8_t *block, float *numbers);

  llvm::StringLiteral name;
  /// ggml's number of the type.
  uint32_t type;
  /// Elements and bytes per block.
  int64_t elements, bytes;
  /// Null for f32, f16 and bf16, which are stored as they are.
  Decoder decode;

  bool isQuantized() const { return decode; }
};

/// Returns the format of ggml's type number `type`; null if it is unsupported.
const BlockFormat *findBlockFormat(uint32_t type);

/// Returns the names of all supported formats, separated by commas.
std::string blockFormatNames();

/// Dequantizes whole blocks of a quantized `format` in f32: products and sums
/// in the order of the format's definition, each rounded once. `numbers` has
/// `format.elements` entries for every `format.bytes` bytes of `blocks`.
void dequantize(const BlockFormat &format, llvm::ArrayRef<uint8_t> blocks,
                llvm::MutableArrayRef<float> numbers);

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_GGUFBLOCKS_H
