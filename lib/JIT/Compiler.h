//===- Compiler.h - stages of one compile -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared by Engine and the tools: import, pipeline stages and code generation,
// each callable separately. Uses LLVM; internal.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_COMPILER_H
#define MPC_LIB_JIT_COMPILER_H

#include "Backend.h"

#include "mpc/Analysis/LayerTypeSummary.h"
#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/RuntimeTypes.h"
#include "mpc/JIT/ModelSource.h"
#include "mpc/JIT/Options.h"
#include "mpc/Pipelines/Pipelines.h"
#include "mpc/Runtime/Program.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mpc {

/// Returns the pipeline options of a compile for one target.
PipelineOptions pipelineOptions(const CompileOptions &options,
                                const TargetInfo &target);

/// One compile: its MLIR context, its diagnostics, and the steps from a model
/// to a program. Not thread-safe; instances are independent.
class Compiler {
public:
  using Module = mlir::OwningOpRef<mlir::ModuleOp>;

  /// Fails if the target does not exist or cannot run here.
  static Result<std::unique_ptr<Compiler>>
  create(const CompileOptions &options);
  ~Compiler();

  mlir::MLIRContext &context() { return *ctx; }
  const TargetInfo &target() const { return pipeline.target; }
  /// "cpu:avx512", "cuda:sm_90a".
  const std::string &targetName() const { return target().name(); }
  const PipelineOptions &pipelineOptions() const { return pipeline; }

  /// After import(): the inputs that became constants, or parameters
  /// initialized from the values in the options.
  const std::vector<std::string> &fixedInputs() const { return inputsFixed; }

  /// After a failed import(): the inputs whose value the import needed and the
  /// options lack.
  const std::vector<std::string> &neededInputs() const { return inputsNeeded; }

  /// After import() of a model with symbolic dimensions: the symbol of each
  /// dimension of each input, empty if the extent is fixed.
  using InputSymbols = std::map<std::string, std::vector<std::string>>;
  const InputSymbols &inputSymbols() const { return symbols; }
  /// Replaces the options' input shapes for later imports.
  void setInputShapes(std::map<std::string, std::vector<int64_t>> shapes) {
    options.inputShapes = std::move(shapes);
  }
  /// Limits the results of constant-folded nodes in later imports of ONNX
  /// models, in bytes; large ones stay ops.
  void setMaxFoldBytes(int64_t bytes) { maxFoldBytes = bytes; }
  /// Returns the failure of a step that started after `firstMessage`
  /// diagnostics.
  Status failure(size_t firstMessage) const;

  /// Reads a model into a module with one function @main of mpc ops.
  Result<Module> import(const ModelSource &model);

  /// Runs the stages that follow `after` ("import" for all) up to and including
  /// `last`, in place.
  Status runStages(mlir::ModuleOp module, llvm::StringRef after,
                   llvm::StringRef last);

  /// Lowers a copy of the kernels of a planned module to the back end's final
  /// IR: the LLVM dialect, or a gpu.module.
  Result<Module> lower(mlir::ModuleOp module);

  /// Builds the program of a planned module; with `withCode` also compiles its
  /// kernels, for a GPU to CUDA C++. The program records the layer types of the
  /// module that last ran through stage precision. Does not modify `module`.
  Result<std::shared_ptr<Program>> generate(mlir::ModuleOp module,
                                            bool withCode);

  /// Adds code for a file to the `program` of a planned module, for any target;
  /// returns the object to store next to the program, empty if the program
  /// contains the code. Deterministic.
  Result<std::vector<std::byte>> generateFile(mlir::ModuleOp module,
                                              Program &program);

  /// Replaces the store of large constants, which is in memory by default.
  void setStore(std::shared_ptr<ConstantStore> store);

  /// All diagnostics so far.
  const std::vector<Diagnostic> &diagnostics() const { return said; }

