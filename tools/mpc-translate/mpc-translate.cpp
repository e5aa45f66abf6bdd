//===- mpc-translate.cpp - translations from ONNX and to CUDA -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../mpc-opt/LlvmTool.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Import/ONNX.h"
#include "mpc/Import/StableHLO.h"
#include "mpc/Target/CUDA/Codegen.h"
#include "mpc/Target/CUDA/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "mlir/Tools/mlir-translate/Translation.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

namespace {

/// Options of `--import-onnx`, named as in the mpc tool, and of
/// `--mpc-to-cuda`.
struct Flags {
  llvm::cl::list<std::string> dims{
      "dim", llvm::cl::desc("Extent of a symbolic dimension, as in batch=8"),
      llvm::cl::value_desc("NAME=N")};
  llvm::cl::list<std::string> shapes{
      "shape", llvm::cl::desc("Shape of an input, as in x=1x3x224x224"),
      llvm::cl::value_desc("NAME=NxN...")};
  llvm::cl::list<std::string> values{
      "input-value",
      llvm::cl::desc("Value of an integer input that shapes depend on: "
                     "NAME=TYPE:N,N,... makes a vector, TYPE being i32 or i64"),
      llvm::cl::value_desc("NAME=TYPE:N,...")};
  llvm::cl::opt<int64_t> batch{
      "batch", llvm::cl::desc("Extent of the inputs' first dimension"),
      llvm::cl::value_desc("N")};
  llvm::cl::opt<std::string> target{
      "target",
      llvm::cl::desc("Architecture that kernels are generated for, as in "
                     "cuda:sm_90a"),
      llvm::cl::value_desc("cuda:sm_XX"), llvm::cl::init("cuda:sm_80")};
};

} // namespace

/// Splits "name=rest" at the first '='; emits a diagnostic if there is none.
static FailureOr<std::pair<StringRef, StringRef>>
splitFlag(StringRef flag, StringRef text, Location location) {
  auto [name, rest] = text.split('=');
  if (name.empty() || rest.empty())
    return emitError(location)
           << "--" << flag << " '" << text << "' is not of the form NAME=VALUE";
  return std::make_pair(name, rest);
}

/// Parses numbers separated by `separator`.
static LogicalResult readNumbers(StringRef flag, StringRef text, char separator,
                                 Location location,
                                 SmallVectorImpl<int64_t> &numbers) {
  SmallVector<StringRef> parts;
  text.split(parts, separator);
  for (StringRef part : parts) {
    int64_t number;
    if (part.getAsInteger(10, number))
      return emitError(location)
             << "--" << flag << ": '" << part << "' is not a number";
    numbers.push_back(number);
  }
  return success();
}

static LogicalResult readFlags(const Flags &flags, MLIRContext *context,
                               mpc::OnnxImportOptions &options) {
  Location location = UnknownLoc::get(context);
  for (StringRef text : flags.dims) {
    auto parts = splitFlag("dim", text, location);
    SmallVector<int64_t> numbers;
    if (failed(parts) ||
        failed(readNumbers("dim", parts->second, ',', location, numbers)))
      return failure();
    options.dims[parts->first] = numbers.front();
  }
  for (StringRef text : flags.shapes) {
    auto parts = splitFlag("shape", text, location);
    SmallVector<int64_t> numbers;
    if (failed(parts) ||
        failed(readNumbers("shape", parts->second, 'x', location, numbers)))
      return failure();
    options.inputShapes[parts->first] = numbers;
  }
  for (StringRef text : flags.values) {
    auto parts = splitFlag("input-value", text, location);
    if (failed(parts))
      return failure();
    auto [type, list] = parts->second.split(':');
    SmallVector<int64_t> numbers;
    if (type != "i32" && type != "i64")
      return emitError(location) << "--input-value '" << text << "': type '"
                                 << type << "' is neither i32 nor i64";
    if (!list.empty() &&
        failed(readNumbers("input-value", list, ',', location, numbers)))
      return failure();
    Type element = IntegerType::get(context, type == "i32" ? 32 : 64);
    SmallVector<APInt> elements;
    for (int64_t number : numbers)
      elements.push_back(APInt(element.getIntOrFloatBitWidth(),
                               uint64_t(number), /*isSigned=*/true,
                               /*implicitTrunc=*/true));
    options.inputValues[parts->first] = DenseElementsAttr::get(
        RankedTensorType::get(int64_t(numbers.size()), element), elements);
  }
  if (flags.batch.getNumOccurrences() > 0)
    options.batch = flags.batch;
  return success();
}

