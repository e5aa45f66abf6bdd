//===- OpImport.h - one op on its way into mpc ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a converter sees of an op: operands, ways to build mpc ops, and values
// that are known while importing. Errors stick: after the first one every
// builder returns a null value, so a converter reads straight on and the
// importer fails once.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_STABLEHLO_OPIMPORT_H
#define MPC_LIB_IMPORT_STABLEHLO_OPIMPORT_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"
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

  /// Starts an error at the op.
  mlir::InFlightDiagnostic error();
  mlir::LogicalResult status() const { return mlir::failure(hasFailed); }
  /// Whether tensors of any one shape stand for scalars here.
  bool isSpread() const;

  /// What stands for operand `i`.
  mlir::Value in(unsigned i);
  /// What stands for a value of the source.
  mlir::Value of(mlir::Value source);
  llvm::SmallVector<mlir::Value> of(mlir::ValueRange sources);
  /// Lets `value` stand for result `i`, and checks its type.
  void set(unsigned i, mlir::Value value);
  /// Lets `value` stand for the only result and ends the conversion.
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
  /// f32 for 16-bit floats, else the type itself.
  mlir::Type wideType(mlir::Type element);

  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//

  /// Creates an op that infers its types; its first result.
  template <typename OpTy>
  mlir::Value make(mlir::ValueRange operands, Attributes attributes = {}) {
    mlir::Operation *made =
        inferred(OpTy::getOperationName(), operands, attributes);
    return made ? made->getResult(0) : mlir::Value();
  }
  /// Creates an op of given result type.
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
  /// Creates an op whose 16-bit float result becomes f32: its accumulators.
  mlir::Value widened(llvm::StringRef name, mlir::ValueRange operands,
                      Attributes attributes);

  /// An elementwise op, whose operands may stay as they were before they were
  /// broadcast.
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
  /// One index range of one axis.
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
  /// Reduces `axes`; 16-bit sums run in f32.
  mlir::Value reduce(llvm::StringRef name, mlir::Value value, Ints axes,
                     bool keepDims = false);

  /// Scalar and dense constants; floats are rounded, integers wrapped.
  mlir::Value scalar(double value, mlir::Type element);
  /// An integer whose bits are given.
  mlir::Value integer(uint64_t bits, mlir::Type element);
  mlir::Value constant(mlir::ElementsAttr value);
  /// `value` op `number`, elementwise.
  template <typename OpTy> mlir::Value with(mlir::Value value, double number) {
    return value ? map<OpTy>({value, scalar(number, element(value))})
                 : mlir::Value();
  }

  //===--------------------------------------------------------------------===//
  // Values known while importing
  //===--------------------------------------------------------------------===//

  /// The elements of an integer constant, else nullopt.
  static std::optional<llvm::SmallVector<int64_t>> known(mlir::Value value);
  static std::optional<int64_t> knownScalar(mlir::Value value);

private:
  mlir::Operation *finish(mlir::FailureOr<mlir::Operation *> created);

  bool hasFailed = false;
};

/// Converts one op. Failure, or an error reported through the OpImport, ends
/// the import.
using Converter = mlir::LogicalResult (*)(OpImport &);

/// An op that the importer knows.
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

/// Reverses `permutation`.
llvm::SmallVector<int64_t> inverted(llvm::ArrayRef<int64_t> permutation);

/// The op that a region of two scalars consists of, its operands in any order
/// where that does not matter; null where the region is more than one op.
mlir::Operation *onlyOp(mlir::Region &region, mlir::ModuleOp module);

/// Converts a region of scalars to ops on tensors of one shape: `arguments`
/// stand for its arguments. Empty after an error.
llvm::SmallVector<mlir::Value>
convertScalars(OpImport &import, mlir::Region &region,
               llvm::ArrayRef<mlir::Value> arguments);

/// An index that counts from the end of `extent` where it is negative.
struct CountedFromEnd {
  mlir::Value index;
  int64_t extent;
};

/// What `select(index < 0, index + extent, index)` is made of, in the shape of
/// `value`; none where it is something else.
std::optional<CountedFromEnd> countedFromEnd(OpImport &op, mlir::Value value);

/// Such an index compared with an end of its range, as a comparison of what it
/// was before; null where it is something else.
mlir::Value compareCountedFromEnd(OpImport &op, ComparePredicate predicate,
                                  mlir::Value value, mlir::Value bound);

} // namespace mpc::hlo

#endif // MPC_LIB_IMPORT_STABLEHLO_OPIMPORT_H
