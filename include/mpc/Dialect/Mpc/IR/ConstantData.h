//===- ConstantData.h - bytes of constants ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Uniform access to dense and resource constants. Large constants that passes
// derive from others (transposed, rounded, packed) are computed when they are
// read, if the context has a ConstantStore: nothing but their final form is
// ever held in memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_CONSTANTDATA_H
#define MPC_DIALECT_MPC_IR_CONSTANTDATA_H

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace mpc {

/// Constants of at most this many bytes are dense attributes (uniqued, printed
/// inline); larger ones are resources.
inline constexpr int64_t kInlineConstantBytes = 256;

/// Alignment of the bytes of resources that passes make, in bytes.
inline constexpr size_t kConstantAlignment = 64;

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
  std::shared_ptr<const void> owned;
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

/// The same of bytes that `key` identifies (constantKey()).
mlir::ElementsAttr makeConstant(mlir::RankedTensorType type,
                                mlir::AsmResourceBlob bytes,
                                llvm::StringRef name, std::string key);

/// Returns uninitialized memory for the bytes of a constant of `type`.
mlir::AsmResourceBlob allocateConstant(mlir::RankedTensorType type);

//===----------------------------------------------------------------------===//
// Derived constants
//===----------------------------------------------------------------------===//

/// Writes the bytes of a constant into memory of its size.
using ConstantFill =
    std::function<mlir::LogicalResult(llvm::MutableArrayRef<char> target)>;

/// Holds the bytes of large constants by their keys, for one or several
/// processes. Thread-safe.
class ConstantStore {
public:
  /// Size in bytes from which constants are shared: below, an entry would be as
  /// large as the constant.
  static constexpr size_t kLeastShared = 1024;

  virtual ~ConstantStore() = default;
  /// Returns the `size` bytes that `key` identifies, aligned as buffers are, or
  /// null if they are not held.
  virtual std::shared_ptr<const void> find(llvm::StringRef key,
                                           size_t size) = 0;
  /// The same, computed by `fill` if they are not held; null if that fails or
  /// there is no memory.
  virtual std::shared_ptr<const void> get(llvm::StringRef key, size_t size,
                                          const ConstantFill &fill) = 0;
  /// Returns true if later processes find the bytes.
  virtual bool persists(llvm::StringRef key, size_t size) = 0;
};

/// Lets `context` defer large derived constants; `store` outlives it.
void setConstantStore(mlir::MLIRContext *context,
                      std::shared_ptr<ConstantStore> store);
/// Returns the context's store, or null.
ConstantStore *constantStore(mlir::MLIRContext *context);

/// How a constant is derived from others.
struct ConstantRecipe {
  /// Identifies the computation, with all of its parameters.
  std::string text;
  llvm::SmallVector<mlir::ElementsAttr, 1> sources;
  ConstantFill fill;
};

/// Creates a constant of `type` by a recipe. A large one is computed when its
/// bytes are read, if the context has a store. Equal elements become a splat,
/// but not those of a deferred constant.
mlir::FailureOr<mlir::ElementsAttr> deriveConstant(mlir::RankedTensorType type,
                                                   ConstantRecipe recipe,
                                                   llvm::StringRef name);

/// Returns the constants that a deferred constant is derived from; empty for
/// others.
llvm::SmallVector<mlir::ElementsAttr, 1>
deferredSources(mlir::ElementsAttr attr);

/// Returns a digest that identifies the bytes of `attr`: of its bytes, of the
/// file range that they are in, or of the recipe and its sources. Empty if the
/// constant has no data.
std::string constantKey(mlir::ElementsAttr attr);

/// Returns the key of the result of a recipe.
std::string derivedKey(const ConstantRecipe &recipe, mlir::Type type);

/// Returns what `compute` finds out about the recipe's sources, a trivially
/// copyable value, which the context's store remembers by the recipe's text and
/// `type`; nullopt if `compute` fails.
template <typename Fact, typename Compute>
std::optional<Fact> rememberFact(const ConstantRecipe &recipe, mlir::Type type,
                                 Compute compute) {
  static_assert(std::is_trivially_copyable_v<Fact>);
  ConstantStore *store = constantStore(type.getContext());
  if (!store)
    return compute();
  std::shared_ptr<const void> known = store->get(
      derivedKey(recipe, type), sizeof(Fact),
      [&](llvm::MutableArrayRef<char> target) -> mlir::LogicalResult {
        std::optional<Fact> fact = compute();
        if (fact)
          std::memcpy(target.data(), &*fact, sizeof(Fact));
        return mlir::success(fact.has_value());
      });
  if (!known)
    return std::nullopt;
  Fact fact;
  std::memcpy(static_cast<void *>(&fact), known.get(), sizeof(Fact));
  return fact;
}

/// Returns the bytes of `attr` in the context's store, which keeps them; in new
/// memory without one; null if the constant has no data or there is no memory.
std::shared_ptr<const void> storedConstant(mlir::ElementsAttr attr);

/// Returns `bytes` bytes of uninitialized memory, which the context keeps for
/// the next caller after their release; null if there are none. Thread-safe.
std::shared_ptr<void> scratchMemory(mlir::MLIRContext *context, size_t bytes);

/// Returns the size of a resource in bytes; -1 if it has no data.
int64_t resourceBytes(mlir::DenseResourceElementsAttr attr);

/// Computes the deferred constants in `op`, so that they are printed.
mlir::LogicalResult computeConstants(mlir::Operation *op);

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

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
