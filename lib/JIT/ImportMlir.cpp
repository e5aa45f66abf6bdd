//===- ImportMlir.cpp - import of MLIR text -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's parser is unsafe for untrusted files in four ways: it recurses per
// bracket, accepts shapes whose size overflows, loads any registered dialect,
// and accepts bytecode, whose reader crashes on corrupt input. All four are
// checked here. StableHLO text is passed on to its importer.
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "Runtime/Environment.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Import/StableHLO.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace mpc;

/// Attribute of a constant: the name of its bytes (ModelSource::external()); of
/// a StableHLO module: a list of such names, "" for each argument of @main that
/// remains one.
static constexpr StringLiteral kExternalAttr = "mpc.external";

/// Maximum nesting of brackets; the parser overflows its stack near 5,000.
static constexpr unsigned kMostNesting = 256;

Status mpc::checkNesting(StringRef text, StringRef fileName) {
  unsigned depth = 0, line = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
    case '\n':
      ++line;
      break;
    case '"':
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        if (text[i] == '\\')
          ++i;
      if (i < text.size() && text[i] == '\n')
        ++line;
      break;
    case '/':
      if (text.substr(i, 2) == "//") {
        i = text.find('\n', i);
        if (i == StringRef::npos)
          return {};
        ++line;
      }
      break;
    case '-':
      // The arrow's '>' closes no bracket.
      if (text.substr(i, 2) == "->")
        ++i;
      break;
    case '(':
    case '[':
    case '{':
    case '<':
      if (++depth > kMostNesting)
        return Status(StatusCode::InvalidArgument,
                      fileName.str() + ":" + std::to_string(line),
                      "brackets nest deeper than " +
                          std::to_string(kMostNesting) + " levels");
      break;
    case ')':
    case ']':
    case '}':
    case '>':
      if (depth > 0)
        --depth;
      break;
    default:
      break;
    }
  }
  return {};
}

/// The entry function may contain mpc ops only; others would be ignored or
/// reach code generation unchecked.
static LogicalResult checkOps(ModuleOp module) {
  WalkResult result = module.walk([&](Operation *op) {
    StringRef dialect = op->getName().getDialectNamespace();
    if (isa<ModuleOp, func::FuncOp, func::ReturnOp>(op) || dialect == "mpc")
      return WalkResult::advance();
    op->emitError("op '") << op->getName()
                          << "' is not allowed in a model; use mpc ops only";
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  for (Operation &op : *module.getBody()) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function)
      return op.emitError(
          "only functions are allowed at the top level of a model");
    if (function->hasAttr(MpcDialect::kKernelKindAttr))
      return function.emitError("function '")
             << function.getName() << "' has '" << MpcDialect::kKernelKindAttr
             << "', which marks compiled kernels; remove it";
    if (function.isExternal())
      return function.emitError("function '")
             << function.getName() << "' has no body";
    if (!function.getBody().hasOneBlock())
      return function.emitError("function '")
             << function.getName() << "' must have exactly one block";
  }
  return success();
}

