//===- CudaKernelRunner.cpp - emitted kernels against the interpreter -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaKernelRunner.h"

#include "../KernelValues.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Dialect/Tile/IR/TileOps.h"
#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Target/CUDA/Codegen.h"
#include "mpc/Target/CUDA/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

#include <cstring>
#include <random>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;
using reference::Tensor;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static DialectRegistry dialects() {
  DialectRegistry registry;
  registry.insert<MpcDialect, cuda::CudaDialect, tile::TileDialect,
                  func::FuncDialect, gpu::GPUDialect, arith::ArithDialect,
                  math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                  vector::VectorDialect>();
  return registry;
}

/// Collects the diagnostics of a context.
class Diagnostics {
public:
  explicit Diagnostics(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) {
          text += diagnostic.str() + "; ";
          return success();
        }) {}
  std::string text;

private:
  ScopedDiagnosticHandler handler;
};

CudaTarget mpc::cudaTarget(StringRef architecture) {
  std::optional<TargetInfo> info =
      TargetInfo::parse("cuda:" + architecture.str());
  std::optional<CudaTarget> target =
      info ? CudaTarget::of(*info) : std::nullopt;
  if (!target)
    llvm::report_fatal_error("no kernels for " + architecture);
  return *target;
}

/// Kernels on tensors to a gpu.module.
static LogicalResult toGpu(ModuleOp module, const CudaTarget &target) {
  module.getContext()->loadDialect<exe::ExeDialect>();
  exe::setTarget(module, target.target());
  PassManager passes(module.getContext());
  passes.addPass(createScheduleKernelsPass());
  passes.addPass(createLowerKernelsToGpuPass());
  passes.addPass(createLowerTilesToThreadsPass());
  return passes.run(module);
}

CudaText mpc::cudaText(StringRef text, const CudaTarget &target) {
  MLIRContext context(dialects(), MLIRContext::Threading::DISABLED);
  Diagnostics diagnostics(context);
  CudaText result;
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module || failed(toGpu(*module, target))) {
    result.error = diagnostics.text;
    return result;
  }
  llvm::raw_string_ostream os(result.text);
  for (auto kernels : module->getOps<gpu::GPUModuleOp>())
    if (failed(emitCuda(kernels, os)))
      result.error = diagnostics.text;
  return result;
}

void mpc::expectCudaText(StringRef module, const CudaTarget &target,
                         ArrayRef<const char *> present,
                         ArrayRef<const char *> absent) {
  CudaText cuda = cudaText(module, target);
  ASSERT_EQ(cuda.error, "");
  for (const char *part : present)
    EXPECT_PRED_FORMAT2(testing::IsSubstring, part, cuda.text);
  for (const char *part : absent)
    EXPECT_PRED_FORMAT2(testing::IsNotSubstring, part, cuda.text);
}

