//===- OpImport.h - conversion of one op ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interface for converters of an op: operands, op builders, and values known at
// import. Errors are sticky: after the first one every builder returns a null
// value, so that a converter needs no checks and the importer fails once.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_STABLEHLO_OPIMPORT_H
#define MPC_LIB_IMPORT_STABLEHLO_OPIMPORT_H

#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Stablehlo/IR/StablehloOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

#include <functional>
#include <optional>

namespace mpc::hlo {

class Importer;
struct Scope;

class OpImport {
public:
  using Ints = llvm::ArrayRef<int64_t>;
  using Attributes = llvm::ArrayRef<mlir::NamedAttribute>;

  OpImport(Importer &importer, mlir::Operation *op, Scope &scope);

  Importer &importer;
  mlir::Operation *const op;
  Scope &scope;
  mlir::OpBuilder &builder;

  //===--------------------------------------------------------------------===//
  // Errors, operands, results
  //===--------------------------------------------------------------------===//

  /// Emits an error at the op.
  mlir::InFlightDiagnostic error();
  mlir::LogicalResult status() const { return mlir::failure(hasFailed); }
  /// Returns true if tensors of one shape replace scalars here.
  bool isSpread() const;

  /// Returns the imported value of operand `i`.
  mlir::Value in(unsigned i);
  /// The same; f32 numbers for floats of 4 to 8 bits, which values hold as
  /// codes (storedType).
  mlir::Value numbers(unsigned i);
  /// Returns the imported value of a source value.
  mlir::Value of(mlir::Value source);
  llvm::SmallVector<mlir::Value> of(mlir::ValueRange sources);
  /// Binds result `i` to `value` after checking its type.
  void set(unsigned i, mlir::Value value);
  /// Binds the only result to `value` and ends the conversion.
  mlir::LogicalResult result(mlir::Value value);

  //===--------------------------------------------------------------------===//
  // Types. All accept null values (an earlier error) and give empty answers.
  //===--------------------------------------------------------------------===//

  static Ints shape(mlir::Value value);
  static int64_t rank(mlir::Value value) {
    return int64_t(shape(value).size());
  }
  static mlir::Type element(mlir::Value value);
  static bool isFloat(mlir::Value value);
  static bool isBool(mlir::Value value);
  static bool isUnsigned(mlir::Value value);
  /// Returns f32 for 16-bit floats, else the type itself.
  mlir::Type wideType(mlir::Type element);

  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//

  /// Creates an op that infers its types; returns its first result.
  template <typename OpTy>
  mlir::Value make(mlir::ValueRange operands, Attributes attributes = {}) {
    mlir::Operation *made =
        inferred(OpTy::getOperationName(), operands, attributes);
    return made ? made->getResult(0) : mlir::Value();
  }
  /// Creates an op with the given result type.
  template <typename OpTy>
  mlir::Value makeTyped(Ints shape, mlir::Type element,
                        mlir::ValueRange operands, Attributes attributes = {}) {
    mlir::Operation *made =
        typed(OpTy::getOperationName(),
              mlir::TypeRange(
                  mlir::Type(mlir::RankedTensorType::get(shape, element))),
              operands, attributes);
    return made ? made->getResult(0) : mlir::Value();
  }
  mlir::Operation *inferred(llvm::StringRef name, mlir::ValueRange operands,
                            Attributes attributes = {});
  mlir::Operation *typed(llvm::StringRef name, mlir::TypeRange types,
                         mlir::ValueRange operands, Attributes attributes = {});
  /// Creates an op whose 16-bit float result becomes f32, its accumulator type.
  mlir::Value widened(llvm::StringRef name, mlir::ValueRange operands,
                      Attributes attributes);

  /// Creates an elementwise op; explicit broadcasts of operands may be dropped.
  mlir::Value elementwise(llvm::StringRef name, mlir::ValueRange operands,
                          Attributes attributes = {});
  template <typename OpTy>
  mlir::Value map(mlir::ValueRange operands, Attributes attributes = {}) {
    return elementwise(OpTy::getOperationName(), operands, attributes);
  }

  mlir::NamedAttribute attr(llvm::StringRef name, mlir::Attribute value);
  mlir::NamedAttribute attr(llvm::StringRef name, int64_t value);
  mlir::NamedAttribute attr(llvm::StringRef name, Ints value);
  mlir::NamedAttribute unit(llvm::StringRef name);

