//===- Importer.cpp - conversion of Graph to mpc --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Name lookup, dispatch, and the function around the imported ops.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "NarrowStorageType.h"
#include "TensorReader.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/CreateChecked.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Runtime/Suggestions.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <map>
#include <utility>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

Importer::Importer(Model &model, const OnnxImportOptions &options,
                   MLIRContext *context)
    : model(model), options(options), context(context), builder(context),
      modelLocation(
          FileLineColLoc::get(StringAttr::get(context, model.fileName), 0, 0)),
      externalFiles(model.folder, options.externalData,
                    options.trustsFileTimes) {}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

LogicalResult Importer::openFrame(Graph &graph) {
  Frame &frame = frames.emplace_back();
  for (TensorData &tensor : graph.initializers)
    frame.pending[tensor.name] = &tensor;
  return success();
}

FailureOr<Binding> Importer::lookup(StringRef name, Location user) {
  for (Frame &frame : llvm::reverse(frames)) {
    auto found = frame.values.find(name);
    if (found != frame.values.end())
      return found->second;
    auto pending = frame.pending.find(name);
    if (pending == frame.pending.end())
      continue;
    TensorData &data = *pending->second;
    Location location = NameLoc::get(builder.getStringAttr(name),
                                     data.origin.mark(modelLocation));
    // Only loop bodies use their constants again.
    Value value =
        makeConstantOp(data, location, /*keeps=*/&frame != &frames.front());
    if (!value)
      return failure();
    frame.pending.erase(pending);
    frame.values[name] = {value, nullptr};
    return Binding{value, nullptr};
  }
  return emitError(user) << "value '" << name << "' is not available here";
}

void Importer::recordNarrowType(Value value, int32_t dataType) {
  if (value && smallTypeOf(dataType))
    smallTypes[value] = dataType;
}

void Importer::define(StringRef name, Binding binding) {
  frames.back().values[name] = std::move(binding);
}