void mpc::expectCudaTextInOrder(StringRef module, const CudaTarget &target,
                                ArrayRef<const char *> parts) {
  CudaText cuda = cudaText(module, target);
  ASSERT_EQ(cuda.error, "");
  size_t found = 0, behind = 0;
  for (const char *part : parts) {
    found = cuda.text.find(part, behind);
    ASSERT_NE(found, std::string::npos) << part << " is missing behind\n"
                                        << cuda.text.substr(0, behind);
    behind = found + 1;
  }
  EXPECT_EQ(cuda.text.find(parts.back()), found);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Aligned as device memory is, so that vectors are where kernels expect them.
static size_t elementBytes(RankedTensorType type) {
  return (type.getElementTypeBitWidth() + 7) / 8;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

struct CudaKernelBatch::Kernel {
  CudaKernelCheck check;
  std::string name;
  /// Compile error and CUDA text.
  std::string error, cuda;
  CudaKernelInfo info;
  MLIRContext context{dialects(), MLIRContext::Threading::DISABLED};
  /// Arguments, and results of the interpreter.
  SmallVector<Tensor> arguments, exact, declared;
  int64_t longest = 1;

  void compile(StringRef text);
  LogicalResult interpret(func::FuncOp kernel, std::mt19937_64 &engine);
  std::string run(const HostModule &module);
};

LogicalResult CudaKernelBatch::Kernel::interpret(func::FuncOp kernel,
                                                 std::mt19937_64 &engine) {
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    arguments.push_back(
        drawTensor(cast<RankedTensorType>(type), engine, check.scale));
    if (check.adjust)
      check.adjust(i, arguments.back());
  }
  auto float64 = reference::interpret(kernel, arguments);
  reference::InterpretOptions options;
  options.rounding = reference::Rounding::Declared;
  options.tensorCores =
      reference::TensorCores::of(check.target.target().name());
  auto rounded = reference::interpret(kernel, arguments, options);
  if (failed(float64) || failed(rounded))
    return failure();
  exact = std::move(*float64);
  declared = std::move(*rounded);
  longest = reference::longestReduction(kernel);
  return success();
}

void CudaKernelBatch::Kernel::compile(StringRef text) {
  Diagnostics diagnostics(context);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  auto kernel = module ? module->lookupSymbol<func::FuncOp>("k") : nullptr;
  if (!kernel) {
    error = "parser: " + diagnostics.text;
    return;
  }
  std::mt19937_64 engine(check.seed);
  if (failed(interpret(kernel, engine))) {
    error = "interpreter: " + diagnostics.text;
    return;
  }
  kernel.setSymName(name);
  PassManager passes(&context);
  context.loadDialect<exe::ExeDialect>();
  exe::setTarget(*module, check.target.target());
  passes.addPass(createScheduleKernelsPass());
  if (failed(passes.run(*module))) {
    error = "schedule: " + diagnostics.text;
    return;
  }
  auto chosen = kernel->getAttrOfType<DictionaryAttr>("mpc.schedule");
  auto family = chosen ? chosen.getAs<StringAttr>("family") : StringAttr();
  if (!check.family.empty() && (!family || family != check.family)) {
    error = "the family is '" + (family ? family.str() : "") +
            "' instead of '" + check.family + "'";
    return;
  }
  if (failed(toGpu(*module, check.target))) {
    error = "code generation: " + diagnostics.text;
    return;
  }
  for (const CudaKernelInfo &found : cudaKernels(*module))
    info = found;
  llvm::raw_string_ostream os(cuda);
  for (auto kernels : module->getOps<gpu::GPUModuleOp>())
    if (failed(emitCuda(kernels, os)))
      error = "printer: " + diagnostics.text;
  if (error.empty() && info.name != name)
    error = "code generation lost the kernel";
}

std::string CudaKernelBatch::Kernel::run(const HostModule &module) {
  // Buffers; bytes that nobody writes do not look like results.
  std::vector<std::vector<char>> memory;
  auto allocate = [&](RankedTensorType type) {
    int64_t elements = std::max<int64_t>(type.getNumElements(), 1);
    memory.emplace_back(elements * elementBytes(type), '\xff');
  };
  for (const Tensor &argument : arguments) {
    allocate(argument.getType());
    argument.toBytes(memory.back().data());
  }
  for (const Tensor &result : exact)
    allocate(result.getType());
  std::vector<char> scratch(info.scratchBytes, 0);

  std::vector<HostArgument> parameters;
  for (auto [i, argument] : llvm::enumerate(arguments))
    parameters.push_back({HostArgument::Kind::Input,
                          "argument " + std::to_string(i), memory[i].data(),
                          memory[i].size(), elementBytes(argument.getType())});
  for (auto [i, result] : llvm::enumerate(exact)) {
    std::vector<char> &bytes = memory[arguments.size() + i];
    // Nothing is ever written to a result without elements.
    bool isEmpty = result.size() == 0;
    parameters.push_back(
        {isEmpty ? HostArgument::Kind::InOut : HostArgument::Kind::Output,
         "result " + std::to_string(i), bytes.data(), bytes.size(),
         elementBytes(result.getType())});
  }
  if (!scratch.empty())
    parameters.push_back({HostArgument::Kind::InOut, "scratch", scratch.data(),
                          scratch.size(), 1});

  std::vector<std::vector<char>> first;
  for (ThreadOrder order : check.orders) {
    HostLaunch launch;
    for (int i = 0; i < 3; ++i)
      launch.grid[i] = static_cast<int>(info.blocks[i]);
    launch.block[0] = static_cast<int>(info.threads);
    launch.dynamicSharedBytes = info.sharedBytes;
    launch.cooperative = info.cooperative;
    launch.order = order;
    launch.capability = check.target.target().facts().computeCapability;
    launch.seed = static_cast<unsigned>(check.seed);
    Status status = module.launch(name, launch, parameters);
    if (!status.ok())
      return status.toString();
    std::vector<std::vector<char>> results(memory.begin() + arguments.size(),
                                           memory.end());
    if (first.empty())
      first = results;
    else if (check.sameBits && first != results)
      return "the order of threads changes the result";
  }

  for (auto [i, expected] : llvm::enumerate(exact)) {
    Tensor actual = Tensor::fromBytes(expected.getType(),
                                      memory[arguments.size() + i].data());
    reference::OutputError difference = reference::compareOutput(
        actual, expected, declared[i], longest, /*fatalIntegers=*/true);
    if (!difference.ok)
      return describeError(i, actual, expected, difference);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Batches
//===----------------------------------------------------------------------===//

CudaKernelBatch::CudaKernelBatch() = default;
CudaKernelBatch::~CudaKernelBatch() = default;

void CudaKernelBatch::add(StringRef text, CudaKernelCheck check) {
  auto kernel = std::make_unique<Kernel>();
  kernel->check = std::move(check);
  kernel->name = "k" + std::to_string(kernels.size());
  kernel->compile(text);
  kernels.push_back(std::move(kernel));
}

std::vector<std::string> CudaKernelBatch::run() {
  HostKernelOptions options;
  options.compiler = MPC_HOST_KERNEL_COMPILER;
  options.cacheFolder = MPC_HOST_KERNEL_CACHE;
  std::string text;
  std::vector<std::string> names;
  for (auto &kernel : kernels)
    if (kernel->error.empty()) {
      text += kernel->cuda + "\n";
      names.push_back(kernel->name);
    }
  std::vector<std::string> errors;
  if (names.empty()) {
    for (auto &kernel : kernels)
      errors.push_back(kernel->error);
    return errors;
  }
  Result<HostModule> module = HostModule::compile(text, names, options);
  std::string broken =
      module.ok() ? "" : module.status().toString() + "\n" + text;
  for (auto &kernel : kernels) {
    std::string error = kernel->error;
    if (error.empty() && !module.ok()) {
      error = broken;
      // Once is enough.
      broken = "the kernels of this batch do not compile";
    } else if (error.empty()) {
      error = kernel->run(*module);
      if (!error.empty())
        error += "\n" + kernel->cuda;
    }
    errors.push_back(error);
  }
  return errors;
}

void CudaKernelBatch::expect() {
  for (const std::string &error : run())
    EXPECT_EQ(error, "");
}

std::string mpc::checkCudaKernel(StringRef text, const CudaKernelCheck &check) {
  CudaKernelBatch batch;
  batch.add(text, check);
  return batch.run().front();
}

void mpc::expectCudaKernel(StringRef text, const CudaKernelCheck &check) {
  EXPECT_EQ(checkCudaKernel(text, check), "") << text.str();
}
