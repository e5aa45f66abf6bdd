//===- ConstantData.h - bytes of constants ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Uniform access to dense and resource constants.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_CONSTANTDATA_H
#define MPC_DIALECT_MPC_IR_CONSTANTDATA_H

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <memory>
#include <vector>

namespace mpc {

/// Constants of at most this many bytes are dense attributes (uniqued, printed
/// inline); larger ones are resources.
inline constexpr int64_t kInlineConstantBytes = 256;

/// Row-major bytes of a constant, one byte per i1. Owns a copy only if the
/// attribute stores elements differently (splats, packed booleans).
class ConstantBytes {
public:
  /// Fails (without a diagnostic) if a resource is missing or its size differs
  /// from the type's.
  static mlir::FailureOr<ConstantBytes> get(mlir::ElementsAttr attr);
  llvm::ArrayRef<char> bytes() const { return view; }
  template <typename T> llvm::ArrayRef<T> as() const {
    return {reinterpret_cast<const T *>(view.data()), view.size() / sizeof(T)};
  }

private:
  llvm::ArrayRef<char> view;
  std::shared_ptr<std::vector<char>> owned;
};

/// Creates a constant attribute of `type` from row-major bytes (one byte per
/// i1); `bytes.size()` must be the type's size. `name` is the resource key of a
/// large value. Equal elements become a splat.
mlir::ElementsAttr makeConstant(mlir::RankedTensorType type,
                                llvm::ArrayRef<char> bytes,
                                llvm::StringRef name = "constant");

/// The same from memory of allocateConstant(), which a large value keeps.
mlir::ElementsAttr makeConstant(mlir::RankedTensorType type,
                                mlir::AsmResourceBlob bytes,
                                llvm::StringRef name = "constant");

/// The same from a string, which a large value keeps.
mlir::ElementsAttr makeConstant(mlir::RankedTensorType type, std::string bytes,
                                llvm::StringRef name = "constant");

/// Returns uninitialized memory for the bytes of a constant of `type`.
mlir::AsmResourceBlob allocateConstant(mlir::RankedTensorType type);

/// Creates a splat constant of a float or integer type; rounds or wraps the
/// value to the element type.
mlir::ElementsAttr makeSplat(mlir::RankedTensorType type, double value);

/// Returns the element of a constant with equal elements as double, or nullopt.
std::optional<double> splatValue(mlir::Attribute attr);
/// The same for the result of a constant op.
std::optional<double> splatValue(mlir::Value value);

/// Returns the element of a constant with equal elements, looking through ops
/// that broadcast or move it, or nullopt.
std::optional<double> constantSplat(mlir::Value value);

/// Returns integer elements widened to int64, or nullopt if `attr` is not an
/// integer constant.
std::optional<llvm::SmallVector<int64_t>> integerElements(mlir::Attribute attr);

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_CONSTANTDATA_H
