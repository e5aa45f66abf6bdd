//===- OrcJit.cpp - LLVM dialect to machine code --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels are split into several LLVM modules with separate contexts, which
// compile in parallel. Objects are checked for symbols outside of the
// allow-list before linking.
//
//===----------------------------------------------------------------------===//

#include "OrcJit.h"

#include "OptimizeKernels.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/CompileUtils.h"
#include "llvm/ExecutionEngine/Orc/IRTransformLayer.h"
#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/ExecutionEngine/Orc/ObjectTransformLayer.h"
#include "llvm/ExecutionEngine/Orc/ThreadSafeModule.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;
namespace orc = llvm::orc;

struct OrcJit::Impl {
  CpuTarget target;
  std::unique_ptr<llvm::TargetMachine> machine;
  unsigned modules = 1;
  std::function<bool()> shouldStop;
  std::mutex mutex; // guards objectList and causes
  std::vector<std::unique_ptr<llvm::MemoryBuffer>> objectList;
  /// Errors of the compile threads; a lookup only names the failed symbols.
  std::vector<std::string> causes;
  // Declared last: its compile threads use the members above.
  std::unique_ptr<orc::LLJIT> jit;

  llvm::Error compileAll(orc::SymbolLookupSet names);
};

OrcJit::OrcJit(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
OrcJit::~OrcJit() = default;

llvm::ArrayRef<llvm::StringRef> OrcJit::allowedSymbols() {
  static constexpr llvm::StringRef symbols[] = {"memcpy", "memmove", "memset"};
  return symbols;
}

llvm::ArrayRef<std::unique_ptr<llvm::MemoryBuffer>> OrcJit::objects() const {
  return impl->objectList;
}

//===----------------------------------------------------------------------===//
// Object check
//===----------------------------------------------------------------------===//

static llvm::Error checkSymbols(llvm::MemoryBufferRef buffer) {
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> object =
      llvm::object::ObjectFile::createObjectFile(buffer);
  if (!object)
    return object.takeError();
  for (const llvm::object::SymbolRef &symbol : (*object)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    if (!(*flags & llvm::object::SymbolRef::SF_Undefined))
      continue;
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!name)
      return name.takeError();
    if (!name->empty() && !llvm::is_contained(OrcJit::allowedSymbols(), *name))
      return llvm::createStringError(
          "generated code calls '%s', which is not in the list of allowed "
          "functions: an operation was not expanded",
          name->str().c_str());
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Set-up
//===----------------------------------------------------------------------===//

static void initializeTarget() {
  static std::once_flag initialized;
  std::call_once(initialized, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

static llvm::Error wasStopped() {
  return llvm::createStringError("the compile was stopped by the caller");
}

static orc::JITTargetMachineBuilder
targetMachineBuilder(const CpuTarget &target) {
  orc::JITTargetMachineBuilder builder(
      llvm::Triple("x86_64-unknown-linux-gnu"));
  builder.setCPU(target.llvmCpu());
  llvm::SmallVector<llvm::StringRef> features;
  std::string text = target.llvmFeatures();
  llvm::StringRef(text).split(features, ',', /*MaxSplit=*/-1,
                              /*KeepEmpty=*/false);
  for (llvm::StringRef feature : features)
    builder.getFeatures().AddFeature(feature.drop_front(),
                                     feature.front() == '+');
  builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Aggressive);
  builder.setRelocationModel(llvm::Reloc::PIC_);
  builder.setCodeModel(llvm::CodeModel::Small);
  // No FMA contraction: the program determines rounding.
  builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return builder;
}

llvm::Expected<std::unique_ptr<OrcJit>>
OrcJit::create(const CpuTarget &target, unsigned compileThreads,
               std::function<bool()> shouldStop) {
  initializeTarget();
  if (!llvm::is_contained(CpuTarget::available(), target.isa))
    return llvm::createStringError("this machine cannot run code for '%s'",
                                   target.name().str().c_str());

  auto impl = std::make_unique<Impl>();
  impl->target = target;
  impl->modules = std::max(1u, compileThreads);
  impl->shouldStop = std::move(shouldStop);
  orc::JITTargetMachineBuilder machineBuilder = targetMachineBuilder(target);
  auto machine = machineBuilder.createTargetMachine();
  if (!machine)
    return machine.takeError();
  impl->machine = std::move(*machine);

  orc::LLJITBuilder builder;
  builder.setJITTargetMachineBuilder(machineBuilder);
  // Generated code can link only against the allow-list.
  builder.setLinkProcessSymbolsByDefault(false);
  builder.setPlatformSetUp(orc::setUpInactivePlatform);
  builder.setCompileFunctionCreator(
      [](orc::JITTargetMachineBuilder machine)
          -> llvm::Expected<std::unique_ptr<orc::IRCompileLayer::IRCompiler>> {
        return std::make_unique<orc::ConcurrentIRCompiler>(std::move(machine));
      });
  if (compileThreads > 1)
    builder.setNumCompileThreads(compileThreads);
  auto jit = builder.create();
  if (!jit)
    return jit.takeError();
  impl->jit = std::move(*jit);

  orc::SymbolMap runtime;
  auto define = [&](llvm::StringRef name, auto *function) {
    runtime[impl->jit->mangleAndIntern(name)] = {
        orc::ExecutorAddr::fromPtr(reinterpret_cast<void *>(function)),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  };
  define("memcpy",
         static_cast<void *(*)(void *, const void *, size_t)>(&std::memcpy));
  define("memmove",
         static_cast<void *(*)(void *, const void *, size_t)>(&std::memmove));
  define("memset", static_cast<void *(*)(void *, int, size_t)>(&std::memset));
  if (llvm::Error error = impl->jit->getMainJITDylib().define(
          orc::absoluteSymbols(std::move(runtime))))
    return std::move(error);

  impl->jit->getIRTransformLayer().setTransform(
      [machineBuilder,
       state = impl.get()](orc::ThreadSafeModule module,
                           const orc::MaterializationResponsibility &) mutable
          -> llvm::Expected<orc::ThreadSafeModule> {
        if (state->shouldStop && state->shouldStop())
          return wasStopped();
        orc::JITTargetMachineBuilder copy = machineBuilder;
        auto machine = copy.createTargetMachine();
        if (!machine)
          return machine.takeError();
        module.withModuleDo(
            [&](llvm::Module &m) { optimizeKernels(m, **machine); });
        return std::move(module);
      });
  Impl *state = impl.get();
  impl->jit->getExecutionSession().setErrorReporter([state](llvm::Error error) {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->causes.push_back(llvm::toString(std::move(error)));
  });
  impl->jit->getObjTransformLayer().setTransform(
      [state](std::unique_ptr<llvm::MemoryBuffer> object)
          -> llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> {
        llvm::Error error = checkSymbols(object->getMemBufferRef());
        std::lock_guard<std::mutex> lock(state->mutex);
        if (error) {
          // Recorded here: the lookup may return before the session reports the
          // error.
          state->causes.push_back(llvm::toString(std::move(error)));
          return llvm::createStringError(state->causes.back());
        }
        state->objectList.push_back(llvm::MemoryBuffer::getMemBufferCopy(
            object->getBuffer(), object->getBufferIdentifier()));
        return std::move(object);
      });
  return std::unique_ptr<OrcJit>(new OrcJit(std::move(impl)));
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// Partitions the functions of `module` into `parts` modules of similar size. A
/// function stays with its internal callees.
static SmallVector<OwningOpRef<ModuleOp>> split(ModuleOp module,
                                                unsigned parts) {
  struct Unit {
    SmallVector<LLVM::LLVMFuncOp> functions;
    int64_t size = 0, number = 0;
  };
  SymbolTable symbols(module);
  SmallVector<Unit> units;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    if (function.isExternal() ||
        function.getLinkage() == LLVM::Linkage::Internal)
      continue;
    Unit unit;
    unit.number = units.size();
    llvm::SmallDenseSet<Operation *> seen;
    SmallVector<LLVM::LLVMFuncOp> work{function};
    while (!work.empty()) {
      LLVM::LLVMFuncOp next = work.pop_back_val();
      if (!seen.insert(next).second)
        continue;
      unit.functions.push_back(next);
      next.walk([&](Operation *op) {
        ++unit.size;
        if (auto call = dyn_cast<LLVM::CallOp>(op))
          if (std::optional<StringRef> callee = call.getCallee())
            if (auto target = symbols.lookup<LLVM::LLVMFuncOp>(*callee))
              work.push_back(target);
      });
    }
    units.push_back(std::move(unit));
  }
  // Greedy bin packing: largest first into the smallest part.
  llvm::sort(units, [](const Unit &a, const Unit &b) {
    return std::tuple(-a.size, a.number) < std::tuple(-b.size, b.number);
  });

  parts = std::min<unsigned>(parts, std::max<size_t>(units.size(), 1));
  SmallVector<OwningOpRef<ModuleOp>> modules;
  SmallVector<int64_t> sizes(parts, 0);
  for (unsigned i = 0; i < parts; ++i)
    modules.push_back(ModuleOp::create(module.getLoc()));
  for (Unit &unit : units) {
    unsigned part =
        std::min_element(sizes.begin(), sizes.end()) - sizes.begin();
    sizes[part] += unit.size;
    OpBuilder builder = OpBuilder::atBlockEnd(modules[part]->getBody());
    for (LLVM::LLVMFuncOp function : unit.functions)
      if (!modules[part]->lookupSymbol(function.getName()))
        builder.clone(*function);
  }
  // Clone the small constant globals into each module that uses them.
  for (OwningOpRef<ModuleOp> &part : modules) {
    llvm::SmallSetVector<StringRef, 4> names;
    part->walk([&](LLVM::AddressOfOp op) { names.insert(op.getGlobalName()); });
    OpBuilder builder = OpBuilder::atBlockBegin(part->getBody());
    for (StringRef name : names)
      if (auto global = symbols.lookup<LLVM::GlobalOp>(name)) {
        auto copy = cast<LLVM::GlobalOp>(builder.clone(*global.getOperation()));
        copy.setLinkage(LLVM::Linkage::Internal);
      }
  }
  return modules;
}

/// Translates the functions of `module` to LLVM IR for `target`; null on
/// failure.
static std::unique_ptr<llvm::Module> translate(ModuleOp module,
                                               const CpuTarget &target,
                                               llvm::TargetMachine &machine,
                                               llvm::LLVMContext &context) {
  context.setDiscardValueNames(true);
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(module, context, "kernels");
  if (!code)
    return nullptr;
  code->setTargetTriple(machine.getTargetTriple());
  code->setDataLayout(machine.createDataLayout());
  std::string features = machine.getTargetFeatureString().str();
  std::string width = std::to_string(32 * target.lanes());
  for (llvm::Function &function : *code) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", target.llvmCpu());
    function.addFnAttr("target-features", features);
    function.addFnAttr("min-legal-vector-width", width);
    function.addFnAttr("prefer-vector-width", width);
    function.addFnAttr(llvm::Attribute::NoUnwind);
    // A kernel body has one caller, its wrapper; inlining optimizes it a second
    // time. That helps the index arithmetic of small kernels (a sum with a
    // resized value: 1.6x), but not GEMMs, where it takes a third of the pass
    // time.
    constexpr unsigned kOptimizedTwice = 150;
    if (function.hasLocalLinkage() &&
        function.getInstructionCount() > kOptimizedTwice)
      function.addFnAttr(llvm::Attribute::NoInline);
  }
  return code;
}

static llvm::Error notTranslated() {
  return llvm::createStringError("kernels could not be translated to LLVM IR");
}

/// A single lookup compiles all modules concurrently. The calling thread polls
/// for cancellation meanwhile, since some callers can check it only there, and
/// forwards it to the compile threads.
llvm::Error OrcJit::Impl::compileAll(orc::SymbolLookupSet names) {
  constexpr std::chrono::milliseconds kBetweenQuestions(50);
  std::promise<llvm::Error> promise;
  std::future<llvm::Error> outcome = promise.get_future();
  auto &dylib = jit->getMainJITDylib();
  jit->getExecutionSession().lookup(
      orc::LookupKind::Static, orc::makeJITDylibSearchOrder(&dylib),
      std::move(names), orc::SymbolState::Ready,
      [&promise](llvm::Expected<orc::SymbolMap> found) {
        promise.set_value(found.takeError());
      },
      orc::NoDependenciesToRegister);
  while (outcome.wait_for(kBetweenQuestions) != std::future_status::ready)
    if (shouldStop)
      (void)shouldStop();
  return outcome.get();
}

llvm::Error OrcJit::add(ModuleOp module) {
  orc::SymbolLookupSet names;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (!function.isExternal() &&
        function.getLinkage() != LLVM::Linkage::Internal)
      names.add(impl->jit->mangleAndIntern(function.getName()));

  for (OwningOpRef<ModuleOp> &part : split(module, impl->modules * 2)) {
    auto context = std::make_unique<llvm::LLVMContext>();
    std::unique_ptr<llvm::Module> code =
        translate(*part, impl->target, *impl->machine, *context);
    if (!code)
      return notTranslated();
    if (llvm::Error error = impl->jit->addIRModule(
            orc::ThreadSafeModule(std::move(code), std::move(context))))
      return error;
  }
  llvm::Error failure = impl->compileAll(std::move(names));
  if (!failure)
    return llvm::Error::success();
  std::string message = llvm::toString(std::move(failure));
  std::lock_guard<std::mutex> lock(impl->mutex);
  llvm::sort(impl->causes);
  impl->causes.erase(llvm::unique(impl->causes), impl->causes.end());
  if (!impl->causes.empty())
    message = llvm::join(impl->causes, "; ");
  impl->causes.clear();
  return llvm::createStringError(message);
}

llvm::Expected<void *> OrcJit::lookup(llvm::StringRef name) {
  llvm::Expected<orc::ExecutorAddr> address = impl->jit->lookup(name);
  if (!address)
    return address.takeError();
  return address->toPtr<void *>();
}

//===----------------------------------------------------------------------===//
// Ahead of time
//===----------------------------------------------------------------------===//

llvm::Expected<llvm::SmallVector<std::unique_ptr<llvm::MemoryBuffer>>>
mpc::compileObjects(ModuleOp module, const CpuTarget &target, unsigned threads,
                    const std::function<bool()> &shouldStop) {
  // Fixed, so that the code does not depend on the compiling machine.
  constexpr unsigned kParts = 8;
  struct Part {
    std::unique_ptr<llvm::LLVMContext> context =
        std::make_unique<llvm::LLVMContext>();
    std::unique_ptr<llvm::Module> code;
    std::unique_ptr<llvm::MemoryBuffer> object;
    std::string error;
  };
  initializeTarget();
  auto machine = targetMachineBuilder(target).createTargetMachine();
  if (!machine)
    return machine.takeError();
  std::vector<Part> parts;
  for (OwningOpRef<ModuleOp> &piece : split(module, kParts)) {
    Part part;
    part.code = translate(*piece, target, **machine, *part.context);
    if (!part.code)
      return notTranslated();
    parts.push_back(std::move(part));
  }

  auto compile = [&](Part &part) -> llvm::Error {
    if (shouldStop && shouldStop())
      return wasStopped();
    auto own = targetMachineBuilder(target).createTargetMachine();
    if (!own)
      return own.takeError();
    optimizeKernels(*part.code, **own);
    auto object = orc::SimpleCompiler(**own)(*part.code);
    if (!object)
      return object.takeError();
    part.object = std::move(*object);
    return checkSymbols(part.object->getMemBufferRef());
  };
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < parts.size();)
      parts[i].error = llvm::toString(compile(parts[i]));
  };
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min<size_t>(threads, parts.size()); ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();

  llvm::SmallVector<std::unique_ptr<llvm::MemoryBuffer>> objects;
  for (Part &part : parts) {
    if (!part.error.empty())
      return llvm::createStringError(part.error);
    objects.push_back(std::move(part.object));
  }
  return std::move(objects);
}
