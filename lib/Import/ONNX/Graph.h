//===- Graph.h - an ONNX model as plain structs -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layer 1 of the importer: the file's contents, checked and flattened,
// independent of operator semantics. Names are resolved, local functions
// inlined, data in mpc's memory layout.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_GRAPH_H
#define MPC_LIB_IMPORT_ONNX_GRAPH_H

#include "mpc/Dialect/Mpc/IR/ConstantOrigin.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Location.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mpc::onnx {

/// Maximum rank of a tensor.
inline constexpr int64_t kMaxRank = 32;
/// Maximum number of nodes after inlining functions and unrolling loops.
inline constexpr int64_t kMaxNodes = 1 << 18;

/// Supported values of TensorProto.DataType.
enum DataType : int32_t {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
  // Small types, stored as bytes: see NarrowStorageType.h.
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
};

/// Returns the name of a data type, "type 99" for an unknown number.
std::string dataTypeName(int32_t dataType);

/// Returns the MLIR element type, null if unsupported.
mlir::Type elementTypeOf(int32_t dataType, mlir::MLIRContext *context);

/// Byte range of a tensor in an external data file.
struct ExternalRange {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;
};

/// A constant tensor: row-major, little-endian, one byte (0 or 1) per boolean
/// and one per sub-byte element. External data is read when the constant is
/// first used.
struct TensorData {
  std::string name;
  int32_t dataType = 0;
  llvm::SmallVector<int64_t> dims;
  std::string bytes;
  std::optional<ExternalRange> external;
  /// For an initializer: origin recorded by the exporter.
  ConstantOrigin origin;
};

struct Graph;

/// An attribute of a node.
struct NodeAttribute {
  enum class Kind {
    Float,
    Int,
    String,
    Tensor,
    Graph,
    Floats,
    Ints,
    Strings,
    Other
  };
  std::string name;
  Kind kind = Kind::Other;
  double f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<double> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::shared_ptr<TensorData> tensor;
  std::shared_ptr<Graph> graph;
};

/// One operator application. An empty name is an absent input or output.
struct Node {
  std::string op, domain, name, layer;
  /// Framework op recorded by the exporter; nodes with equal `sourceId` came
  /// from the same op. Empty if not recorded.
  std::string source;
  int64_t sourceId = 0;
  int64_t index = 0; ///< position in the file's graph (of the call, if inlined)
  int64_t opset = 0; ///< version of the default domain
  std::vector<std::string> inputs, outputs;
  std::vector<NodeAttribute> attributes;
  mlir::LocationAttr location;

  const NodeAttribute *find(llvm::StringRef attributeName) const;
};

/// A declared dimension: an extent, a symbol, or (both empty) unknown.
struct Dimension {
  std::optional<int64_t> extent;
  std::string symbol;
};

/// A declared value: graph input, graph output or value_info.
struct ValueInfo {
  std::string name;
  /// "tensor", or another kind ("sequence", "map", "optional", "sparse tensor",
  /// "untyped").
  std::string kind = "untyped";
  int32_t dataType = 0;
  std::optional<llvm::SmallVector<Dimension>> dims;
};

/// A graph with nodes in topological order.
struct Graph {
  std::string name;
  std::vector<ValueInfo> inputs, outputs, values;
  std::vector<TensorData> initializers;
  std::vector<Node> nodes;
  /// Whether the exporter recorded the module's parameters, each of which is an
  /// initializer or a source of one.
  bool recordsParameters = false;
};

/// A complete model.
struct Model {
  int64_t irVersion = 0, opset = 0;
  std::string fileName, folder;
  Graph graph;
};

/// Parses and checks a model. Null after an error, which is reported at a
/// location in `fileName` whose line is the node's position in the graph.
std::unique_ptr<Model> readModel(llvm::ArrayRef<char> bytes,
                                 llvm::StringRef fileName,
                                 llvm::StringRef folder,
                                 mlir::MLIRContext *context);

/// Names that a graph and its enclosing graphs define.
struct NameScope {
  const NameScope *outer = nullptr;
  llvm::StringMap<char> names;
  bool contains(llvm::StringRef name) const;
};

/// Checks SSA form: every input is defined before its use, every name is
/// defined once. `outer` contains the names visible from enclosing graphs.
mlir::LogicalResult checkGraph(const Graph &graph, mlir::Location location,
                               const NameScope *outer = nullptr);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_GRAPH_H
