//===- KernelPrinter.h - prints one kernel as CUDA C++ ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Traverses a gpu.func once. Values with a single use in their own block are
// inlined into the user's expression; all others become variables. Values
// carried by loops and branches become mutable variables.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_EMIT_KERNELPRINTER_H
#define MPC_LIB_TARGET_CUDA_EMIT_KERNELPRINTER_H

#include "CxxIdentifiers.h"
#include "Expression.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

namespace mpc::cuda {

class KernelPrinter {
public:
  using Indices = mlir::ValueRange;

  /// C++ text of a memref: an array with bracketed indices, or a pointer to the
  /// first element.
  struct Buffer {
    std::string name;
    bool isArray = false;
  };

  explicit KernelPrinter(mlir::gpu::GPUFuncOp kernel);

  /// Prints the kernel. Emits a diagnostic at an op that cannot be printed.
  mlir::LogicalResult print(llvm::raw_ostream &os);

  void fail(mlir::Operation *op, const llvm::Twine &why);
  /// Prints one line of the body at the current indentation.
  void line(llvm::StringRef text);
  /// Prints a statement with side effects, after pending reads of memory.
  void effect(const llvm::Twine &text);

  //===--------------------------------------------------------------------===//
  // Types and literals
  //===--------------------------------------------------------------------===//

  /// Returns the C++ type, or reports an unsupported type at `op`.
  std::string typeName(mlir::Type type, mlir::Operation *op);
  /// Returns the unsigned integer type of the same width.
  std::string unsignedName(mlir::Type type);
  Expression literal(mlir::Attribute value, mlir::Type type,
                     mlir::Operation *op);
  bool isIndex64() const { return index64; }

  //===--------------------------------------------------------------------===//
  // Expressions and variables
  //===--------------------------------------------------------------------===//

  /// Returns a value as an operand, for one use; splat vectors as one lane.
  Expression take(mlir::Value value);
  /// The same, but with splat vectors as vectors.
  Expression takeWhole(mlir::Value value);
  Expression whole(Expression expression, mlir::Type type);
  /// Returns an identifier or literal for `value`, for any number of uses.
  Expression takeSimple(mlir::Value value, llvm::StringRef hint);
  /// Returns a call of the prelude's function with the operands of `op`.
  Expression function(mlir::Operation *op, llvm::StringRef name);
  /// Binds `value` to `expression`: inlined into its user or a new variable.
  void define(mlir::Value value, Expression expression);
  /// Binds `value` to `expression`, an identifier or literal.
  void bind(mlir::Value value, Expression expression) {
    values[value] = std::move(expression);
  }
  /// Declares a new variable for `value`.
  void declare(mlir::Value value, const Expression &expression);
  std::string newVariable(mlir::Value value, llvm::StringRef name,
                          const Expression *initial);
  std::string newName(llvm::StringRef wanted) { return names.add(wanted); }
  /// Declares variables for all pending expressions that read memory, before a
  /// side effect.
  void settle();
  bool inlines(mlir::Value value, const Expression &expression) const;
  /// Returns the name that codegen gave to the value, or an empty string.
  llvm::StringRef givenName(mlir::Value value) const;

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  Buffer bufferOf(mlir::Value memref, mlir::Operation *op);
  void bindBuffer(mlir::Value memref, Buffer buffer) {
    buffers[memref] = std::move(buffer);
  }
  /// Returns the dynamic shared memory, which the first call declares.
  const Buffer &dynamicShared();
  /// Returns the offset of the element at `indices` in its memory.
  Expression offset(mlir::MemRefType type,
                    llvm::ArrayRef<mlir::OpFoldResult> indices,
                    mlir::Operation *op);
  /// Returns the element at `indices`, as an lvalue.
  Expression element(mlir::Value memref, Indices indices, mlir::Operation *op);
  /// Returns the element's address.
  Expression address(mlir::Value memref, Indices indices, mlir::Operation *op);

private:
  void printComment(llvm::raw_ostream &os);
  void printSignature(llvm::raw_ostream &os);
  void printSharedArrays();
  void printBlock(mlir::Block &block);
  void printOp(mlir::Operation *op);
  /// Opens a scope after `head`, or closes it.
  void open(llvm::StringRef head);
  void close(llvm::StringRef head = "}");
  std::string declareName(mlir::Value value);

  void printFor(mlir::scf::ForOp op);
  void printIf(mlir::scf::IfOp op);
  void printWhile(mlir::scf::WhileOp op);
  /// Declares variables that carry `initial` through `op`; `inside` and
  /// `results` are their values in the region and after it.
  llvm::SmallVector<std::string>
  carry(mlir::Operation *op, mlir::ValueRange initial, mlir::ValueRange inside,
        mlir::ValueRange results, mlir::ValueRange yielded);
  /// Assigns values to variables in parallel.
  void assign(llvm::ArrayRef<std::string> variables, mlir::ValueRange values);
  /// Returns true if `op` may reuse the variable of `value`, which has no other
  /// use.
  bool ownsVariable(mlir::Value value, mlir::Operation *op) const;
  void bindVariables(mlir::ValueRange bound,
                     llvm::ArrayRef<std::string> variables);

  mlir::gpu::GPUFuncOp kernel;
  bool index64 = false;
  bool failed = false;
  std::string body;
  int indent = 2;
  NameScopes names;
  llvm::DenseMap<mlir::Value, Expression> values;
  llvm::DenseMap<mlir::Value, Buffer> buffers;
  /// Dynamic shared memory; no name before its first use.
  Buffer shared;
  /// Values bound to mutable variables.
  llvm::DenseMap<mlir::Value, std::string> carried;
  /// Number of values per location. The ops that lower one op of the model
  /// share its location, whose name then does not name a variable.
  llvm::DenseMap<mlir::Location, int> sharers;
  /// Values of the current block that are not printed yet.
  llvm::SmallVector<mlir::Value> waiting;
};

/// Functions of the prelude for a reduction over the lanes of a vector and of a
/// warp; empty if there are none.
struct ReductionNames {
  llvm::StringRef ofLanes, ofWarp;
};
/// `kind` is a case of vector.kind or gpu.all_reduce_operation.
ReductionNames reductionNames(llvm::StringRef kind);

/// Print an op of their dialects. Return false if it has no form in CUDA C++.
bool printArithmetic(KernelPrinter &p, mlir::Operation *op);
bool printVector(KernelPrinter &p, mlir::Operation *op);
bool printMemory(KernelPrinter &p, mlir::Operation *op);
bool printGpu(KernelPrinter &p, mlir::Operation *op);
bool printCuda(KernelPrinter &p, mlir::Operation *op);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_EMIT_KERNELPRINTER_H