Value Importer::makeConstantOp(TensorData &data, Location location,
                               bool keeps) {
  // Unrolled iterations share the weights of a loop body.
  if (Value known = fileConstants.lookup(&data))
    return known;
  std::string what =
      data.name.empty() ? "a constant" : "initializer '" + data.name + "'";
  Type element = storageTypeOf(data.dataType, context);
  int64_t count = checkedCount(data.dims).value_or(0);
  int64_t bytes = count * bytesOf(data.dataType);
  if (bytes > options.maxTensorBytes) {
    emitError(location) << what << " has " << bytes << " bytes, but at most "
                        << options.maxTensorBytes << " are allowed";
    return nullptr;
  }
  auto type = RankedTensorType::get(data.dims, element);
  StringRef name = data.name.empty() ? "constant" : StringRef(data.name);
  std::string external;
  ElementsAttr value;
  if (data.external) {
    int64_t stored = storedBytes(data.dataType, count);
    bool isPlain = stored == bytes && data.dataType != kBool;
    int64_t width = stored == bytes ? bytesOf(data.dataType) : 0;
    if (isPlain) {
      FailureOr<ExternalFiles::Data> read =
          externalFiles.map(*data.external, stored, width, location, what);
      if (failed(read))
        return nullptr;
      if (read->mapped)
        value = makeConstant(type, std::move(*read->mapped), name, read->key);
      external = std::move(read->copied);
    } else {
      FailureOr<std::string> read =
          externalFiles.read(*data.external, stored, width, location, what);
      if (failed(read))
        return nullptr;
      external = std::move(*read);
      unpack(data.dataType, count, external);
    }
  }
  bool isSplat = data.external && int64_t(external.size()) < bytes;
  if (!value) {
    std::string &stored = data.external ? external : data.bytes;
    value = makeConstant(isSplat ? RankedTensorType::get({1}, element) : type,
                         keeps ? std::string(stored) : std::move(stored), name);
    if (isSplat)
      value = cast<DenseElementsAttr>(value).resizeSplat(type);
  }
  FailureOr<Operation *> op = createChecked(
      builder, location, ConstantOp::getOperationName(), value.getShapedType(),
      {}, builder.getNamedAttr("value", value));
  if (failed(op))
    return nullptr;
  Value result = adopt(*op)->getResult(0);
  recordNarrowType(result, data.dataType);
  return fileConstants[&data] = result;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

static std::string listInputs(int minimum, int maximum) {
  if (maximum == minimum)
    return std::to_string(minimum);
  if (maximum < 0)
    return std::to_string(minimum) + " or more";
  return std::to_string(minimum) + " to " + std::to_string(maximum);
}

/// Returns true if the space-separated `list` contains `name`.
static bool listContains(StringRef list, StringRef name) {
  SmallVector<StringRef> names;
  list.split(names, ' ');
  return llvm::is_contained(names, name);
}

LogicalResult Importer::importNode(const Node &node) {
  if (++nodesImported > kMaxNodes)
    return emitError(node.location) << "the model has more than " << kMaxNodes
                                    << " nodes after unrolling its loops";
  const OpEntry *entry = findOp(node.domain, node.op);
  if (!entry && !node.domain.empty())
    return emitError(node.location)
           << "operator '" << node.op << "' of domain '" << node.domain
           << "' is not supported; export the model without runtime-specific "
              "optimization";
  if (!entry)
    return emitError(node.location)
           << "operator '" << node.op << "' is not supported";
  int64_t version = 1;
  if (node.domain.empty()) {
    if (node.opset == 0)
      return emitError(node.location)
             << node.op
             << ": the model imports no version of the default domain";
    auto newest = llvm::upper_bound(entry->versions, node.opset);
    if (newest == entry->versions.begin())
      return emitError(node.location)
             << "operator '" << node.op << "' is supported from opset "
             << entry->versions.front() << " on, but the model uses opset "
             << node.opset;
    version = *std::prev(newest);
  }
  NodeImport import(*this, node, version);
  if (entry->maxInputs >= 0 && int64_t(node.inputs.size()) > entry->maxInputs)
    return import.error() << "it has " << node.inputs.size()
                          << " inputs, expected "
                          << listInputs(entry->minInputs, entry->maxInputs);
  for (int i = 0; i < entry->minInputs; ++i)
    if (!import.has(i))
      return import.error()
             << "input " << i << " is missing, expected "
             << listInputs(entry->minInputs, entry->maxInputs) << " inputs";
  for (const NodeAttribute &attribute : node.attributes)
    if (!listContains(entry->attributes, attribute.name))
      return import.error()
             << "attribute '" << attribute.name << "' is not supported";
  if (failed(entry->convert(import)) || import.failed())
    return failure();
  for (auto [i, output] : llvm::enumerate(node.outputs)) {
    if (output.empty())
      continue;
    auto found = frames.back().values.find(output);
    if (found == frames.back().values.end())
      return import.error()
             << "its output " << i << " ('" << output << "') is not supported";
    auto info = frames.size() == 1 ? declared.find(output) : declared.end();
    if (info == declared.end() || !found->second.value)
      continue;
    if (failed(checkDeclaredType(*info->second, found->second.value,
                                 node.location, "value")))
      return failure();
    noteDeclaredShape(*info->second, found->second.value, node.location);
  }
  return success();
}

LogicalResult Importer::importNodes(Graph &graph) {
  for (const Node &node : graph.nodes)
    if (failed(importNode(node)))
      return failure();
  return success();
}

LogicalResult Importer::importBody(Graph &graph, ArrayRef<Binding> arguments,
                                   SmallVectorImpl<Binding> &results,
                                   Location location) {
  if (arguments.size() != graph.inputs.size())
    return emitError(location)
           << "subgraph '" << graph.name << "' has " << graph.inputs.size()
           << " inputs, but gets " << arguments.size();
  if (failed(openFrame(graph)))
    return failure();
  for (auto [input, argument] : llvm::zip_equal(graph.inputs, arguments))
    define(input.name, argument);
  if (failed(importNodes(graph)))
    return failure();
  for (const ValueInfo &output : graph.outputs) {
    FailureOr<Binding> found = lookup(output.name, location);
    if (failed(found))
      return failure();
    results.push_back(*found);
  }
  frames.pop_back();
  return success();
}

//===----------------------------------------------------------------------===//
// Inputs, outputs
//===----------------------------------------------------------------------===//

LogicalResult Importer::fixInputs() {
  for (const ValueInfo &input : model.graph.inputs) {
    auto found = options.inputValues.find(input.name);
    if (found == options.inputValues.end())
      continue;
    FailureOr<Operation *> op = createChecked(
        builder, NameLoc::get(builder.getStringAttr(input.name), modelLocation),
        ConstantOp::getOperationName(), found->second.getShapedType(), {},
        builder.getNamedAttr("value", found->second));
    if (failed(op))
      return failure();
    Value value = adopt(*op)->getResult(0);
    recordNarrowType(value, input.dataType);
    StringRef what = "the value given for input";
    if (failed(checkDeclaredType(input, value, modelLocation, what)))
      return failure();
    if (!hasDeclaredShape(input, value.getType()))
      return DeclaredShape{&input, value.getType(), modelLocation}.describe(
          emitError(modelLocation) << what << ' ');
    define(input.name, {value, nullptr});
  }
  return success();
}

OwningOpRef<ModuleOp> Importer::run() {
  OwningOpRef<ModuleOp> module = ModuleOp::create(modelLocation);
  Graph &graph = model.graph;
  llvm::StringMap<const TensorData *> initializers;
  for (const TensorData &tensor : graph.initializers)
    initializers[tensor.name] = &tensor;
  for (const ValueInfo &value : graph.values)
    declared[value.name] = &value;
  for (const ValueInfo &value : graph.outputs)
    declared[value.name] = &value;

  std::vector<const ValueInfo *> arguments;
  // An initializer is its input's default, overridden by the caller's value.
  for (const ValueInfo &input : graph.inputs)
    if ((!initializers.contains(input.name) ||
         (options.replacesInitializers &&
          options.inputShapes.contains(input.name))) &&
        !options.inputValues.contains(input.name))
      arguments.push_back(&input);
  if (failed(bindShapes(arguments)))
    return nullptr;
  SmallVector<Type> argumentTypes;
  bool complete = true;
  for (auto [position, input] : llvm::enumerate(arguments)) {
    FailureOr<RankedTensorType> type = inputType(*input, position);
    complete &= succeeded(type);
    if (complete)
      argumentTypes.push_back(*type);
  }
  if (!complete)
    return nullptr;

  builder.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(builder, modelLocation, "main",
                                  builder.getFunctionType(argumentTypes, {}));
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToEnd(body);
  if (failed(openFrame(graph)))
    return nullptr;
  for (auto [input, argument] :
       llvm::zip_equal(arguments, body->getArguments())) {
    define(input->name, {argument, nullptr});
    recordNarrowType(argument, input->dataType);
    argumentNames.push_back(input->name);
  }
  if (failed(fixInputs()) || failed(importNodes(graph)))
    return nullptr;

  SmallVector<Value> results;
  for (const ValueInfo &output : graph.outputs) {
    FailureOr<Binding> found = lookup(output.name, modelLocation);
    if (failed(found))
      return nullptr;
    if (!found->value) {
      emitError(modelLocation)
          << "graph output '" << output.name << "' is "
          << (found->list ? "a sequence" : "an empty optional")
          << ", which mpc does not return; only tensors are supported";
      return nullptr;
    }
    if (failed(checkDeclaredType(output, found->value, modelLocation,
                                 "graph output")))
      return nullptr;
    results.push_back(found->value);
  }
  func::ReturnOp::create(builder, modelLocation, results);
  function.setType(
      builder.getFunctionType(argumentTypes, TypeRange(ValueRange(results))));
  for (auto [i, input] : llvm::enumerate(arguments)) {
    function.setArgAttr(i, MpcDialect::kRoleAttr,
                        RoleAttr::get(context, RoleKind::input, StringAttr()));
    function.setArgAttr(i, MpcDialect::kNameAttr,
                        builder.getStringAttr(input->name));
  }
  for (auto [i, output] : llvm::enumerate(graph.outputs)) {
    function.setResultAttr(
        i, MpcDialect::kRoleAttr,
        RoleAttr::get(context, RoleKind::output, StringAttr()));
    function.setResultAttr(i, MpcDialect::kNameAttr,
                           builder.getStringAttr(output.name));
  }
  eraseDead();
  warnShapeMismatch();
  return module;
}

void Importer::eraseDead() {
  Block &body = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (op.use_empty() && isPure(&op) && !op.hasTrait<OpTrait::IsTerminator>())
      op.erase();
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

/// Attempts an import, with the input values that `options` fix.
static OwningOpRef<ModuleOp>
importOnce(ArrayRef<char> bytes, StringRef fileName, StringRef modelFolder,
           const OnnxImportOptions &options, MLIRContext *context) {
  // Tools print the file and the node's position; name the node in the message
  // as well, also if it is from a verifier.
  ScopedDiagnosticHandler nameNodes(context, [](Diagnostic &diagnostic) {
    auto name = dyn_cast<NameLoc>(diagnostic.getLocation());
    if (name && !StringRef(diagnostic.str()).contains(name.getName()))
      diagnostic << " (node '" << name.getName().getValue() << "')";
    return failure();
  });
  std::unique_ptr<Model> model =
      readModel(bytes, fileName, modelFolder, context);
  if (!model)
    return nullptr;
  return Importer(*model, options, context).run();
}

OwningOpRef<ModuleOp> mpc::importOnnxBytes(ArrayRef<char> bytes,
                                           StringRef fileName,
                                           StringRef modelFolder,
                                           const OnnxImportOptions &options,
                                           MLIRContext *context) {
  context->loadDialect<MpcDialect, func::FuncDialect>();
  if (!options.offeredValue)
    return importOnce(bytes, fileName, modelFolder, options, context);
  // The import may find after building ops that it needs an input's value. It
  // then restarts with that value and drops the attempt's diagnostics.
  OnnxImportOptions choices = options;
  SmallVector<std::string> needed;
  choices.neededInputs = &needed;
  while (true) {
    std::vector<Diagnostic> said;
    OwningOpRef<ModuleOp> module;
    {
      ScopedDiagnosticHandler keep(context, [&](Diagnostic &diagnostic) {
        said.push_back(std::move(diagnostic));
      });
      module = importOnce(bytes, fileName, modelFolder, choices, context);
    }
    bool offered = false;
    if (!module) {
      for (const std::string &name : needed) {
        ElementsAttr value = options.offeredValue(name);
        if (!value || !choices.inputValues.try_emplace(name, value).second)
          continue;
        offered = true;
        if (options.fixedInputs)
          options.fixedInputs->push_back(name);
      }
    }
    if (!offered) {
      for (Diagnostic &diagnostic : said)
        context->getDiagEngine().emit(std::move(diagnostic));
      if (options.neededInputs)
        options.neededInputs->append(needed.begin(), needed.end());
      return module;
    }
    needed.clear();
  }
}

OwningOpRef<ModuleOp> mpc::importOnnxFile(StringRef path,
                                          const OnnxImportOptions &options,
                                          MLIRContext *context) {
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                  /*RequiresNullTerminator=*/false);
  if (std::error_code error = buffer.getError()) {
    emitError(FileLineColLoc::get(StringAttr::get(context, path), 0, 0))
        << "cannot read the model: " << error.message();
    return nullptr;
  }
  StringRef folder = llvm::sys::path::parent_path(path);
  StringRef bytes = (*buffer)->getBuffer();
  return importOnnxBytes(ArrayRef<char>(bytes.data(), bytes.size()), path,
                         folder.empty() ? "." : folder, options, context);
}

//===----------------------------------------------------------------------===//
// Declared types of values
//
// Wrong element types are errors. Wrong shapes are common in files processed by
// optimizers, and ONNX Runtime uses its inferred ones; the importer does the
// same, with a warning.
//===----------------------------------------------------------------------===//

LogicalResult Importer::checkDeclaredType(const ValueInfo &info, Value value,
                                          Location location, StringRef what) {
  if (info.kind != "tensor")
    return success();
  auto type = cast<RankedTensorType>(value.getType());
  Type element = storageTypeOf(info.dataType, context);
  int32_t small = smallTypeOf(info.dataType) ? info.dataType : 0;
  int32_t actual = smallTypes.lookup(value);
  if (info.dataType != 0 &&
      (element != type.getElementType() || small != actual)) {
    InFlightDiagnostic diagnostic =
        emitError(location)
        << what << " '" << info.name << "' is declared with elements of "
        << dataTypeName(info.dataType) << ", but is ";
    return actual ? diagnostic << "of " << dataTypeName(actual)
                  : diagnostic << type;
  }
  return success();
}

bool mpc::onnx::hasDeclaredShape(const ValueInfo &info, Type type) {
  return info.kind != "tensor" || !info.dims ||
         llvm::equal(*info.dims, cast<ShapedType>(type).getShape(),
                     [](const Dimension &declared, int64_t extent) {
                       return declared.extent.value_or(extent) == extent;
                     });
}

InFlightDiagnostic
DeclaredShape::describe(InFlightDiagnostic diagnostic) const {
  diagnostic << "'" << declared->name << "' is declared as [";
  llvm::interleaveComma(
      *declared->dims, diagnostic, [&](const Dimension &dimension) {
        if (dimension.extent)
          diagnostic << *dimension.extent;
        else
          diagnostic << (dimension.symbol.empty() ? "?" : dimension.symbol);
      });
  diagnostic << "], but is " << actual;
  return diagnostic;
}

void Importer::noteDeclaredShape(const ValueInfo &info, Value value,
                                 Location location) {
  // Declared with the old batch size, which the caller replaced.
  if (oldBatch != newBatch || hasDeclaredShape(info, value.getType()))
    return;
  if (wrongShapes++ == 0)
    wrongShape.emplace(DeclaredShape{&info, value.getType(), location});
}

void Importer::warnShapeMismatch() {
  if (!wrongShape)
    return;
  InFlightDiagnostic warning =
      wrongShape->describe(emitWarning(wrongShape->location) << "value ");
  warning << "; the declared shape is ignored";
  if (wrongShapes > 1)
    warning << ", as " << (wrongShapes == 2 ? "is " : "are ") << wrongShapes - 1
            << " more";
}

//===----------------------------------------------------------------------===//
// Symbolic dimensions of graph inputs
//
// mpc compiles static shapes: the caller binds every symbol of an input to an
// extent, and equal symbols have equal extents.
//===----------------------------------------------------------------------===//

/// Returns the caller's shape of an input, by its name, else by position.
static const SmallVector<int64_t> *givenShape(const OnnxImportOptions &options,
                                              StringRef name, size_t position) {
  auto found = options.inputShapes.find(name);
  if (found == options.inputShapes.end())
    found = options.inputShapes.find("arg" + std::to_string(position));
  return found == options.inputShapes.end() ? nullptr : &found->second;
}

LogicalResult Importer::bindSymbol(const ValueInfo &input, StringRef symbol,
                                   int64_t extent) {
  auto [it, fresh] = symbols.try_emplace(symbol, extent);
  if (fresh || it->second == extent)
    return success();
  return emitError(modelLocation)
         << "input '" << input.name << "' gives the symbolic dimension '"
         << symbol << "' the extent " << extent << ", but it is " << it->second;
}

LogicalResult Importer::bindBatch(ArrayRef<const ValueInfo *> arguments) {
  if (!options.batch)
    return success();
  if (*options.batch < 1)
    return emitError(modelLocation)
           << "batch is " << *options.batch << ", expected at least 1";
  newBatch = *options.batch;
  oldBatch = newBatch;
  const ValueInfo *first = nullptr;
  for (const ValueInfo *input : arguments) {
    if (!input->dims || input->dims->empty())
      continue;
    const Dimension &leading = input->dims->front();
    if (!leading.extent) {
      if (!leading.symbol.empty() &&
          failed(bindSymbol(*input, leading.symbol, newBatch)))
        return failure();
      continue;
    }
    if (!first) {
      first = input;
      oldBatch = *leading.extent;
    } else if (*leading.extent != oldBatch) {
      return emitError(modelLocation)
             << "batch cannot be changed: the leading extents of inputs '"
             << first->name << "' and '" << input->name << "' are " << oldBatch
             << " and " << *leading.extent;
    }
  }
  return success();
}

LogicalResult Importer::unknownInput(StringRef name) {
  SmallVector<StringRef> inputs;
  for (const ValueInfo &input : model.graph.inputs)
    inputs.push_back(input.name);
  std::string similar = didYouMean(name, inputs);
  constexpr size_t kMostNames = 8;
  InFlightDiagnostic error = emitError(modelLocation)
                             << "the model has no input named '" << name << "'";
  if (!similar.empty() || inputs.empty())
    return error << similar;
  error << "; its inputs are '"
        << llvm::join(ArrayRef(inputs).take_front(kMostNames), "', '") << "'";
  if (inputs.size() > kMostNames)
    error << " and " << inputs.size() - kMostNames << " more";
  return error;
}

LogicalResult Importer::checkInputNames() {
  llvm::StringSet<> known;
  for (auto [position, input] : llvm::enumerate(model.graph.inputs)) {
    known.insert(input.name);
    known.insert("arg" + std::to_string(position));
  }
  for (const auto &entry : options.inputValues)
    if (!known.contains(entry.first()))
      return unknownInput(entry.first());
  // In the order of their names.
  std::map<StringRef, bool> unknown;
  for (const auto &entry : options.inputShapes)
    if (!known.contains(entry.first()))
      unknown[entry.first()] = options.dataNames.contains(entry.first());
  for (auto [name, isData] : unknown)
    if (!isData)
      return unknownInput(name);
  if (!unknown.empty())
    unknownArray = unknown.begin()->first;
  return success();
}

LogicalResult Importer::bindShapes(ArrayRef<const ValueInfo *> arguments) {
  if (failed(checkInputNames()))
    return failure();
  llvm::StringMap<char> known;
  for (const ValueInfo &input : model.graph.inputs) {
    if (input.dims)
      for (const Dimension &dimension : *input.dims)
        if (!dimension.extent && !dimension.symbol.empty())
          known[dimension.symbol] = 1;
  }
  if (options.inputSymbols)
    for (const ValueInfo *input : arguments) {
      SmallVector<std::string> &symbolsOf =
          (*options.inputSymbols)[input->name];
      if (input->dims)
        for (const Dimension &dimension : *input->dims)
          symbolsOf.push_back(dimension.extent ? "" : dimension.symbol);
    }
  for (const auto &entry : options.dims) {
    if (!known.contains(entry.first()))
      return emitError(modelLocation)
             << "no input has a symbolic dimension named '" << entry.first()
             << "'";
    if (entry.second < 0)
      return emitError(modelLocation) << "symbolic dimension '" << entry.first()
                                      << "' gets the extent " << entry.second;
    symbols[entry.first()] = entry.second;
  }
  if (failed(bindBatch(arguments)))
    return failure();
  for (auto [position, input] : llvm::enumerate(arguments)) {
    const SmallVector<int64_t> *given =
        givenShape(options, input->name, position);
    if (!given || !input->dims)
      continue;
    ArrayRef<int64_t> shape = *given;
    if (shape.size() != input->dims->size())
      return emitError(modelLocation)
             << "input '" << input->name << "' has " << input->dims->size()
             << " dimensions, but a shape of " << shape.size() << " is given";
    for (auto [i, extent] : llvm::enumerate(shape)) {
      const Dimension &dimension = (*input->dims)[i];
      bool rebound = i == 0 && oldBatch != newBatch;
      int64_t expected = rebound ? newBatch : dimension.extent.value_or(extent);
      if (expected != extent)
        return emitError(modelLocation)
               << "input '" << input->name << "' has extent " << expected
               << " in dimension " << i << ", but " << extent << " is given";
      if (!dimension.extent && !dimension.symbol.empty() &&
          failed(bindSymbol(*input, dimension.symbol, extent)))
        return failure();
    }
  }
  return success();
}

FailureOr<RankedTensorType> Importer::inputType(const ValueInfo &input,
                                                size_t position) {
  if (input.kind != "tensor")
    return emitError(modelLocation)
           << "input '" << input.name << "' is a value of kind " << input.kind
           << ", but only tensors are supported";
  Type element = storageTypeOf(input.dataType, context);
  if (!element)
    return emitError(modelLocation)
           << "input '" << input.name << "' has elements of "
           << dataTypeName(input.dataType) << ", which mpc does not read";
  const SmallVector<int64_t> *given = givenShape(options, input.name, position);
  // An array of another name is the likely cause of a missing shape.
  auto unbound = [&](const Twine &what,
                     const std::string &remedy) -> LogicalResult {
    if (unknownArray.empty())
      return emitError(modelLocation) << "input '" << input.name << "' has "
                                      << what << "as in " << remedy;
    return unknownInput(std::exchange(unknownArray, ""));
  };
  auto howToSet = [&](ArrayRef<Dimension> dims) {
    std::vector<int64_t> example;
    for (const Dimension &dimension : dims)
      example.push_back(dimension.extent.value_or(1));
    return howToSetShape(options.caller, input.name, example);
  };
  SmallVector<int64_t> shape;
  if (!input.dims) {
    if (!given)
      return unbound("no declared shape; give its whole shape, ",
                     howToSetShape(options.caller, input.name, {1, 512}));
    shape = *given;
  } else {
    for (auto [i, dimension] : llvm::enumerate(*input.dims)) {
      if (i == 0 && newBatch != oldBatch && dimension.extent) {
        shape.push_back(newBatch);
      } else if (dimension.extent) {
        shape.push_back(*dimension.extent);
      } else if (auto bound = symbols.find(dimension.symbol);
                 !dimension.symbol.empty() && bound != symbols.end()) {
        shape.push_back(bound->second);
      } else if (given) {
        shape.push_back((*given)[i]);
      } else if (i == 0 && newBatch != 0) {
        shape.push_back(newBatch);
      } else if (dimension.symbol.empty()) {
        return unbound("no extent in dimension " + Twine(i) +
                           "; give its whole shape, ",
                       howToSet(*input.dims));
      } else {
        return unbound("the unbound symbolic dimension '" + dimension.symbol +
                           "'; give its extent, ",
                       howToSetDim(options.caller, dimension.symbol));
      }
    }
  }
  std::optional<int64_t> count = checkedCount(shape);
  int64_t bytes = 0;
  if (!count ||
      __builtin_mul_overflow(*count, bytesOf(input.dataType), &bytes) ||
      bytes > options.maxTensorBytes)
    return emitError(modelLocation)
           << "input '" << input.name << "' is too large: at most "
           << options.maxTensorBytes << " bytes are allowed";
  return RankedTensorType::get(shape, element);
}

//===----------------------------------------------------------------------===//
//
//
//----------------===//
// Shapes in ONNX are data: a chain of Shape, Gather, Concat and others feeds a
// Reshape. Integer results of constants are folded immediately; float chains
// are evaluated only if a shape needs them and stay in the IR, so that later
// passes compute them in full precision.
//===----------------------------------------------------------------------===//

/// Maximum size of cached values, in elements.
static constexpr int64_t kKeepElements = 4096;
/// Limit of all evaluations of an import, in multiples of `maxFoldBytes`.
static constexpr int64_t kFoldBudget = 32;

/// Returns the node's name, as the key of a large constant.
static StringRef nameOf(Location location) {
  auto name = dyn_cast<NameLoc>(location);
  return name ? name.getName().getValue() : StringRef("constant");
}

std::shared_ptr<const reference::Tensor> Importer::known(Value value) {
  if (!isKnown(value))
    return nullptr;
  llvm::DenseMap<Value, std::shared_ptr<const reference::Tensor>> local;
  auto find = [&](Value wanted) -> std::shared_ptr<const reference::Tensor> {
    if (auto kept = evaluated.find(wanted); kept != evaluated.end())
      return kept->second;
    return local.lookup(wanted);
  };
  int64_t bytesLive = 0;
  SmallVector<Operation *> open = {value.getDefiningOp()};
  while (!open.empty()) {
    Operation *op = open.back();
    if (find(op->getResult(0))) {
      open.pop_back();
      continue;
    }
    bool ready = true;
    for (Value operand : op->getOperands()) {
      if (!find(operand)) {
        open.push_back(operand.getDefiningOp());
        ready = false;
      }
    }
    if (!ready)
      continue;
    open.pop_back();
    for (Type type : op->getResultTypes())
      bytesLive += byteCount(type);
    if (bytesLive > options.maxFoldBytes ||
        bytesEvaluated > kFoldBudget * options.maxFoldBytes)
      return nullptr;
    for (Type type : op->getResultTypes())
      bytesEvaluated += byteCount(type);
    SmallVector<std::shared_ptr<const reference::Tensor>> held;
    SmallVector<const reference::Tensor *> operands;
    for (Value operand : op->getOperands()) {
      held.push_back(find(operand));
      operands.push_back(held.back().get());
    }
    SmallVector<reference::Tensor> results;
    if (failed(reference::evaluate(op, operands, results,
                                   reference::Rounding::Declared)))
      return nullptr;
    for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results)) {
      auto shared =
          std::make_shared<const reference::Tensor>(std::move(tensor));
      if (shared->size() <= kKeepElements)
        evaluated[result] = shared;
      local[result] = std::move(shared);
    }
  }
  return find(value);
}

