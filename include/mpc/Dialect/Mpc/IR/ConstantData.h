//===- ConstantData.h - bytes of constants ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Uniform access to dense and resource constants.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_CONSTANTDATA_H
#define MPC_DIALECT_MPC_IR_CONSTANTDATA_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <memory>
#include <vector>

namespace mpc {

/// Constants of at most this many bytes are dense attributes (uniqued, printed
/// inline); larger ones are resources.
inline constexpr int64_t kInlineConstantBytes = 256;

/// Row-major bytes of a constant, one byte per i1. Owns a copy only where the
/// attribute stores elements differently (splats, packed booleans).
class ConstantBytes {
public:
  /// Fails (without a diagnostic) where a resource is missing or its size
  /// differs from the type's.
  static mlir::FailureOr<ConstantBytes> get(mlir::ElementsAttr attr);
  llvm::ArrayRef<char> bytes() const { return view; }
  template <typename T> llvm::ArrayRef<T> as() const {
    return {reinterpret_cast<const T *>(view.data()), view.size() / sizeof(T)};
  }

private:
  llvm::ArrayRef<char> view;
  std::shared_ptr<std::vector<char>> owned;
};

/// Makes a constant attribute of `type` from row-major bytes (one byte per i1);
/// `bytes.size()` must be the type's size. `name` is the resource's key where
/// the value is large. All-equal elements become a splat.
mlir::ElementsAttr makeConstant(mlir::RankedTensorType type,
                                llvm::ArrayRef<char> bytes,
                                llvm::StringRef name = "constant");

/// A splat constant of a float or integer type; the value is rounded or wrapped
/// to the element type.
mlir::ElementsAttr makeSplat(mlir::RankedTensorType type, double value);

/// The value of every element where all are equal, as double; nullopt
/// otherwise.
std::optional<double> splatValue(mlir::Attribute attr);

/// The element that all elements of a constant have, looking through ops that
/// repeat or move them; nullopt where there is none.
std::optional<double> constantSplat(mlir::Value value);

/// Integer elements widened to int64, or nullopt where `attr` is no integer
/// constant.
std::optional<llvm::SmallVector<int64_t>> integerElements(mlir::Attribute attr);

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_CONSTANTDATA_H
