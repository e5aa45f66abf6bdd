//===- NarrowStorageType.h - sub-byte and 8-bit float types -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX's 8-bit and 4-bit floats and 4-bit and 2-bit integers. mpc has no
// arithmetic on them: a tensor is stored as one byte per element, a float as
// its code (ui8), an integer as its value (i8 or ui8). The importer tracks the
// type of such values; data movement preserves it, Cast and dequantization
// decode it, all other ops refuse it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_NARROWSTORAGETYPE_H
#define MPC_LIB_IMPORT_ONNX_NARROWSTORAGETYPE_H

#include "Graph.h"
#include "NodeImport.h"

#include "mpc/Support/NarrowFloat.h"

namespace mpc::onnx {

/// A type that is stored as bytes.
struct NarrowStorageType {
  int bits = 0;
  bool isSigned = false;
  /// Null for an integer.
  const NarrowFloat *format = nullptr;
};

/// Null if `dataType` is not a small type.
const NarrowStorageType *smallTypeOf(int32_t dataType);

/// Returns the storage type of `dataType`: bytes for small types, the type
/// itself if mpc supports it, else null.
mlir::Type storageTypeOf(int32_t dataType, mlir::MLIRContext *context);

/// Rounding of floats to small floats.
struct NarrowRounding {
  /// True if overflow gives the largest number, not infinity or NaN.
  bool saturate = true;
  /// If `saturate`: whether infinities do, too, or become NaN (FLOAT8E8M0, and
  /// FNUZ types before version 24).
  bool saturateInfinity = true;
  /// Rounding of FLOAT8E8M0, which has only powers of two: "up", "down" or
  /// "nearest".
  std::string powers = "up";
};

/// Decodes `value` of its small type to `element`, rounding if that is
/// narrower.
mlir::Value decodeNarrow(NodeImport &n, mlir::Value value, mlir::Type element);

/// Encodes `value`, of an mpc type, as `dataType`: floats round to nearest
/// even, integers wrap around.
mlir::Value encodeNarrow(NodeImport &n, mlir::Value value, int32_t dataType,
                         const NarrowRounding &rounding = {});

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_NARROWSTORAGETYPE_H