LogicalResult mpc::checkSizes(ModuleOp module) {
  // At most half of the memory, at the oracle's eight bytes per element.
  int64_t most = mpc::detail::machineMemory() / 2 / 8;
  auto check = [&](Value value, Location location) -> LogicalResult {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      return emitError(location) << "value of type " << value.getType()
                                 << " is not a ranked tensor";
    if (!runtimeElement(type.getElementType()))
      return emitError(location)
             << type << " has an unsupported element type; use "
             << "f64, f32, bf16, f16, i1, or integers of 8 to 64 bits";
    if (!type.hasStaticShape())
      return emitError(location)
             << "shape of " << type
             << " is not static; bind its dimensions with --dim or --batch";
    if (elementCount(type) > most)
      return emitError(location)
             << type << " has " << elementCount(type)
             << " elements; this machine's memory holds at most " << most;
    return success();
  };
  WalkResult result = module.walk([&](Operation *op) {
    for (Value value : op->getResults())
      if (failed(check(value, op->getLoc())))
        return WalkResult::interrupt();
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          if (failed(check(argument, argument.getLoc())))
            return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Magic number of bytecode.
static constexpr StringLiteral kBytecode = "ML\xefR";

/// Refuses bytecode with a command that converts JAX exports to text.
static Status refuseBytecode(StringRef bytes, const std::string &name) {
  std::string
      what = "is MLIR bytecode, which is not supported; convert it to text",
      line;
  if (!bytes.starts_with(kBytecode))
    // A serialized jax.export.Exported, which contains bytecode.
    line = "from jax import export; "
           "print(export.deserialize(bytearray(sys.stdin.buffer.read()))"
           ".mlir_module())";
  else if (bytes.take_front(64).contains("StableHLO_v"))
    line = "from jaxlib.mlir import ir; from jaxlib.mlir.dialects import "
           "stablehlo; print(stablehlo.deserialize_portable_artifact("
           "ir.Context(), sys.stdin.buffer.read()))";
  if (!line.empty())
    what += ": python3 -c 'import sys; " + line + "' < " + name;
  return Status(StatusCode::InvalidArgument, name, what);
}

Status mpc::checkText(StringRef text, const std::string &name, size_t most) {
  // Source positions are 32-bit numbers.
  constexpr size_t kMostText = std::numeric_limits<int32_t>::max();
  if (text.size() > kMostText)
    return Status(StatusCode::InvalidArgument, name,
                  "has " + std::to_string(text.size()) +
                      " bytes of text, but at most " +
                      std::to_string(kMostText) +
                      " are supported; turn large constants into inputs");
  StringRef head = text.take_front(most);
  size_t zero = head.find('\0');
  // A sparse file consists of zeros.
  constexpr size_t kMostBytecode = size_t(64) << 20;
  if (zero != StringRef::npos)
    head = head.take_front(std::max(zero, kMostBytecode));
  // Not valid UTF-8, so never part of a text.
  if (head.contains(kBytecode))
    return refuseBytecode(text, name);
  if (zero != StringRef::npos)
    return Status(StatusCode::InvalidArgument, name,
                  "is not text: byte " + std::to_string(zero) +
                      " is zero; give MLIR text");
  return {};
}

/// Returns the external data `name` as elements of `type`. The caller of the
/// import keeps the bytes.
static FailureOr<ElementsAttr> readExternal(Location loc, RankedTensorType type,
                                            StringRef name,
                                            const ExternalBytes &external) {
  if (!external.read)
    return emitError(loc) << "has external data '" << name
                          << "', which comes with a model in memory only";
  auto checkSize = [&](size_t size) -> LogicalResult {
    if (int64_t(size) == byteCount(type))
      return success();
    return emitError(loc) << "external data '" << name << "' has " << size
                          << " bytes, " << type << " needs " << byteCount(type);
  };
  std::string key = "external " + name.str();
  if (external.computed)
    if (std::optional<ComputedBytes> made = external.computed(name.str())) {
      if (failed(checkSize(made->size)))
        return failure();
      auto fill = [compute = std::move(made->compute)](
                      MutableArrayRef<char> target) -> LogicalResult {
        compute({reinterpret_cast<std::byte *>(target.data()), target.size()});
        return success();
      };
      return deriveConstant(type, {std::move(key), {}, std::move(fill)}, name);
    }
  Result<std::span<const std::byte>> data = external.read(name.str());
  if (!data.ok())
    return emitError(loc) << data.status().toString();
  if (failed(checkSize(data->size())))
    return failure();
  return makeConstant(
      type,
      UnmanagedAsmResourceBlob::allocateWithAlign(
          ArrayRef(reinterpret_cast<const char *>(data->data()), data->size()),
          alignof(std::max_align_t)),
      name, std::move(key));
}

/// Gives constants that name external data its bytes.
static LogicalResult readExternal(ModuleOp module,
                                  const ExternalBytes &external) {
  WalkResult result = module.walk([&](ConstantOp op) {
    auto name = op->getAttrOfType<StringAttr>(kExternalAttr);
    if (!name)
      return WalkResult::advance();
    FailureOr<ElementsAttr> value =
        readExternal(op.getLoc(), cast<RankedTensorType>(op.getType()),
                     name.getValue(), external);
    if (failed(value))
      return WalkResult::interrupt();
    op->removeAttr(kExternalAttr);
    op.setValueAttr(*value);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Replaces arguments of @main that name external data by constants.
static LogicalResult bindArguments(ModuleOp module, ArrayAttr names,
                                   const ExternalBytes &external) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || names.size() != main.getNumArguments())
    return module.emitError()
           << kExternalAttr << " has " << names.size() << " names for "
           << (main ? main.getNumArguments() : 0) << " arguments of @main";
  llvm::BitVector bound(names.size());
  OpBuilder builder = OpBuilder::atBlockBegin(&main.getBody().front());
  for (auto [index, argument] : llvm::enumerate(main.getArguments())) {
    auto name = dyn_cast<StringAttr>(names[index]);
    if (!name || name.empty())
      continue;
    FailureOr<ElementsAttr> value = readExternal(
        argument.getLoc(), cast<RankedTensorType>(argument.getType()),
        name.getValue(), external);
    if (failed(value))
      return failure();
    argument.replaceAllUsesWith(
        ConstantOp::create(builder, argument.getLoc(), *value));
    bound.set(index);
  }
  // Results that replace arguments count those that remain.
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    auto alias =
        main.getResultAttrOfType<IntegerAttr>(i, MpcDialect::kAliasAttr);
    if (!alias)
      continue;
    auto argument = unsigned(alias.getInt());
    main.removeResultAttr(i, builder.getStringAttr(MpcDialect::kAliasAttr));
    if (bound.test(argument))
      continue;
    int64_t before = llvm::count_if(
        bound.set_bits(), [&](unsigned bit) { return bit < argument; });
    main.setResultAttr(i, MpcDialect::kAliasAttr,
                       builder.getI64IntegerAttr(argument - before));
  }
  return main.eraseArguments(bound);
}

Result<Compiler::Module> mpc::importMlir(StringRef text,
                                         const std::string &name,
                                         MLIRContext &context,
                                         const ExternalBytes &external) {
  if (Status status = checkText(text, name); !status.ok())
    return status;
  if (Status status = checkNesting(text, name); !status.ok())
    return status;
  llvm::SourceMgr sources;
  // Copied: the lexer needs a terminating zero.
  sources.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(packBooleans(text), name),
      llvm::SMLoc());
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  // Attributes of unknown dialects (JAX emits sdy) are ignored; ops of such
  // dialects are refused by name below.
  context.allowUnregisteredDialects(true);
  llvm::scope_exit restored([&] { context.allowUnregisteredDialects(false); });
  Compiler::Module module = parseSourceFile<ModuleOp>(sources, config);
  auto silent = [&] {
    return Status(StatusCode::InvalidArgument, name,
                  "cannot be parsed as a model");
  };
  if (!module)
    return silent();
  if (holdsStablehlo(*module)) {
    if (failed(checkSizes(*module)) || failed(verify(*module)))
      return silent();
    auto names = (*module)->getAttrOfType<ArrayAttr>(kExternalAttr);
    module = importStablehlo(*module);
    if (!module || (names && failed(bindArguments(*module, names, external))))
      return silent();
    return module;
  }
  // Check ops, then sizes, then run verifiers, which may compute with sizes.
  if (failed(checkOps(*module)) || failed(checkSizes(*module)) ||
      failed(readExternal(*module, external)) || failed(verify(*module)))
    return silent();
  return module;
}
