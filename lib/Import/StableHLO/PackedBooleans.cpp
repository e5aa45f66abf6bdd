//===- PackedBooleans.cpp - packing of boolean constants ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JAX writes long constants as hexadecimal bytes. Since LLVM 23 (jaxlib 0.10) a
// boolean is a byte there; the parser of LLVM 22 reads it as a bit.
//
//===----------------------------------------------------------------------===//

#include "mpc/Import/StableHLO.h"

#include "llvm/ADT/StringExtras.h"

using llvm::SmallVector;
using llvm::StringLiteral;
using llvm::StringRef;

/// Returns the number of elements of a type `tensor<2x3xi1>` at the start of
/// `text`, 0 for another type.
static uint64_t booleans(StringRef text) {
  if (!text.consume_front("tensor<"))
    return 0;
  uint64_t count = 1;
  while (!text.consume_front("i1>")) {
    uint64_t extent = 0;
    // Larger than memory: not a constant of this text.
    if (text.consumeInteger(10, extent) || !text.consume_front("x") ||
        extent == 0 || extent > (uint64_t(1) << 40) / count)
      return 0;
    count *= extent;
  }
  return count;
}

std::string mpc::packBooleans(StringRef text) {
  static constexpr StringLiteral kOpen = "dense<\"0x", kClose = "\"> : ";
  std::string packed;
  while (true) {
    size_t begin = text.find(kOpen);
    if (begin == StringRef::npos)
      break;
    begin += kOpen.size();
    packed += text.take_front(begin);
    text = text.drop_front(begin);
    StringRef digits = text.take_while(llvm::isHexDigit);
    StringRef type = text.drop_front(digits.size());
    // The shortest constants are equal in both forms.
    if (!type.consume_front(kClose) || digits.size() <= 2 ||
        booleans(type) * 2 != digits.size())
      continue;
    SmallVector<uint8_t> bits((digits.size() / 2 + 7) / 8);
    for (size_t i = 0; i < digits.size() / 2; ++i)
      if (llvm::hexFromNibbles(digits[2 * i], digits[2 * i + 1]))
        bits[i / 8] |= uint8_t(1u << (i % 8));
    packed += toHex(bits);
    text = text.drop_front(digits.size());
  }
  packed += text;
  return packed;
}