/// Prints the kernels of a planned module, or of one with kernels in the gpu
/// dialect.
static LogicalResult printCuda(Operation *op, StringRef target,
                               raw_ostream &os) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    return op->emitError("is not a module");
  PassManager passes(module.getContext());
  passes.addPass(mpc::createSetTargetPass({target.str()}));
  passes.addPass(mpc::createScheduleKernelsPass());
  passes.addPass(mpc::createLowerKernelsToGpuPass());
  passes.addPass(mpc::createLowerTilesToThreadsPass());
  if (failed(passes.run(module)))
    return failure();
  auto kernels = module.getOps<gpu::GPUModuleOp>();
  if (kernels.empty())
    return module.emitError("holds no kernel: neither a gpu.module nor a "
                            "function with mpc.kernel_kind; run mpc-plan "
                            "first");
  for (gpu::GPUModuleOp group : kernels)
    if (failed(mpc::cuda::emitCuda(group, os)))
      return failure();
  return success();
}

static constexpr char kName[] = "mpc-translate";

int main(int argc, char **argv) {
  mpc::startLlvmTool<kName>();
  Flags flags;
  TranslateFromMLIRRegistration toCuda(
      "mpc-to-cuda", "print kernels as CUDA C++ in terms of the prelude",
      [&flags](Operation *op, llvm::raw_ostream &os) {
        return printCuda(op, flags.target, os);
      },
      [](DialectRegistry &registry) {
        registry.insert<mpc::MpcDialect, mpc::exe::ExeDialect,
                        mpc::cuda::CudaDialect, func::FuncDialect,
                        gpu::GPUDialect, arith::ArithDialect, math::MathDialect,
                        memref::MemRefDialect, scf::SCFDialect,
                        vector::VectorDialect>();
      });
  TranslateToMLIRRegistration import(
      "import-onnx", "import an ONNX model",
      [&flags](const std::shared_ptr<llvm::SourceMgr> &sourceMgr,
               MLIRContext *context) -> OwningOpRef<Operation *> {
        const llvm::MemoryBuffer *buffer =
            sourceMgr->getMemoryBuffer(sourceMgr->getMainFileID());
        mpc::OnnxImportOptions options;
        if (failed(readFlags(flags, context, options)))
          return nullptr;
        StringRef name = buffer->getBufferIdentifier();
        StringRef folder = llvm::sys::path::parent_path(name);
        // Standard input has no folder: external data is refused.
        if (folder.empty() && name != "<stdin>")
          folder = ".";
        StringRef bytes = buffer->getBuffer();
        return mpc::importOnnxBytes(ArrayRef<char>(bytes.data(), bytes.size()),
                                    name, folder, options, context)
            .release()
            .getOperation();
      },
      [](DialectRegistry &registry) {
        registry.insert<mpc::MpcDialect, func::FuncDialect>();
      });
  TranslateToMLIRRegistration importText(
      "import-stablehlo", "import a StableHLO module",
      [](const std::shared_ptr<llvm::SourceMgr> &sourceMgr,
         MLIRContext *context) -> OwningOpRef<Operation *> {
        OwningOpRef<ModuleOp> source =
            parseSourceFile<ModuleOp>(sourceMgr, context);
        return source ? mpc::importStablehlo(*source).release().getOperation()
                      : nullptr;
      },
      [](DialectRegistry &registry) {
        registry.insert<mpc::MpcDialect>();
        mpc::registerStablehloDialects(registry);
      });
  return failed(mlirTranslateMain(argc, argv, "mpc translation driver\n"));
}
