//===- SmallType.h - element types below a byte's arithmetic ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX's floats of 8 and 4 bits and integers of 4 and 2 bits. mpc computes in
// none of them: a tensor of such a type travels as one byte per element, a
// float as its code (ui8), an integer as its value (i8 or ui8). The importer
// notes the type of such a value; ops that move elements keep it, a Cast or a
// dequantization decodes it, everything else refuses it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_SMALLTYPE_H
#define MPC_LIB_IMPORT_ONNX_SMALLTYPE_H

#include "Graph.h"
#include "NodeImport.h"

namespace llvm {
struct fltSemantics;
}

namespace mpc::onnx {

/// A type that travels in bytes.
struct SmallType {
  int bits = 0;
  bool isSigned = false;
  /// Null for an integer.
  const llvm::fltSemantics *semantics = nullptr;
};

/// Null where `dataType` is no such type.
const SmallType *smallTypeOf(int32_t dataType);

/// The type of the bytes that elements of `dataType` travel in, the type itself
/// where mpc has it, null where the importer knows neither.
mlir::Type storageTypeOf(int32_t dataType, mlir::MLIRContext *context);

/// How a float becomes a small float.
struct SmallRounding {
  /// What is too large becomes the largest number, not an infinity or NaN.
  bool saturate = true;
  /// An infinity too, where the type has none (FNUZ types before version 24
  /// make it a NaN).
  bool saturateInfinity = true;
  /// Of FLOAT8E8M0, which has powers of two alone: "up", "down" or "nearest".
  std::string powers = "up";
};

/// `value` of the small type that the importer noted for it, in `element`,
/// rounded where that is narrower.
mlir::Value fromSmall(NodeImport &n, mlir::Value value, mlir::Type element);

/// `value`, a tensor of a type of mpc, as `dataType`: floats round to nearest
/// even, integers wrap.
mlir::Value toSmall(NodeImport &n, mlir::Value value, int32_t dataType,
                    const SmallRounding &rounding = {});

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_SMALLTYPE_H
