//===- Tensor.h - tensors of the reference interpreter ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tensor that stores every float as double and every integer as int64, and
// rounding of doubles to smaller float types.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_REFERENCE_TENSOR_H
#define MPC_REFERENCE_TENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace mpc::reference {

/// A statically shaped tensor in row-major order. Float elements are doubles,
/// integer elements (including booleans and unsigned types) int64, wrapped to
/// their width: sign-extended if signless or signed, zero-extended if unsigned
/// or i1 (0 or 1). ui64 uses all 64 bits. Copies share their elements until one
/// is written (copy-on-write): do not copy a tensor while holding a mutable
/// reference from floats() or ints().
class Tensor {
public:
  /// Zero tensor of `type`, which must be static and of an mpc element type.
  explicit Tensor(mlir::RankedTensorType type);

  /// Returns the value of a constant; fails without a diagnostic if a resource
  /// is missing or the type is no static tensor of an mpc element type.
  static mlir::FailureOr<Tensor> fromAttr(mlir::ElementsAttr attr);

  /// Reads the run-time layout: contiguous, one byte per i1, two per f16 or
  /// bf16.
  static Tensor fromBytes(mlir::RankedTensorType type, const void *data);

  /// Writes the run-time layout; floats are rounded to the element type.
  void toBytes(void *data) const;

  /// Returns the tensor as a constant; `name` is the resource key of a large
  /// one.
  mlir::ElementsAttr toAttr(llvm::StringRef name = "constant") const;

  /// Returns the same elements as `type`, with equal element count and kind
  /// (float or integer). Values are not converted.
  Tensor withType(mlir::RankedTensorType type) const &;
  Tensor withType(mlir::RankedTensorType type) &&;

  mlir::RankedTensorType getType() const { return type; }
  mlir::Type getElementType() const { return type.getElementType(); }
  llvm::ArrayRef<int64_t> getShape() const { return type.getShape(); }
  int64_t getRank() const { return type.getRank(); }
  int64_t size() const { return count; }
  bool isFloat() const { return mlir::isa<mlir::FloatType>(getElementType()); }

  /// Elements of a float tensor; empty for an integer tensor.
  llvm::MutableArrayRef<double> floats() { return floatData.own(); }
  llvm::ArrayRef<double> floats() const { return floatData.get(); }

  /// Elements of an integer tensor; empty for a float tensor.
  llvm::MutableArrayRef<int64_t> ints() { return intData.own(); }
  llvm::ArrayRef<int64_t> ints() const { return intData.get(); }

  /// Rounds every float element to the element type.
  void roundToType();

  /// Shares the elements of `other` if types and elements are bitwise equal.
  void shareIfEqual(const Tensor &other);

private:
  /// Copy-on-write elements.
  template <typename T> class Elements {
  public:
    explicit Elements(int64_t count)
        : data(count ? std::make_shared<std::vector<T>>(count) : nullptr) {}
    llvm::ArrayRef<T> get() const {
      return data ? llvm::ArrayRef<T>(*data) : llvm::ArrayRef<T>();
    }
    llvm::MutableArrayRef<T> own() {
      if (!data)
        return {};
      if (data.use_count() > 1)
        data = std::make_shared<std::vector<T>>(*data);
      return *data;
    }

  private:
    std::shared_ptr<std::vector<T>> data;
  };

  mlir::RankedTensorType type;
  int64_t count;
  Elements<double> floatData;
  Elements<int64_t> intData;
};

/// Rounds to the nearest value of `floatType` (f16, bf16, f32, f64), ties to
/// even, including subnormals; overflow gives infinity.
double roundTo(double value, mlir::Type floatType);

/// Rounds to 10 mantissa bits, ties away from zero (`cvt.rna.tf32`), with the
/// exponent range of f32.
double roundToTf32(double value);

/// Wraps to the width of `integerType`; see Tensor for the extension.
int64_t wrapTo(int64_t value, mlir::Type integerType);

} // namespace mpc::reference

#endif // MPC_REFERENCE_TENSOR_H
