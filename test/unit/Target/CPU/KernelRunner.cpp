//===- KernelRunner.cpp - compiled kernels against the interpreter --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "../KernelValues.h"

#include "JIT/OrcJit.h"
#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Target/CPU/Codegen.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;
using reference::Tensor;

GuardedMemory::GuardedMemory(int64_t bytes, int64_t alignment) {
  size_t page = sysconf(_SC_PAGESIZE);
  size_t used = (bytes + page - 1) / page * page;
  mapped = used + page;
  mapping = static_cast<char *>(mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(mapping + used, page, PROT_NONE);
  begin = mapping + (used - bytes) / alignment * alignment;
  // Uninitialized memory must not look like a result.
  std::memset(mapping, 0xff, used);
}

GuardedMemory::~GuardedMemory() { munmap(mapping, mapped); }

std::string mpc::checkKernel(StringRef text, const CpuTarget &target,
                             const KernelCheck &check) {
  DialectRegistry registry;
  registerCodegenDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::string diagnostics;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    diagnostics += diagnostic.str() + "; ";
    return success();
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return "parser: " + diagnostics;
  auto kernel = module->lookupSymbol<func::FuncOp>("k");

  // Expected values.
  std::mt19937_64 engine(check.seed);
  SmallVector<Tensor> arguments;
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    arguments.push_back(
        drawTensor(cast<RankedTensorType>(type), engine, check.scale));
    if (check.adjust)
      check.adjust(i, arguments.back());
  }
  FailureOr<SmallVector<Tensor>> exact =
      reference::interpret(kernel, arguments);
  reference::InterpretOptions options;
  options.rounding = reference::Rounding::Declared;
  FailureOr<SmallVector<Tensor>> declared =
      reference::interpret(kernel, arguments, options);
  if (failed(exact) || failed(declared))
    return "interpreter: " + diagnostics;
  int64_t longest = reference::longestReduction(kernel);
  SmallVector<RankedTensorType> resultTypes;
  for (Type type : kernel.getResultTypes())
    resultTypes.push_back(cast<RankedTensorType>(type));

  // Code.
  if (!check.compiled.empty())
    module = parseSourceString<ModuleOp>(check.compiled, &context);
  if (!module)
    return "parser: " + diagnostics;
  FailureOr<SmallVector<KernelInfo>> infos = lowerKernels(*module, target);
  if (failed(infos))
    return "code generation: " + diagnostics;
  if (infos->size() != 1 || infos->front().name != "k")
    return "code generation lost the kernel";
  auto jit = OrcJit::create(target, 1);
  if (!jit)
    return llvm::toString(jit.takeError());
  if (llvm::Error error = (*jit)->add(*module))
    return llvm::toString(std::move(error));
  auto address = (*jit)->lookup("k");
  if (!address)
    return llvm::toString(address.takeError());
  auto function =
      reinterpret_cast<void (*)(void *const *, int64_t, int64_t, void *)>(
          *address);

  // Run.
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  std::vector<void *> buffers;
  auto allocate = [&](RankedTensorType type) {
    int64_t bytes =
        type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
    memory.push_back(std::make_unique<GuardedMemory>(bytes));
    buffers.push_back(memory.back()->data());
  };
  for (const Tensor &argument : arguments) {
    allocate(argument.getType());
    argument.toBytes(buffers.back());
  }
  for (RankedTensorType type : resultTypes)
    allocate(type);
  const KernelInfo &info = infos->front();
  GuardedMemory scratch(std::max<int64_t>(info.scratchBytes, 1), 64);
  GuardedMemory shared(std::max<int64_t>(info.sharedBytes, 1), 64);
  buffers.push_back(shared.data());
  auto runItems = [&](int64_t first, int64_t last) {
    std::vector<std::pair<int64_t, int64_t>> pieces;
    std::uniform_int_distribution<int64_t> length(
        1, std::max<int64_t>(1, (last - first) / 2));
    for (int64_t begin = first; begin < last;) {
      int64_t end = std::min(last, begin + length(engine));
      pieces.push_back({begin, end});
      begin = end;
    }
    std::shuffle(pieces.begin(), pieces.end(), engine);
    for (auto [begin, end] : pieces)
      function(buffers.data(), begin, end, scratch.data());
  };
  int64_t first = info.items - info.laterItems;
  runItems(0, first);
  runItems(first, info.items);

  // Comparison. Where the kernel's own types overflow, infinity is expected, as
  // in the interpreter with these types.
  for (auto [i, type] : llvm::enumerate(resultTypes)) {
    if (check.results) {
      const char *bytes = memory[arguments.size() + i]->data();
      check.results->emplace_back(
          bytes, bytes + type.getNumElements() *
                             ((type.getElementTypeBitWidth() + 7) / 8));
    }
    Tensor actual = Tensor::fromBytes(type, buffers[arguments.size() + i]);
    Tensor expected = (*exact)[i];
    if (expected.isFloat())
      for (auto [value, made] :
           llvm::zip(expected.floats(), (*declared)[i].floats()))
        value = std::isfinite(made) ? value : made;
    reference::OutputError error = reference::compareOutput(
        actual, expected, (*declared)[i], longest, /*fatalIntegers=*/true);
    if (!error.ok)
      return describeError(i, actual, expected, error);
  }
  return {};
}

std::vector<CpuIsa> mpc::floatLevels() {
  std::vector<CpuIsa> levels;
  for (CpuIsa isa : CpuTarget::available()) {
    TargetInfo level = CpuTarget{isa}.info();
    if (!level.facts().emulatesUnits || level.unit(MathType::BFloat16))
      levels.push_back(isa);
  }
  return levels;
}

void mpc::expectKernel(StringRef text, const KernelCheck &check) {
  for (CpuIsa isa : floatLevels()) {
    CpuTarget target{isa};
    EXPECT_EQ(checkKernel(text, target, check), "")
        << target.name().str() << "\n"
        << text.str();
  }
}
