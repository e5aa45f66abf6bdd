//===- Subgraph.h - a compiled node group -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_ONNXRUNTIME_SUBGRAPH_H
#define MPC_LIB_BINDINGS_ONNXRUNTIME_SUBGRAPH_H

#include "HostSession.h"
#include "OnnxEncoder.h"
#include "ProviderOptions.h"

#include "mpc/JIT/Engine.h"
#include "mpc/Runtime/ExecutableFile.h"

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace mpc::ort {

/// What the subgraphs of a session share. Outlives them.
struct SessionState {
  const HostApi &api;
  const OrtLogger *logger;
  ProviderOptions options;
  Device device;
};

/// A node group that runs as one node of ONNX Runtime. Thread-safe after
/// bind().
class Subgraph {
public:
  /// A group that mpc cannot compile.
  struct Failure {
    Status status;
    /// Position of the failing node in HostGraph::nodes, if it is one.
    std::optional<size_t> node = {};
  };

  /// Compiles `group` if all shapes are known, else checks it with an import
  /// for sample shapes; runs then compile for their shapes. Sets `failure` and
  /// returns null if mpc cannot compile it.
  static std::unique_ptr<Subgraph> prepare(const SessionState &session,
                                           const HostGraph &graph,
                                           const NodeGroup &group,
                                           Failure &failure);

  /// A group in the EPContext node `name` of `graph`: the program in `file`,
  /// whose machine code the session trusts. Fails if values have other types
  /// than in the graph.
  static Result<std::unique_ptr<Subgraph>> load(const SessionState &session,
                                                const HostGraph &graph,
                                                const std::string &name,
                                                const ExecutableFile &file);

  /// Returns true if runs need no constants from ONNX Runtime.
  bool dropsConstants() const { return isStatic; }

  /// Returns true if the subgraph was compiled with the session.
  bool isCompiled() const { return compiled.has_value(); }
  /// Returns true unless an override matches no op of a compiled subgraph.
  bool usesOverride(const std::pair<std::string, std::string> &set) const;

  /// Compiles the subgraph for static shapes into an .mpcx file.
  /// Called before ONNX Runtime frees the graph.
  Status compileToFile(const std::string &file) const;
  Result<std::string> compileToBytes() const;

  /// Sets the order of inputs and outputs of the node that ONNX Runtime runs.
  /// Constants of the graph are not used afterwards.
  Status bind(const std::vector<std::string> &inputs,
              const std::vector<std::string> &outputs);

  /// Runs the node.
  Status run(OrtKernelContext *context);

  const std::vector<std::string> &outputNames() const { return outputs; }

private:
  /// Positions of a program's arguments and results among the node's inputs and
  /// outputs.
  struct Bound {
    Executable executable;
    std::vector<size_t> arguments, results;
    /// Inputs that are no arguments, and the values that were compiled in.
    std::vector<std::pair<size_t, Buffer>> values;

    /// Returns true if the program computes the node for these inputs.
    bool fits(const std::vector<Buffer> &buffers) const;
  };
  using BoundHandle = std::shared_ptr<const Bound>;

  explicit Subgraph(const SessionState &session)
      : session(session), compileOptions(session.options.compile) {
    compileOptions.dims.clear();
    compileOptions.isPartOfModel = true;
  }

  /// Logs, once for each, that an override matches no op of this subgraph.
  void warnOfOverride(const Diagnostic &message);

  ModelSource makeSource() const;
  /// Shapes of all inputs, with the options' dims; nullopt if one is dynamic.
  static std::optional<InputShapes> knownShapes(const HostGraph &graph,
                                                const NodeGroup &group,
                                                const ProviderOptions &options,
                                                bool &usesDims);
  /// Imports for sample shapes of dynamic inputs.
  bool checkSamples(const HostGraph &graph, const NodeGroup &group,
                    Failure &failure) const;
  /// Binds a program that was compiled for inputs with these values.
  Result<BoundHandle> makeBound(Executable executable,
                                const std::vector<Buffer> &buffers) const;
  /// Returns the program for the inputs, compiled if needed.
  Result<BoundHandle> boundFor(const std::vector<Buffer> &buffers,
                               OrtKernelContext *context);
  Status runBound(const Bound &bound, std::vector<Buffer> buffers,
                  OrtKernelContext *context) const;
  /// Returns true if a failed compile depends on no values of `arguments`.
  bool dependsOnTypesOnly(const NamedBuffers &arguments) const;
  /// Creates the session in ONNX Runtime if there is none. Called with `mutex`.
  Status makeFallback();
  Status runInHost(const Status &why, OrtKernelContext *context);
  Result<const OrtValue *> inputAt(OrtKernelContext *context,
                                   size_t position) const;

  const SessionState &session;
  /// The session's options without dims.
  CompileOptions compileOptions;
  std::string name;
  /// Without constants.
  std::vector<std::string> inputs, outputs;
  EncodedGroup encoded;
  bool isStatic = false;
  /// Compiled for the shapes that were known when the session was created.
  std::optional<Executable> compiled;
  BoundHandle fixed;

  // After bind():
  std::vector<size_t> inputPositions, outputPositions;
  std::unordered_map<std::string, size_t> positionOfInput, positionOfOutput;

  /// Guards the members below.
  std::mutex mutex;
  std::shared_ptr<Engine> engine;
  std::optional<Model> model;
  /// Overrides that match no op of the subgraph, "KEY=TYPE".
  std::set<std::string> unusedOverrides;
  /// Input types that were compiled, and those that cannot be, with the reason.
  std::set<std::string> known;
  std::map<std::string, Status> refused;
  std::unordered_map<const Program *, BoundHandle> programs;
  /// Program of the last run that looked for one.
  BoundHandle recent;
  std::unique_ptr<HostSession> fallback;
  /// Why ONNX Runtime cannot run the subgraph either.
  Status fallbackFailure;
  bool hasWarned = false;
};

} // namespace mpc::ort

#endif // MPC_LIB_BINDINGS_ONNXRUNTIME_SUBGRAPH_H
