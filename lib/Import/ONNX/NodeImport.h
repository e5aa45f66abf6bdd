//===- NodeImport.h - one node on its way into mpc --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a converter sees of a node: operands, checked attributes, ways to build
// mpc ops, and values that are known while importing. Errors stick: after the
// first one every builder returns a null value, so a converter reads straight
// on and the importer fails once.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_NODEIMPORT_H
#define MPC_LIB_IMPORT_ONNX_NODEIMPORT_H

#include "Graph.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Reference/Tensor.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

namespace mpc::onnx {

class Importer;

/// What a name stands for: a tensor, a list of tensors (sequence types), or
/// nothing (an empty optional).
struct Binding {
  mlir::Value value;
  std::shared_ptr<const std::vector<mlir::Value>> list;
};

class NodeImport {
public:
  using Values = llvm::ArrayRef<mlir::Value>;
  using Ints = llvm::ArrayRef<int64_t>;
  using Attributes = llvm::ArrayRef<mlir::NamedAttribute>;

  NodeImport(Importer &importer, const Node &node, int64_t version);

  /// The version of the operator that the model's opset selects.
  const int64_t version;
  const Node &node;
  mlir::OpBuilder &builder;

  //===--------------------------------------------------------------------===//
  // Errors
  //===--------------------------------------------------------------------===//

  /// Starts an error at the node; the message begins with the operator's name.
  mlir::InFlightDiagnostic error();
  /// Notes a failure whose diagnostic was already reported.
  void fail() { hasFailed = true; }
  bool failed() const { return hasFailed; }
  mlir::LogicalResult status() const { return mlir::failure(hasFailed); }

  //===--------------------------------------------------------------------===//
  // Operands and results
  //===--------------------------------------------------------------------===//

  size_t inputCount() const { return node.inputs.size(); }
  /// Whether input `i` is present.
  bool has(size_t i) const;
  /// Whether the node's output `i` has a name.
  bool wants(size_t i) const;
  /// Input `i` as a tensor. An error where it is absent or a sequence.
  mlir::Value in(size_t i);
  /// All inputs as tensors.
  llvm::SmallVector<mlir::Value> ins();
  /// Input `i`, whatever it is.
  Binding binding(size_t i);
  /// Gives output `i` its value.
  void set(size_t i, mlir::Value value);
  void setList(size_t i, std::vector<mlir::Value> list);
  /// Gives the first output its value and ends the conversion.
  mlir::LogicalResult result(mlir::Value value);

  //===--------------------------------------------------------------------===//
  // Attributes
  //===--------------------------------------------------------------------===//

  bool hasAttr(llvm::StringRef name) const {
    return node.find(name) != nullptr;
  }
  int64_t intAttr(llvm::StringRef name, int64_t fallback);
  bool flag(llvm::StringRef name, bool fallback = false);
  double floatAttr(llvm::StringRef name, double fallback);
  std::string stringAttr(llvm::StringRef name, llvm::StringRef fallback);
  llvm::SmallVector<int64_t> intsAttr(llvm::StringRef name, Ints fallback = {});
  llvm::SmallVector<double> floatsAttr(llvm::StringRef name);
  std::vector<std::string> stringsAttr(llvm::StringRef name);
  std::shared_ptr<TensorData> tensorAttr(llvm::StringRef name);
  std::shared_ptr<Graph> graphAttr(llvm::StringRef name);
  /// `axis` counted from the end where negative; an error outside `[0, rank)`.
  int64_t axis(int64_t axis, int64_t rank);
  /// Attribute `name` as an axis.
  int64_t axisAttr(llvm::StringRef name, int64_t fallback, int64_t rank);
  /// Sorted, unique axes; an error where one is outside or double.
  llvm::SmallVector<int64_t> axes(Ints axes, int64_t rank);

  //===--------------------------------------------------------------------===//
  // Types. All accept null values (an earlier error) and give empty answers.
  //===--------------------------------------------------------------------===//