  /// Returns the policy's KV-cache type, or if unset its compute type if that
  /// is narrower than f32 and no override may change it.
  std::optional<ElementType> cacheType();
  /// Suppresses the warning about an unused KV-cache type of the policy: the
  /// caller compiles a decoder, or calls warnUnusedCache() itself.
  void setCacheFormats() { expectsCaches = true; }
  /// Warns if the policy sets a KV-cache type, which has no effect on a model
  /// that is no decoder.
  void warnUnusedCache();
  /// Returns the entry function, which a module has after a successful import.
  static mlir::func::FuncOp entry(mlir::ModuleOp module);

private:
  Compiler(const CompileOptions &options, const TargetInfo &target);
  /// Records the types of the layers, after stage precision.
  void recordLayerTypes(mlir::ModuleOp module);
  void hear(mlir::Diagnostic &message);
  /// Returns the value that the options give for an input, or null.
  mlir::ElementsAttr offeredValue(llvm::StringRef name);
  /// Compares `function`, just imported from `model`, with imports at exact
  /// numbers of cache rows (PaddedDecoder).
  Status compareLengths(const ModelSource &model, mlir::func::FuncOp function);
  /// Sets initial values of parameters from the options' values.
  void setInitialValues(mlir::ModuleOp module);
  /// Imports an ONNX model; null after diagnostics.
  Module importOnnx(const ModelSource &model, const SourceBytes &bytes);
  void enter(llvm::StringRef stage);
  /// Compares a planned module with `typed`, which is released.
  Status validate(mlir::ModuleOp planned);
  /// Returns true if cancellation was requested; a failure is then not an error
  /// of the model.
  bool stops() const { return options.shouldStop && options.shouldStop(); }
  Status stoppedStatus() const;
  /// Returns the first error after `firstMessage`, else `status`.
  Status explained(const Status &status, size_t firstMessage) const;
  Status dump(mlir::ModuleOp module, llvm::StringRef stage);
  /// Clones the kernels of a planned module: lowering works in place, and
  /// reports still read the planned module.
  static Module copyKernels(mlir::ModuleOp module);
  /// Lowered kernels and their back end.
  struct Lowered {
    std::unique_ptr<Backend> backend;
    Module kernels;
  };
  Result<Lowered> lowerKernels(mlir::ModuleOp module);

  CompileOptions options;
  PipelineOptions pipeline;
  /// Owns external constants of modules in the context.
  std::vector<ModelSource> sources;
  std::unique_ptr<mlir::MLIRContext> ctx;
  /// The module before stage pad, for validate(); null before and without it.
  Module typed;
  std::string stage = "import";
  std::vector<Diagnostic> said;
  /// Set once options.shouldStop has returned true.
  std::shared_ptr<std::atomic<bool>> stopped =
      std::make_shared<std::atomic<bool>>(false);
  std::vector<std::string> inputsFixed, inputsNeeded;
  InputSymbols symbols;
  std::optional<int64_t> maxFoldBytes;
  /// Layers of the module before the first stage, and their types afterwards.
  std::optional<LayerPaths> layerPaths;
  std::vector<LayerTypes> layers;
  int dumped = 0;
  bool expectsCaches = false;
};

/// Parses a target option; empty and "cpu:native" are the best level of this
/// machine. Fails if the target does not exist.
Result<TargetInfo> resolveTarget(const std::string &text);
/// Returns the target of `options`, with reproducible results if they or their
/// policy say so.
Result<TargetInfo> resolveTarget(const CompileOptions &options);

/// Location and op name as shown in messages: "m.onnx: fc/MatMul",
/// "m.mlir:3:5".
struct MessageLocation {
  std::string where;
  std::string op;
};
MessageLocation describeLocation(mlir::Location location);

/// Returns the op names in a location, outermost first; fused locations give
/// several.
llvm::SmallVector<llvm::StringRef> locationNames(mlir::Location location);

/// Fails, with diagnostics, if brackets in `text` nest too deep for the
/// recursive parser. Skips strings and comments.
Status checkNesting(llvm::StringRef text, llvm::StringRef fileName);

/// Fails if `text` exceeds the size limit of texts, is bytecode, or has a zero
/// among its first `most` bytes, like a sparse file.
Status checkText(llvm::StringRef text, const std::string &name,
                 size_t most = llvm::StringRef::npos);