  mlir::Value cast(mlir::Value value, mlir::Type element, bool pinned = false);
  mlir::Value reshape(mlir::Value value, Ints shape);
  mlir::Value transpose(mlir::Value value, Ints permutation);
  mlir::Value broadcast(mlir::Value value, Ints shape);
  mlir::Value slice(mlir::Value value, Ints offsets, Ints sizes,
                    Ints strides = {});
  /// Slices one axis.
  mlir::Value sliceAxis(mlir::Value value, int64_t axis, int64_t offset,
                        int64_t size, int64_t stride = 1);
  mlir::Value concat(mlir::ValueRange values, int64_t axis);
  mlir::Value pad(mlir::Value value, mlir::Value with, Ints low, Ints high,
                  Ints interior = {});
  mlir::Value compare(ComparePredicate predicate, mlir::Value lhs,
                      mlir::Value rhs);
  mlir::Value select(mlir::Value condition, mlir::Value onTrue,
                     mlir::Value onFalse) {
    return map<SelectOp>({condition, onTrue, onFalse});
  }
  mlir::Value iota(int64_t extent, int64_t axis, int64_t rank,
                   mlir::Type element);
  /// Reduces `axes`; 16-bit sums accumulate in f32.
  mlir::Value reduce(llvm::StringRef name, mlir::Value value, Ints axes,
                     bool keepDims = false);

  /// Scalar and dense constants; floats are rounded, integers wrapped.
  mlir::Value scalar(double value, mlir::Type element);
  /// Creates an integer constant from its bits.
  mlir::Value integer(uint64_t bits, mlir::Type element);
  mlir::Value constant(mlir::ElementsAttr value);
  /// Returns `value` op `number`, elementwise.
  template <typename OpTy> mlir::Value with(mlir::Value value, double number) {
    return value ? map<OpTy>({value, scalar(number, element(value))})
                 : mlir::Value();
  }

  //===--------------------------------------------------------------------===//
  // Values known while importing
  //===--------------------------------------------------------------------===//

  /// Returns the elements of an integer constant, else nullopt.
  static std::optional<llvm::SmallVector<int64_t>> known(mlir::Value value);
  static std::optional<int64_t> constantScalar(mlir::Value value);

private:
  mlir::Operation *finish(mlir::FailureOr<mlir::Operation *> created);

  bool hasFailed = false;
};

/// Converts one op. Failure, or an error reported through the OpImport, ends
/// the import.
using Converter = mlir::LogicalResult (*)(OpImport &);

/// A supported op.
struct OpEntry {
  llvm::StringRef name;
  Converter convert;
};
using OpFamily = llvm::ArrayRef<OpEntry>;
OpFamily elementwiseOps();
OpFamily specialOps();
OpFamily movementOps();
OpFamily indexingOps();
OpFamily contractionOps();
OpFamily reductionOps();
OpFamily windowOps();
OpFamily sortOps();
OpFamily randomOps();
OpFamily controlOps();

/// Returns the inverse of `permutation`.
llvm::SmallVector<int64_t> inverted(llvm::ArrayRef<int64_t> permutation);

/// Returns the only op of a region of two scalars, with operands in any order
/// if it is commutative; null for other regions.
mlir::Operation *onlyOp(mlir::Region &region, mlir::ModuleOp module);

/// Converts a region of scalars to ops on tensors of one shape, with
/// `arguments` bound to its arguments. Empty after an error.
llvm::SmallVector<mlir::Value>
convertScalars(OpImport &import, mlir::Region &region,
               llvm::ArrayRef<mlir::Value> arguments);

/// An index that counts from the end of `extent` if negative.
struct NegativeIndexPattern {
  mlir::Value index;
  int64_t extent;
};

/// Matches `select(index < 0, index + extent, index)`, broadcast to the shape
/// of `value`; nullopt for other forms.
std::optional<NegativeIndexPattern> matchNegativeIndex(OpImport &op,
                                                       mlir::Value value);

/// Simplifies a comparison of such an index with a bound of its range to a
/// comparison of the original index; null for other forms.
mlir::Value matchNegativeIndexSelect(OpImport &op, ComparePredicate predicate,
                                     mlir::Value value, mlir::Value bound);

} // namespace mpc::hlo

#endif // MPC_LIB_IMPORT_STABLEHLO_OPIMPORT_H