  static Ints shape(mlir::Value value);
  static int64_t rank(mlir::Value value) {
    return int64_t(shape(value).size());
  }
  static mlir::Type element(mlir::Value value);
  static bool isFloat(mlir::Value value);
  static bool isUnsigned(mlir::Value value);
  /// f16 or bf16.
  static bool isNarrow(mlir::Type type);
  /// Extent of dimension `i`; 0 where there is none.
  static int64_t dim(mlir::Value value, int64_t i);
  /// A tensor type, or null with an error where it is too large.
  mlir::RankedTensorType tensorType(Ints shape, mlir::Type element);
  /// The shape that NumPy broadcasting gives; an error where there is none.
  llvm::SmallVector<int64_t>
  broadcastShape(llvm::ArrayRef<llvm::ArrayRef<int64_t>> shapes);

  //===--------------------------------------------------------------------===//
  // Small types: see SmallType.h
  //===--------------------------------------------------------------------===//

  /// The small type of a value, 0 where it has none.
  int32_t smallType(mlir::Value value) const;
  /// The bytes that `value`, of a small type, travels in, as i32.
  mlir::Value carried(mlir::Value value);
  /// Notes that `bytes`, made for this, are of a small type; gives them back.
  mlir::Value asSmall(mlir::Value bytes, int32_t dataType);

  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//

  /// Creates an op that infers its types; its first result.
  template <typename OpTy>
  mlir::Value op(mlir::ValueRange operands, Attributes attributes = {}) {
    mlir::Operation *created =
        inferred(OpTy::getOperationName(), operands, attributes);
    return created ? created->getResult(0) : mlir::Value();
  }
  /// The same, all results (null after an error).
  mlir::Operation *inferred(llvm::StringRef name, mlir::ValueRange operands,
                            Attributes attributes = {});
  /// Creates an op with given result types.
  mlir::Operation *typed(llvm::StringRef name, mlir::TypeRange types,
                         mlir::ValueRange operands, Attributes attributes = {});

  /// Creates an op whose 16-bit float result becomes f32: its accumulators.
  mlir::Value widened(llvm::StringRef name, mlir::ValueRange operands,
                      Attributes attributes);

  mlir::NamedAttribute attr(llvm::StringRef name, mlir::Attribute value);
  mlir::NamedAttribute attr(llvm::StringRef name, int64_t value);
  mlir::NamedAttribute attr(llvm::StringRef name, Ints value);
  mlir::NamedAttribute attrF(llvm::StringRef name, double value);
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
  mlir::Value pad(mlir::Value value, Ints low, Ints high, double fill);
  mlir::Value gather(mlir::Value value, mlir::Value indices, int64_t axis);
  mlir::Value compare(ComparePredicate predicate, mlir::Value lhs,
                      mlir::Value rhs);
  mlir::Value select(mlir::Value condition, mlir::Value onTrue,
                     mlir::Value onFalse);
  mlir::Value iota(int64_t extent, int64_t axis, int64_t rank,
                   mlir::Type element);
  /// Sum, mean, ... over `axes`. 16-bit operands accumulate in f32.
  template <typename OpTy>
  mlir::Value reduce(mlir::Value value, Ints axes, bool keepDims = true) {
    return reduceNamed(OpTy::getOperationName(), value, axes, keepDims);
  }
  mlir::Value reduceNamed(llvm::StringRef name, mlir::Value value, Ints axes,
                          bool keepDims);
  /// Product of matrices; 16-bit operands give their f32 accumulators, integers
  /// their sums modulo 2^width.
  mlir::Value matmulWide(mlir::Value lhs, mlir::Value rhs,
                         bool transposeLhs = false, bool transposeRhs = false);
  /// The type that a contraction of `element` accumulates in.
  mlir::Type wideType(mlir::Type element);
  /// Casts back after a contraction, where it widened.
  mlir::Value narrow(mlir::Value value, mlir::Type element) {
    return cast(value, element);
  }

  /// Scalar, splat and dense constants; floats are rounded, integers wrapped.
  mlir::Value scalar(double value, mlir::Type element) {
    return splat({}, value, element);
  }
  mlir::Value splat(Ints shape, double value, mlir::Type element);
  mlir::Value ints(Ints values, Ints shape);
  mlir::Value ints(Ints values) {
    return ints(values, {int64_t(values.size())});
  }
  mlir::Value dense(Ints shape, llvm::ArrayRef<double> values,
                    mlir::Type element);
  mlir::Value booleans(Ints shape, llvm::ArrayRef<int64_t> values);
  /// `shape` times 32 random bits (mpc.random_bits) as i64 in [0, 2^32), the
  /// same at every call of the model: the node's attribute 'seed' is the key,
  /// and every call here has a stream of its own.
  mlir::Value randomBits(Ints shape);
  /// A constant from the file.
  mlir::Value constant(TensorData &data);
  mlir::Value constant(mlir::ElementsAttr value);

