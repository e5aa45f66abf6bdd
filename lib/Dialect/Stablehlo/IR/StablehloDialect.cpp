//===- StablehloDialect.cpp - dialects and attributes ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StablehloForms.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
namespace stablehlo = mpc::stablehlo;
using namespace mpc::stablehlo;

#include "mpc/Dialect/Stablehlo/IR/ChloDialect.cpp.inc"
#include "mpc/Dialect/Stablehlo/IR/StablehloDialect.cpp.inc"
#include "mpc/Dialect/Stablehlo/IR/StablehloEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "mpc/Dialect/Stablehlo/IR/StablehloAttributes.cpp.inc"

#define GET_OP_DEFS_REGISTRATION
#include "mpc/Dialect/Stablehlo/IR/StablehloOps.cpp.inc"

void StablehloDialect::initialize() {
  registerStablehloDialectOperations(this);
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mpc/Dialect/Stablehlo/IR/StablehloAttributes.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Unsupported ops
//===----------------------------------------------------------------------===//

std::string stablehlo::unsupportedReason(StringRef op) {
  auto [dialect, name] = op.split('.');
  if (dialect != "stablehlo")
    return "is not supported";
  if (name.starts_with("dynamic_") || name.contains("dimension_size") ||
      name.starts_with("real_dynamic_"))
    return "has a dynamic shape; trace the function with concrete shapes";
  if (name.starts_with("all_") || name.starts_with("collective_") ||
      name == "reduce_scatter" || name.ends_with("_id") || name == "send" ||
      name == "recv")
    return "communicates with other devices, but mpc compiles for one device";
  if (name == "infeed" || name == "outfeed" || name.ends_with("_token") ||
      name == "after_all")
    return "orders side effects by tokens; only pure functions are supported";
  if (name == "complex" || name == "real" || name == "imag" || name == "fft")
    return "uses complex numbers, which are not supported";
  if (name.starts_with("uniform_"))
    return "uses quantized types, which are not supported; export with "
           "integers and converts";
  if (name == "rng")
    return "uses a hidden random state; use rng_bit_generator, whose state is "
           "a value (as jax.random does)";
  if (name.contains("tuple"))
    return "uses tuples, which are not supported; return results separately";
  if (name == "composite")
    return "is a composite; inline its decomposition";
  return "is not supported";
}

static ParseResult refuse(OpAsmParser &parser, OperationState &state) {
  // The parser prefixes the op's name.
  return parser.emitError(parser.getNameLoc())
         << unsupportedReason(state.name.getStringRef());
}

std::optional<Dialect::ParseOpHook>
StablehloDialect::getParseOperationHook(StringRef) const {
  return ParseOpHook(refuse);
}

std::optional<Dialect::ParseOpHook>
mpc::chlo::ChloDialect::getParseOperationHook(StringRef) const {
  return ParseOpHook(refuse);
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

namespace {
/// An attribute field: a list of dimensions or one number.
struct Field {
  StringRef name;
  SmallVectorImpl<int64_t> *dims = nullptr;
  int64_t *number = nullptr;
};
} // namespace

/// Parses `<name = [1, 2], other = 3>`, in any order.
static ParseResult parseFields(AsmParser &parser, ArrayRef<Field> fields) {
  SmallVector<StringRef> seen;
  auto parseField = [&]() -> ParseResult {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    const Field *field =
        llvm::find_if(fields, [&](const Field &f) { return f.name == name; });
    if (field == fields.end() || llvm::is_contained(seen, name))
      return parser.emitError(loc)
             << "field '" << name << "' "
             << (field == fields.end() ? "does not exist" : "is given twice");
    seen.push_back(field->name);
    return field->dims ? parseDims(parser, *field->dims)
                       : parser.parseInteger(*field->number);
  };
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                        parseField);
}

namespace {
/// Prints nonempty and nonzero fields.
class FieldPrinter {
public:
  explicit FieldPrinter(AsmPrinter &printer) : printer(printer) {
    printer << "<";
  }
  ~FieldPrinter() { printer << ">"; }
  void dims(StringRef name, ArrayRef<int64_t> values, bool always = false) {
    if (values.empty() && !always)
      return;
    begin(name);
    printDims(printer, values);
  }
  void number(StringRef name, int64_t value, bool always = false) {
    if (value == 0 && !always)
      return;
    begin(name);
    printer << value;
  }
  void begin(StringRef name) {
    printer << separator << name << " = ";
    separator = ", ";
  }

private:
  AsmPrinter &printer;
  StringRef separator = "";
};
} // namespace

Attribute DotDimensionNumbersAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> lhsBatch, rhsBatch, lhs, rhs;
  if (parseFields(parser, {{"lhs_batching_dimensions", &lhsBatch},
                           {"rhs_batching_dimensions", &rhsBatch},
                           {"lhs_contracting_dimensions", &lhs},
                           {"rhs_contracting_dimensions", &rhs}}))
    return {};
  return get(parser.getContext(), lhsBatch, rhsBatch, lhs, rhs);
}

