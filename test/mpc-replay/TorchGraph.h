//===- TorchGraph.h - a graph of torch ops ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds a function of mpc ops, call by call of torch ops; each call is one
// group of mpc.source. After mpc-assign-precision, the class reports the types
// that each call reads, computes in and stores.
//
// The graph is f32 throughout, as an exporter writes it: each call upcasts its
// 16-bit arguments with casts of its own, which model the type promotion of
// torch.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_REPLAY_TORCHGRAPH_H
#define MPC_TOOLS_REPLAY_TORCHGRAPH_H

#include "Replay.h"

#include "mpc/Dialect/Mpc/IR/CreateChecked.h"
#include "mpc/Policy/Policy.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <stdexcept>

namespace mpc::replay {

/// Thrown for what the dialect or this program cannot express.
struct NotCovered : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Shape = llvm::SmallVector<int64_t>;
using Attributes = llvm::SmallVector<mlir::NamedAttribute>;

/// Casts and compute types of some ops of torch, as recorded or as planned.
struct Trace {
  /// Number of f32 operands that an op reads in 16 bits, and of 16-bit operands
  /// that an op reads in f32.
  int narrowed = 0, widened = 0;
  /// The type that each op computes in; neighbours that agree are one entry.
  std::vector<std::string> computes;

  void compute(const std::string &type) {
    if (!type.empty() && (computes.empty() || computes.back() != type))
      computes.push_back(type);
  }
  void append(const Trace &other) {
    narrowed += other.narrowed;
    widened += other.widened;
    for (const std::string &type : other.computes)
      compute(type);
  }
  /// The differences from the recording `expected`; empty if there are none.
  std::string differenceFrom(const Trace &expected) const;
};

class TorchGraph {
public:
  TorchGraph(mlir::MLIRContext &context, const Policy &policy);

  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//

  mlir::Value argument(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// An argument that autocast casts once however often it is read.
  mlir::Value parameter(llvm::ArrayRef<int64_t> shape);

  using Body = std::function<mlir::Value(llvm::ArrayRef<mlir::Value>)>;
  /// One call of torch's op `name` on `tensors`.
  mlir::Value call(const std::string &name, llvm::ArrayRef<mlir::Value> tensors,
                   const Body &body);
  /// A call that only changes the shape: it computes nothing.
  mlir::Value view(const std::string &name, mlir::Value tensor,
                   const std::function<mlir::Value(mlir::Value)> &body);
  /// A conversion that exists in the program; the value itself where it has the
  /// type already.
  mlir::Value convert(mlir::Value tensor, mlir::Type element);
  /// Whether a list of the policy holds `name`: torch then sees one op where it
  /// would else see its parts.
  bool isListed(const std::string &name) const {
    return policy.classOfSystemOp(name).has_value();
  }
  // Ops of ours, for bodies. Wrong shapes throw NotCovered.
  template <typename OpTy>
  mlir::Value op(mlir::ValueRange operands, const Attributes &attributes = {}) {
    mlir::FailureOr<OpTy> made = createChecked<OpTy>(
        builder, builder.getUnknownLoc(), operands, attributes);
    if (mlir::failed(made))
      throw NotCovered("the graph does not verify: " +
                       OpTy::getOperationName().str());
    return (*made)->getResult(0);
  }
  mlir::Value typed(llvm::StringRef name, mlir::Type type,
                    mlir::ValueRange operands, const Attributes &attributes);
  /// An op whose result has its first operand's type.
  template <typename OpTy>
  mlir::Value same(mlir::ValueRange operands,
                   const Attributes &attributes = {}) {
    return typed(OpTy::getOperationName(), operands[0].getType(), operands,
                 attributes);
  }
  /// A number of the program, in the element type of `like`.
  mlir::Value number(double value, mlir::Value like);
  mlir::Value filled(double value, llvm::ArrayRef<int64_t> shape,
                     mlir::Value like);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> order);
  mlir::Value slice(mlir::Value value, int64_t axis, int64_t start,
                    int64_t size);
  template <typename OpTy>
  mlir::Value reduce(mlir::Value value, Shape axes, bool keepDims) {
    Attributes attributes = {
        attribute("axes", builder.getDenseI64ArrayAttr(axes))};
    if (keepDims)
      attributes.push_back(attribute("keep_dims", builder.getUnitAttr()));
    return op<OpTy>({value}, attributes);
  }
  mlir::Value compare(ComparePredicate predicate, mlir::Value lhs,
                      mlir::Value rhs);
  mlir::NamedAttribute attribute(llvm::StringRef name, mlir::Attribute value) {
    return builder.getNamedAttr(name, value);
  }

  static Shape shapeOf(mlir::Value value) {
    return Shape(
        mlir::cast<mlir::RankedTensorType>(value.getType()).getShape());
  }
  static Shape allAxes(mlir::Value value);

  mlir::OpBuilder builder;

  //===--------------------------------------------------------------------===//
  // After the pass
  //===--------------------------------------------------------------------===//

  /// Closes the function and runs mpc-assign-precision with `preset`. Every
  /// call's result and `outputs` are returned, so that their types show.
  llvm::Error assign(const std::string &preset,
                     llvm::ArrayRef<mlir::Value> outputs);

  /// The type in which torch would see `value`.
  std::string typeOf(mlir::Value value) const;
  /// Trace of the calls [first, last).
  Trace trace(size_t first, size_t last);
  size_t getNumCalls() const { return calls.size(); }

private:
  struct Call {
    std::string name;
    llvm::SmallVector<mlir::Value> operands;
    llvm::SmallVector<mlir::Operation *> ops;
    mlir::Value result;
    bool isView = false;
  };
  struct Listener : mlir::OpBuilder::Listener {
    explicit Listener(TorchGraph &graph) : graph(graph) {}
    void notifyOperationInserted(mlir::Operation *op,
                                 mlir::OpBuilder::InsertPoint) override {
      graph.tag(op);
    }
    TorchGraph &graph;
  };
  void tag(mlir::Operation *op);
  void traceCall(const Call &call, Trace &trace);
  /// Whether `op` is a cast that the pass put in, or the promotion of `call`.
  bool isLookedThrough(mlir::Operation *op, const Call &call) const;

  const Policy &policy;
  Listener listener;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp func;
  std::vector<Call> calls;
  Call *open = nullptr;
  llvm::DenseSet<mlir::Operation *> built;
  llvm::DenseSet<mlir::Value> parameters;
  /// Parameters whose cast is counted: autocast caches it.
  llvm::DenseSet<mlir::Value> castParameters;
  llvm::DenseMap<mlir::Value, std::string> types;
};

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_TORCHGRAPH_H
