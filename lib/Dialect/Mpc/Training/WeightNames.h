//===- WeightNames.h - names of parameters and buffers ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names are compared by whole words: "reconstruction" does not contain "const".
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_WEIGHTNAMES_H
#define MPC_LIB_DIALECT_MPC_TRAINING_WEIGHTNAMES_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc {

/// Splits a name at other characters than letters and at camel case, in lower
/// case: "enc.0/maskTable_1" is enc, mask, table.
llvm::SmallVector<std::string> wordsOf(llvm::StringRef name);

/// Returns true for names that frameworks give to parameters.
bool isParameterName(llvm::StringRef name);

/// Returns true for biases that a model names ("query_bias"):
/// parameters, or constants of a formula.
bool isBiasName(llvm::StringRef name);

/// Returns true for names that models give to buffers.
bool isBufferName(llvm::StringRef name);

/// Returns true if a tool generated the name ("onnx::Mul_12", "val_3",
/// "const_fold__7", "123") or it names a number.
bool isNumberName(llvm::StringRef name);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_WEIGHTNAMES_H