  //===--------------------------------------------------------------------===//
  // Values known while importing
  //===--------------------------------------------------------------------===//

  /// The value where it follows from constants alone, within the folding limit.
  std::shared_ptr<const reference::Tensor> known(mlir::Value value);
  /// Input `i` as known integers (floats are an error). `what` names its
  /// meaning.
  llvm::SmallVector<int64_t> knownInts(size_t i, llvm::StringRef what);
  llvm::SmallVector<double> knownFloats(size_t i, llvm::StringRef what);
  /// Input `i` as one known integer, `fallback` where absent.
  int64_t knownInt(size_t i, llvm::StringRef what, int64_t fallback = 0);
  /// Attribute `name` (old versions) or input `i` (new ones) as integers;
  /// nullopt where neither is given.
  std::optional<llvm::SmallVector<int64_t>> attrOrInput(llvm::StringRef name,
                                                        size_t i);

  Importer &importer;

private:
  const NodeAttribute *attribute(llvm::StringRef name, NodeAttribute::Kind kind,
                                 llvm::StringRef kindName);
  mlir::Operation *finish(mlir::FailureOr<mlir::Operation *> created);
  /// The small type that the results of `op` have; fails where it computes with
  /// one.
  mlir::FailureOr<int32_t> movedSmallType(mlir::Operation *op);
  std::shared_ptr<const reference::Tensor> need(size_t i, llvm::StringRef what);

  bool hasFailed = false;
};

/// Converts one node. Failure, or an error reported through the NodeImport,
/// ends the import.
using Converter = mlir::LogicalResult (*)(NodeImport &);

/// An operator that the importer knows.
struct OpEntry {
  /// From "NAME VERSIONS INPUTS ATTRIBUTES": the versions with commas between,
  /// the number of inputs as in "2", "1-3" or "1+" for any number, and what the
  /// converter reads of the attributes, as in "Clip 6,11,12,13 1-3 min max".
  OpEntry(llvm::StringRef signature, Converter convert);

  llvm::StringRef name;
  /// Versions of its schema from the oldest accepted opset on, ascending.
  llvm::SmallVector<int64_t, 8> versions;
  int minInputs = 0;
  int maxInputs = 0; ///< -1: any number
  /// Attributes that the converter reads, separated by blanks.
  llvm::StringRef attributes;
  Converter convert;
};

/// The operators of one family.
using OpFamily = llvm::ArrayRef<OpEntry>;
OpFamily elementwiseOps();
OpFamily activationOps();
OpFamily comparisonOps();
OpFamily matmulOps();
OpFamily einsumOps();
OpFamily convolutionOps();
OpFamily poolingOps();
OpFamily normalizationOps();
OpFamily softmaxOps();
OpFamily reductionOps();
OpFamily shapeOps();
OpFamily movementOps();
OpFamily indexingOps();
OpFamily generatorOps();
OpFamily gridSampleOps();
OpFamily bitCastOps();
OpFamily roiAlignOps();
OpFamily deformConvOps();
OpFamily detOps();
OpFamily randomOps();
OpFamily resizeOps();
OpFamily recurrentOps();
OpFamily attentionOps();
OpFamily microsoftAttentionOps();
OpFamily groupQueryAttentionOps();
OpFamily rotaryEmbeddingOps();
OpFamily lossOps();
OpFamily quantizationOps();
OpFamily quantizedRecurrentOps();
OpFamily sequenceOps();
OpFamily controlOps();
OpFamily optimizerOps();
OpFamily signalOps();
OpFamily linearAttentionOps();
OpFamily selectionOps();
OpFamily microsoftOps();

/// The entry of an operator; null where the importer does not know it.
const OpEntry *findOp(llvm::StringRef domain, llvm::StringRef name);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_NODEIMPORT_H
