//===- Compiler.h - one compile, step by step -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What Engine and the tools share: import, stages, code generation, each
// callable on its own. Knows LLVM; internal.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_COMPILER_H
#define MPC_LIB_JIT_COMPILER_H

#include "Backend.h"

#include "mpc/Analysis/TypedLayers.h"
#include "mpc/Dialect/Exe/IR/ExeOps.h"
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
#include <memory>
#include <string>
#include <vector>

namespace mpc {

/// What the stages take of a compile for one target.
PipelineOptions pipelineOptions(const CompileOptions &options,
                                const TargetInfo &target);

/// One compile: a context of its own, the messages that arose in it, and the
/// steps in which a model becomes a program. Not thread-safe; instances are
/// independent.
class Compiler {
public:
  using Module = mlir::OwningOpRef<mlir::ModuleOp>;

  /// Fails where the target does not exist or cannot run here.
  static Result<std::unique_ptr<Compiler>>
  create(const CompileOptions &options);
  ~Compiler();

  mlir::MLIRContext &context() { return *ctx; }
  const TargetInfo &target() const { return pipeline.target; }
  /// "cpu:avx512", "cuda:sm_90a".
  const std::string &targetName() const { return target().name(); }
  const PipelineOptions &pipelineOptions() const { return pipeline; }

  /// Behind import(): the inputs that became constants, or may be parameters
  /// that begin so, as the options give their values.
  const std::vector<std::string> &fixedInputs() const { return inputsFixed; }

  /// Behind import() of an ONNX model: of each input the symbol of each
  /// dimension, empty where the model fixes its extent.
  using InputSymbols = std::map<std::string, std::vector<std::string>>;
  const InputSymbols &inputSymbols() const { return symbols; }
  /// Takes the place of the options' shapes of inputs for later imports.
  void setInputShapes(std::map<std::string, std::vector<int64_t>> shapes) {
    options.inputShapes = std::move(shapes);
  }
  /// The failure of a step that began when `firstMessage` messages existed.
  Status failure(size_t firstMessage) const;

  /// Reads a model into a module with one function @main of mpc ops.
  Result<Module> import(const ModelSource &model);

  /// Runs the stages that follow `after` ("import" for all) up to and including
  /// `last`, in place.
  Status runStages(mlir::ModuleOp module, llvm::StringRef after,
                   llvm::StringRef last);

  /// The kernels of a planned module as the target's back end has them last: in
  /// the LLVM dialect, or as a gpu.module. `module` stays as it was.
  Result<Module> lower(mlir::ModuleOp module);

  /// Makes the program of a planned module; with `withCode` its kernels are
  /// compiled, for a GPU into CUDA C++. It says which types the layers of the
  /// module have that ran through stage precision last. Leaves `module` as it
  /// was.
  Result<std::shared_ptr<Program>> generate(mlir::ModuleOp module,
                                            bool withCode);

  /// Completes the `program` of a planned module with code for a file, which
  /// need not be for this machine; what is returned is stored beside it, and is
  /// empty where the program holds the code. Equal modules give equal bytes.
  Result<std::vector<std::byte>> generateFile(mlir::ModuleOp module,
                                              Program &program);

  /// Everything that was said so far.
  const std::vector<Diagnostic> &diagnostics() const { return said; }

  /// What the policy keeps caches in, or where it does not say, what it
  /// computes in unless an override may say otherwise, where that is narrower
  /// than f32.
  std::optional<ElementType> cacheType();
  /// Says nothing of a policy's type of caches that this model does not keep:
  /// who compiles it tells of those that a decoder would.
  void expectCaches() { expectsCaches = true; }
  /// The entry function; the module has one after a successful import.
  static mlir::func::FuncOp entry(mlir::ModuleOp module);

private:
  Compiler(const CompileOptions &options, const TargetInfo &target);
  /// Sums up the types of the layers, behind stage precision.
  void noteLayers(mlir::ModuleOp module);
  void hear(mlir::Diagnostic &message);
  /// The value that the options give for an input, or null.
  mlir::ElementsAttr offeredValue(llvm::StringRef name);
  /// Replaces the positions that `function`, just imported from `model`,
  /// derives from the number of rows in its caches (CountedPositions).
  Status findPositions(const ModelSource &model, mlir::func::FuncOp function);
  /// Notes the values that the options give for arguments: parameters begin
  /// with them.
  void setInitialValues(mlir::ModuleOp module);
  /// Says that what the policy keeps caches in has no effect, where it says so.
  void noteCacheType();
  /// Reads the bytes of an ONNX model; null after diagnostics.
  Module importOnnx(const ModelSource &model, const SourceBytes &bytes);
  void enter(llvm::StringRef stage);
  /// Whether the options ask to end; what fails then is no error of the model.
  bool stops() const { return options.shouldStop && options.shouldStop(); }
  Status stoppedStatus() const;
  /// The same where something was said, else `status`.
  Status explained(const Status &status, size_t firstMessage) const;
  Status dump(mlir::ModuleOp module, llvm::StringRef stage);
  /// The kernels of a planned module by themselves: lowering works in place,
  /// and the planned module stays readable for reports.
  static Module copyKernels(mlir::ModuleOp module);
  /// Kernels as the back end has them last, and that back end.
  struct Lowered {
    std::unique_ptr<Backend> backend;
    Module kernels;
  };
  Result<Lowered> lowerKernels(mlir::ModuleOp module);

