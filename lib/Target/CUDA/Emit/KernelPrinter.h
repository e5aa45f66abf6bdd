//===- KernelPrinter.h - one kernel as CUDA C++ -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks a gpu.func once. A value that is used once, in its own block, becomes
// part of its user's expression; every other value a variable. Values that
// loops and branches carry become variables that are assigned to.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_EMIT_KERNELPRINTER_H
#define MPC_LIB_TARGET_CUDA_EMIT_KERNELPRINTER_H

#include "Expression.h"
#include "Names.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

namespace mpc {

class KernelPrinter {
public:
  explicit KernelPrinter(mlir::gpu::GPUFuncOp kernel);

  /// Fails, with a diagnostic at the op, where an op has no form.
  mlir::LogicalResult print(llvm::raw_ostream &os);

private:
  using Indices = mlir::ValueRange;

  /// Where a memref lies: an array whose indices stand in brackets, or a
  /// pointer to its first element.
  struct Buffer {
    std::string name;
    bool isArray = false;
  };

  //===--------------------------------------------------------------------===//
  // The frame (EmitCuda.cpp)
  //===--------------------------------------------------------------------===//

  void printComment(llvm::raw_ostream &os);
  void printSignature(llvm::raw_ostream &os);
  void printSharedArrays();
  void printBlock(mlir::Block &block);
  void printOp(mlir::Operation *op);
  void fail(mlir::Operation *op, const llvm::Twine &why);

  /// One line of the body, without indentation.
  void line(llvm::StringRef text);
  /// Opens a scope behind `head`, or closes it.
  void open(llvm::StringRef head);
  void close(llvm::StringRef head = "}");

  //===--------------------------------------------------------------------===//
  // Types and literals (PrintTypes.cpp)
  //===--------------------------------------------------------------------===//

  /// The C++ type; reports types without one at `op`.
  std::string typeName(mlir::Type type, mlir::Operation *op);
  /// The unsigned type of an integer's width.
  std::string unsignedName(mlir::Type type);
  Expression literal(mlir::Attribute value, mlir::Type type,
                     mlir::Operation *op);

  //===--------------------------------------------------------------------===//
  // Values (PrintValues.cpp)
  //===--------------------------------------------------------------------===//

  /// A value as an operand, once; vectors of equal lanes as one lane.
  Expression take(mlir::Value value);
  /// The same with vectors as vectors.
  Expression takeWhole(mlir::Value value);
  Expression whole(Expression expression, mlir::Type type);
  /// An identifier or literal for `value`, which may then be used again.
  Expression takeSimple(mlir::Value value, llvm::StringRef hint);
  /// `value` is `expression`: part of its user or a variable of its own.
  void define(mlir::Value value, Expression expression);
  /// `value` is a new variable.
  void declare(mlir::Value value, const Expression &expression);
  std::string declareName(mlir::Value value);
  std::string newVariable(mlir::Value value, llvm::StringRef name,
                          const Expression *initial);
  /// Variables for everything that reads memory and has not been written yet:
  /// an effect follows.
  void settle();
  bool inlines(mlir::Value value, const Expression &expression) const;
  /// The name that the generator gave to the value; empty where none.
  llvm::StringRef givenName(mlir::Value value) const;

  //===--------------------------------------------------------------------===//
  // Arithmetic (PrintArithmetic.cpp, PrintIntegers.cpp, PrintVectors.cpp)
  //===--------------------------------------------------------------------===//

  bool printArithmetic(mlir::Operation *op);
  bool printInteger(mlir::Operation *op);
  bool printCast(mlir::Operation *op);
  bool printMath(mlir::Operation *op);
  bool printVector(mlir::Operation *op);
  Expression operation(mlir::Operation *op, llvm::StringRef text,
                       Precedence precedence);
  Expression function(mlir::Operation *op, llvm::StringRef name);
  Expression compare(mlir::arith::CmpFOp op);
  Expression compare(mlir::arith::CmpIOp op);
  /// static_cast<type>(expression), or the prelude's for vectors.
  Expression cast(mlir::Type type, const Expression &expression,
                  mlir::Operation *op);
  Expression asUnsigned(const Expression &expression, mlir::Type type);
  bool isIndex64() const { return index64; }

  //===--------------------------------------------------------------------===//
  // Memory (PrintMemory.cpp, PrintGpu.cpp)
  //===--------------------------------------------------------------------===//

  bool printMemory(mlir::Operation *op);
  bool printGpu(mlir::Operation *op);
  bool printCuda(mlir::Operation *op);
  Buffer bufferOf(mlir::Value memref, mlir::Operation *op);
  /// The element at `indices`, as an lvalue.
  Expression element(mlir::Value memref, Indices indices, mlir::Operation *op);
  /// Its address.
  Expression address(mlir::Value memref, Indices indices, mlir::Operation *op);
  Expression offset(mlir::MemRefType type, Indices indices,
                    mlir::Operation *op);
  void definePointer(mlir::Value memref, Expression start, mlir::Operation *op);
  void printSubview(mlir::memref::SubViewOp op);
  void printAtomic(mlir::memref::AtomicRMWOp op);
  /// A statement with effects: what `text` has taken is evaluated before it.
  void effect(const llvm::Twine &text);

  //===--------------------------------------------------------------------===//
  // Control flow (PrintControlFlow.cpp)
  //===--------------------------------------------------------------------===//

  void printFor(mlir::scf::ForOp op);
  void printIf(mlir::scf::IfOp op);
  void printWhile(mlir::scf::WhileOp op);
  /// Variables that carry `initial` through `op`; `inside` and `results` are
  /// their values there.
  llvm::SmallVector<std::string>
  carry(mlir::Operation *op, mlir::ValueRange initial, mlir::ValueRange inside,
        mlir::ValueRange results, mlir::ValueRange yielded);
  /// variables = values, all at once.
  void assign(llvm::ArrayRef<std::string> variables, mlir::ValueRange values);
  /// Whether `op` may go on with the variable of `value`: nothing else reads
  /// it.
  bool ownsVariable(mlir::Value value, mlir::Operation *op) const;
  void bindVariable(mlir::Value value, llvm::StringRef name);

  mlir::gpu::GPUFuncOp kernel;
  bool index64 = false;
  bool failed = false;
  std::string body;
  int indent = 2;
  NameScopes names;
  llvm::DenseMap<mlir::Value, Expression> values;
  llvm::DenseMap<mlir::Value, Buffer> buffers;
  /// Values that are variables assigned to later.
  llvm::DenseMap<mlir::Value, std::string> carried;
  /// How many values carry a location: the ops of one op of the model share its
  /// name, which is none of a variable.
  llvm::DenseMap<mlir::Location, int> sharers;
  /// Values of the present block that no statement contains yet.
  llvm::SmallVector<mlir::Value> waiting;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_EMIT_KERNELPRINTER_H