/// Returns the bytes of `model`; of one that depends on the shapes of its
/// inputs the text for the options' shapes and extents. Fails if these leave a
/// dimension open.
Result<SourceBytes> readModel(const ModelSource &model,
                              const CompileOptions &options);

/// Returns the bytes of an external constant (ModelSource::fromShapes()).
struct ExternalBytes {
  std::function<Result<std::span<const std::byte>>(const std::string &)> read =
      {};
  /// ModelSource::computed()
  std::function<std::optional<ComputedBytes>(const std::string &)> computed =
      {};
  /// True if names identify the bytes, else only their digests do.
  bool trustsNames = false;
};

/// Parses mpc dialect text, called `name` in messages, and checks that it has
/// the form of an imported model: one entry function of mpc ops with static
/// shapes. External constants refer to their bytes, which must outlive the
/// context. Null after diagnostics.
Result<Compiler::Module> importMlir(llvm::StringRef text,
                                    const std::string &name,
                                    mlir::MLIRContext &context,
                                    const ExternalBytes &external = {});

/// Reports, at each op, values too large for this machine's memory.
mlir::LogicalResult checkSizes(mlir::ModuleOp module);

/// Returns CompileOptions::maxMemory, or this machine's memory if unset, in
/// bytes.
int64_t memoryLimit(const CompileOptions &options);

/// Fails if the model file is larger than `most` bytes, before reading it.
Status checkFileMemory(const ModelSource &model, int64_t most);

/// Fails if the external tensors of the ONNX model `bytes` are larger than
/// `most` bytes, before opening their files.
Status checkExternalMemory(const ModelSource &model, const SourceBytes &bytes,
                           int64_t most);

/// Returns the name of the scales of the quantized KV cache `name`.
inline std::string scaleNameOf(const std::string &name) {
  return name + "@scale";
}

/// Converts each KV cache in `caches` to a buffer with capacity for the new
/// rows, updated in place (GrowingCache); emits a diagnostic at a result that
/// is not its argument with rows appended. Caches without a type in `caches`
/// use `narrow` if it is set and narrower than the model's type.
mlir::LogicalResult makeCachesInPlace(mlir::func::FuncOp function,
                                      llvm::ArrayRef<GrowingCache> caches,
                                      std::optional<ElementType> narrow);

/// Computes only one entry of each result in `chosen` (ChosenEntry); emits a
/// diagnostic if a result has no such dimension.
mlir::LogicalResult selectResultEntries(mlir::func::FuncOp function,
                                        llvm::ArrayRef<ChosenEntry> chosen);

/// Reports, at its op, a value of more than `most` bytes, or constants,
/// arguments and results that exceed it together.
mlir::LogicalResult checkImportedMemory(mlir::ModuleOp module, int64_t most);

/// Reports a planned program that needs more than `most` bytes of constants,
/// intermediates, arguments and results.
mlir::LogicalResult checkPlannedMemory(mlir::ModuleOp module, int64_t most);

/// Marks the results of the imported model `function` with the non-finite
/// values that they may legitimately contain, because such constants (a mask of
/// -inf) reach them (kExemptAttr).
void markExemptValues(mlir::func::FuncOp function);

/// Returns the NonFinite values that `result` is marked with.
uint8_t exemptValues(exe::ResultOp result);

/// Returns the results of a planned program that are checked for non-finite
/// values: float outputs that alias no argument and are not exempt from all
/// such values, of programs without training.
llvm::SmallVector<exe::ResultOp> watchedResults(exe::ProgramOp program);

/// Enables the check in the CPU kernels that store such results
/// (kCheckedResultsAttr, kExemptValuesAttr).
void enableFiniteResultChecks(mlir::ModuleOp planned, mlir::ModuleOp kernels);

/// Builds the program that `module`'s exe.program describes, without code.
mlir::FailureOr<std::shared_ptr<Program>>
translateProgram(mlir::ModuleOp module);

} // namespace mpc

#endif // MPC_LIB_JIT_COMPILER_H
