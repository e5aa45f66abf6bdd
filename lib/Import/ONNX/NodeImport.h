//===- NodeImport.h - conversion of one node --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interface for converters of a node: operands, checked attributes, op
// builders, and values known at import. Errors are sticky: after the first one
// every builder returns a null value, so that a converter needs no checks and
// the importer fails once.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_NODEIMPORT_H
#define MPC_LIB_IMPORT_ONNX_NODEIMPORT_H

#include "Graph.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Reference/Tensor.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

namespace mpc::onnx {

class Importer;

/// Meaning of a name: a tensor, a list of tensors (sequence types), or nothing
/// (an empty optional).
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

  /// Operator version selected by the model's opset.
  const int64_t version;
  const Node &node;
  mlir::OpBuilder &builder;

  //===--------------------------------------------------------------------===//
  // Errors
  //===--------------------------------------------------------------------===//

  /// Emits an error at the node; the message starts with the operator's name.
  mlir::InFlightDiagnostic error();
  /// Marks a failure whose diagnostic was already emitted.
  void fail() { hasFailed = true; }
  bool failed() const { return hasFailed; }
  mlir::LogicalResult status() const { return mlir::failure(hasFailed); }

  //===--------------------------------------------------------------------===//
  // Operands and results
  //===--------------------------------------------------------------------===//

  size_t inputCount() const { return node.inputs.size(); }
  /// Returns true if input `i` is present.
  bool has(size_t i) const;
  /// Returns true if the node's output `i` is used.
  bool wants(size_t i) const;
  /// Returns input `i` as a tensor. Emits an error if it is absent or a
  /// sequence.
  mlir::Value in(size_t i);
  /// Returns all inputs as tensors.
  llvm::SmallVector<mlir::Value> ins();
  /// Returns input `i` of any kind.
  Binding binding(size_t i);
  /// Returns whether the model's graph records its parameters (Graph.h).
  bool recordsParameters() const;
  /// Sets output `i`.
  void set(size_t i, mlir::Value value);
  void setList(size_t i, std::vector<mlir::Value> list);
  /// Sets the first output and ends the conversion.
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
  /// Normalizes a negative `axis`; emits an error if it is outside of `[0,
  /// rank)`.
  int64_t axis(int64_t axis, int64_t rank);
  /// Returns attribute `name` as an axis.
  int64_t axisAttr(llvm::StringRef name, int64_t fallback, int64_t rank);
  /// Returns sorted, unique axes; emits an error if one is out of range or
  /// repeated.
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
  /// Returns true for f16 and bf16.
  static bool isNarrow(mlir::Type type);
  /// Returns the extent of dimension `i`; 0 if there is none.
  static int64_t dim(mlir::Value value, int64_t i);
  /// Returns a tensor type, or null with an error if it is too large.
  mlir::RankedTensorType tensorType(Ints shape, mlir::Type element);
  /// Returns the NumPy broadcast shape; emits an error if there is none.
  llvm::SmallVector<int64_t>
  broadcastShape(llvm::ArrayRef<llvm::ArrayRef<int64_t>> shapes);

  //===--------------------------------------------------------------------===//
  // Small types: see NarrowStorageType.h
  //===--------------------------------------------------------------------===//

  /// Returns the small type of a value, 0 if it has none.
  int32_t narrowStorageType(mlir::Value value) const;
  /// Returns the bytes of `value`, of a small type, as i32.
  mlir::Value carried(mlir::Value value);
  /// Marks new `bytes` as a small type and returns them.
  mlir::Value withNarrowType(mlir::Value bytes, int32_t dataType);

  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//