Operation *Importer::adopt(Operation *op) {
  bool allKnown = llvm::all_of(op->getOperands(),
                               [&](Value operand) { return isKnown(operand); });
  if (!allKnown)
    return op;
  for (Value result : op->getResults())
    knownValues.insert(result);
  if (op->getNumOperands() == 0 || op->getNumResults() != 1)
    return op;
  Value result = op->getResult(0);
  auto type = cast<RankedTensorType>(result.getType());
  if (!isa<IntegerType>(type.getElementType()))
    return op;
  std::shared_ptr<const reference::Tensor> tensor = known(result);
  if (!tensor)
    return op;
  FailureOr<Operation *> constant = createChecked(
      builder, op->getLoc(), ConstantOp::getOperationName(), type, {},
      builder.getNamedAttr("value", tensor->toAttr(nameOf(op->getLoc()))));
  if (failed(constant))
    return op;
  if (mlir::Attribute layer = op->getAttr(MpcDialect::kLayerAttr))
    (*constant)->setAttr(MpcDialect::kLayerAttr, layer);
  evaluated.erase(result);
  knownValues.erase(result);
  op->erase();
  Value folded = (*constant)->getResult(0);
  knownValues.insert(folded);
  if (tensor->size() <= kKeepElements)
    evaluated[folded] = tensor;
  return *constant;
}

SmallVector<std::string> Importer::inputsOf(Value value) {
  llvm::DenseSet<Value> seen;
  SmallVector<bool> depends(argumentNames.size(), false);
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(next))
      depends[argument.getArgNumber()] = true;
    else
      llvm::append_range(open, next.getDefiningOp()->getOperands());
  }
  SmallVector<std::string> names;
  for (auto [name, used] : llvm::zip_equal(argumentNames, depends))
    if (used)
      names.push_back(name);
  return names;
}