  CompileOptions options;
  PipelineOptions pipeline;
  std::unique_ptr<mlir::MLIRContext> ctx;
  std::string stage = "import";
  std::vector<Diagnostic> said;
  /// Whether options.shouldStop, which remembers it here, has ever said so.
  std::shared_ptr<std::atomic<bool>> stopped =
      std::make_shared<std::atomic<bool>>(false);
  std::vector<std::string> inputsFixed;
  InputSymbols symbols;
  /// Of the module that `runStages` works on: its layers before the first stage
  /// and what became of them.
  std::optional<LayerPaths> layerPaths;
  std::vector<TypedLayer> layers;
  int dumped = 0;
  bool expectsCaches = false;
};

/// The target that an option names; empty and "cpu:native" are the best level
/// of this machine. Fails where there is none.
Result<TargetInfo> resolveTarget(const std::string &text);

/// Place and op name of a location, as messages show them: "m.onnx: fc/MatMul",
/// "m.mlir:3:5".
struct Place {
  std::string where;
  std::string op;
};
Place describeLocation(mlir::Location location);

/// The names of the mpc ops that a location stands for, outermost first; fused
/// locations give several.
llvm::SmallVector<llvm::StringRef> locationNames(mlir::Location location);

/// Fails, with diagnostics, where brackets in `text` nest deeper than the
/// parser's stack allows. Strings and comments are skipped.
Status checkNesting(llvm::StringRef text, llvm::StringRef fileName);

/// Parses a text in mpc's own dialect, which `name` stands for in messages, and
/// checks that it is what import makes: one entry function of mpc ops with
/// static shapes. Null after diagnostics.
Result<Compiler::Module> importMlir(llvm::StringRef text,
                                    const std::string &name,
                                    mlir::MLIRContext &context);

/// Reports, at each op, values that no machine of this size can hold.
mlir::LogicalResult checkSizes(mlir::ModuleOp module);

/// CompileOptions::maxMemory in bytes: the machine's memory where none is
/// given.
int64_t memoryLimit(const CompileOptions &options);

/// Fails where a model's file has more bytes than `most`, before it is read.
Status checkFileMemory(const ModelSource &model, int64_t most);

/// Fails where the tensors that an ONNX model, whose file holds `bytes`, keeps
/// in other files have more bytes than `most`, before one of these is opened.
Status checkExternalMemory(const ModelSource &model, const SourceBytes &bytes,
                           int64_t most);

/// The name of the scales of the argument or result `name`, a cache of numbers
/// of 8 bits.
inline std::string scaleNameOf(const std::string &name) {
  return name + "@scale";
}

/// Makes of each argument that `caches` name a buffer with room for the new
/// rows of its result, which is in its place then (GrowingCache); a diagnostic
/// at a result that is not the argument with rows behind it.
/// Caches of which `caches` does not say the type have elements of `narrow`,
/// where that is given and narrower than the model's.
mlir::LogicalResult placeCaches(mlir::func::FuncOp function,
                                llvm::ArrayRef<GrowingCache> caches,
                                std::optional<ElementType> narrow);

/// Lets only one entry of each result that `chosen` names be computed
/// (ChosenEntry); a diagnostic where a result has no such dimension.
mlir::LogicalResult chooseEntries(mlir::func::FuncOp function,
                                  llvm::ArrayRef<ChosenEntry> chosen);

/// Reports, at its op, a value of more than `most` bytes, or that constants,
/// arguments and results have more together.
mlir::LogicalResult checkImportedMemory(mlir::ModuleOp module, int64_t most);

/// Reports a planned program that needs more than `most` bytes: constants,
/// intermediate memory, arguments and results.
mlir::LogicalResult checkPlannedMemory(mlir::ModuleOp module, int64_t most);

/// The runtime type of tensors of `element`; nullopt for types that none has.
std::optional<ElementType> runtimeElement(mlir::Type element);

/// The runtime type of a tensor type, whose elements have one.
TensorType runtimeType(mlir::RankedTensorType type);

/// The type in the compiler of a buffer's elements.
mlir::RankedTensorType compilerType(const TensorType &type,
                                    mlir::MLIRContext &context);

/// The layers as a program has them.
std::vector<LayerTypes> runtimeLayers(llvm::ArrayRef<TypedLayer> layers);

/// Marks the results of `function`, an imported model, that hold infinities or
/// NaNs of its own: constants of that kind, such as a mask of -inf, reach them.
void markInfiniteResults(mlir::func::FuncOp function);

/// The results of a planned program that should be finite: outputs of floats
/// that are not marked as above and replace no argument, of programs that train
/// nothing.
llvm::SmallVector<exe::ResultOp> watchedResults(exe::ProgramOp program);

/// Lets the kernels for a CPU that store such results watch them
/// (kWatchedResultsAttr).
void watchResults(mlir::ModuleOp planned, mlir::ModuleOp kernels);

/// Makes the program that `module`'s exe.program describes, without code.
mlir::FailureOr<std::shared_ptr<Program>>
translateProgram(mlir::ModuleOp module);

} // namespace mpc

#endif // MPC_LIB_JIT_COMPILER_H