  /// Creates an op that infers its types; returns its first result.
  template <typename OpTy>
  mlir::Value op(mlir::ValueRange operands, Attributes attributes = {}) {
    mlir::Operation *created =
        inferred(OpTy::getOperationName(), operands, attributes);
    return created ? created->getResult(0) : mlir::Value();
  }
  /// The same, returning the op (null after an error).
  mlir::Operation *inferred(llvm::StringRef name, mlir::ValueRange operands,
                            Attributes attributes = {});
  /// Creates an op with given result types.
  mlir::Operation *typed(llvm::StringRef name, mlir::TypeRange types,
                         mlir::ValueRange operands, Attributes attributes = {});

  /// Creates an op whose 16-bit float result becomes f32, its accumulator type.
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
  /// Slices one axis.
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
  /// Matmul that returns accumulators: f32 for 16-bit operands, modulo 2^width
  /// for integers.
  mlir::Value matmulWide(mlir::Value lhs, mlir::Value rhs,
                         bool transposeLhs = false, bool transposeRhs = false);
  /// Returns the accumulator type of a contraction of `element`.
  mlir::Type wideType(mlir::Type element);
  /// Casts accumulators back to `element`.
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
  /// Returns 32 random bits (mpc.random_bits) per element of `shape`, as i64 in
  /// [0, 2^32), equal in every run of the model: attribute 'seed' is the key,
  /// and every call here uses a new stream.
  mlir::Value randomBits(Ints shape);
  /// Creates a constant from file data.
  mlir::Value constant(TensorData &data);
  mlir::Value constant(mlir::ElementsAttr value);

  //===--------------------------------------------------------------------===//
  // Values known while importing
  //===--------------------------------------------------------------------===//

  /// Returns the value if it depends on constants only, within the folding
  /// limit.
  std::shared_ptr<const reference::Tensor> known(mlir::Value value);
  /// Returns input `i` as known integers (floats are an error). `what` is its
  /// name in messages.
  llvm::SmallVector<int64_t> constantIntValues(size_t i, llvm::StringRef what);
  llvm::SmallVector<double> constantFloatValues(size_t i, llvm::StringRef what);
  /// Returns input `i` as one known integer, `fallback` if absent.
  int64_t knownInt(size_t i, llvm::StringRef what, int64_t fallback = 0);
  /// Returns attribute `name` (old versions) or input `i` (new versions) as
  /// integers; nullopt if neither is present.
  std::optional<llvm::SmallVector<int64_t>> attrOrInput(llvm::StringRef name,
                                                        size_t i);

  Importer &importer;

private:
  const NodeAttribute *attribute(llvm::StringRef name, NodeAttribute::Kind kind,
                                 llvm::StringRef kindName);
  mlir::Operation *finish(mlir::FailureOr<mlir::Operation *> created);
  /// Returns the small type of the results of `op`; fails if it computes with
  /// one.
  mlir::FailureOr<int32_t> forwardNarrowType(mlir::Operation *op);
  std::shared_ptr<const reference::Tensor> need(size_t i, llvm::StringRef what);

  bool hasFailed = false;
};

/// Converts one node. Failure, or an error reported through the NodeImport,
/// ends the import.
using Converter = mlir::LogicalResult (*)(NodeImport &);

/// A supported operator.
struct OpEntry {
  /// Parses "NAME VERSIONS INPUTS ATTRIBUTES": comma-separated versions, the
  /// number of inputs such as "2", "1-3" or "1+" for any number, and the
  /// attributes that the converter reads, as in "Clip 6,11,12,13 1-3 min max".
  OpEntry(llvm::StringRef signature, Converter convert);

  llvm::StringRef name;
  /// Versions of its schema from the oldest supported opset on, ascending.
  llvm::SmallVector<int64_t, 8> versions;
  int minInputs = 0;
  int maxInputs = 0; ///< -1: any number
  /// Attributes that the converter reads, space-separated.
  llvm::StringRef attributes;
  Converter convert;
};

/// Operators of one family.
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

/// Returns the entry of an operator; null if it is unsupported.
const OpEntry *findOp(llvm::StringRef domain, llvm::StringRef name);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_NODEIMPORT_H