void DotDimensionNumbersAttr::print(AsmPrinter &printer) const {
  FieldPrinter fields(printer);
  fields.dims("lhs_batching_dimensions", getLhsBatchingDimensions());
  fields.dims("rhs_batching_dimensions", getRhsBatchingDimensions());
  fields.dims("lhs_contracting_dimensions", getLhsContractingDimensions());
  fields.dims("rhs_contracting_dimensions", getRhsContractingDimensions());
}

Attribute GatherDimensionNumbersAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> offset, collapsed, batch, indexBatch, map;
  int64_t vector = 0;
  if (parseFields(parser, {{"offset_dims", &offset},
                           {"collapsed_slice_dims", &collapsed},
                           {"operand_batching_dims", &batch},
                           {"start_indices_batching_dims", &indexBatch},
                           {"start_index_map", &map},
                           {"index_vector_dim", nullptr, &vector}}))
    return {};
  return get(parser.getContext(), offset, collapsed, batch, indexBatch, map,
             vector);
}

void GatherDimensionNumbersAttr::print(AsmPrinter &printer) const {
  FieldPrinter fields(printer);
  fields.dims("offset_dims", getOffsetDims());
  fields.dims("collapsed_slice_dims", getCollapsedSliceDims());
  fields.dims("operand_batching_dims", getOperandBatchingDims());
  fields.dims("start_indices_batching_dims", getStartIndicesBatchingDims());
  fields.dims("start_index_map", getStartIndexMap());
  fields.number("index_vector_dim", getIndexVectorDim());
}

Attribute ScatterDimensionNumbersAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> window, inserted, batch, indexBatch, map;
  int64_t vector = 0;
  if (parseFields(parser, {{"update_window_dims", &window},
                           {"inserted_window_dims", &inserted},
                           {"input_batching_dims", &batch},
                           {"scatter_indices_batching_dims", &indexBatch},
                           {"scatter_dims_to_operand_dims", &map},
                           {"index_vector_dim", nullptr, &vector}}))
    return {};
  return get(parser.getContext(), window, inserted, batch, indexBatch, map,
             vector);
}

void ScatterDimensionNumbersAttr::print(AsmPrinter &printer) const {
  FieldPrinter fields(printer);
  fields.dims("update_window_dims", getUpdateWindowDims());
  fields.dims("inserted_window_dims", getInsertedWindowDims());
  fields.dims("input_batching_dims", getInputBatchingDims());
  fields.dims("scatter_indices_batching_dims", getScatterIndicesBatchingDims());
  fields.dims("scatter_dims_to_operand_dims", getScatterDimsToOperandDims());
  fields.number("index_vector_dim", getIndexVectorDim());
}

Attribute ConvDimensionNumbersAttr::parse(AsmParser &parser, Type) {
  ConvDimensionNumbersAttr dims;
  if (parser.parseLess() || parseConvDimensions(parser, dims) ||
      parser.parseGreater())
    return {};
  return dims;
}

void ConvDimensionNumbersAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printConvDimensions(printer, *this);
  printer << ">";
}

Attribute OutputOperandAliasAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> output, operand;
  int64_t index = 0;
  if (parseFields(parser, {{"output_tuple_indices", &output},
                           {"operand_index", nullptr, &index},
                           {"operand_tuple_indices", &operand}}))
    return {};
  return get(parser.getContext(), output, index, operand);
}

void OutputOperandAliasAttr::print(AsmPrinter &printer) const {
  FieldPrinter fields(printer);
  fields.dims("output_tuple_indices", getOutputTupleIndices(), true);
  fields.number("operand_index", getOperandIndex(), true);
  fields.dims("operand_tuple_indices", getOperandTupleIndices(), true);
}

Attribute ResultAccuracyAttr::parse(AsmParser &parser, Type) {
  double atol = 0, rtol = 0;
  int64_t ulps = 0;
  ResultAccuracyModeAttr mode;
  auto parseField = [&]() -> ParseResult {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    if (name == "atol")
      return parser.parseFloat(atol);
    if (name == "rtol")
      return parser.parseFloat(rtol);
    if (name == "ulps")
      return parser.parseInteger(ulps);
    if (name == "mode")
      return parser.parseAttribute(mode);
    return parser.emitError(loc) << "field '" << name << "' does not exist";
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseField))
    return {};
  if (!mode)
    mode = ResultAccuracyModeAttr::get(parser.getContext(),
                                       ResultAccuracyMode::DEFAULT);
  Builder &builder = parser.getBuilder();
  return get(parser.getContext(), builder.getF64FloatAttr(atol),
             builder.getF64FloatAttr(rtol), ulps, mode);
}

void ResultAccuracyAttr::print(AsmPrinter &printer) const {
  FieldPrinter fields(printer);
  auto number = [&](StringRef name, FloatAttr value) {
    if (value.getValue().isZero())
      return;
    fields.begin(name);
    printer.printAttributeWithoutType(value);
  };
  number("atol", getAtol());
  number("rtol", getRtol());
  fields.number("ulps", getUlps());
  fields.begin("mode");
  printer << getMode();
}
