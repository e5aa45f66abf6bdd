//===- StablehloBase.td - dialect, types, attributes --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Written from the public specification of StableHLO, in the textual form
// printed by JAX.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_STABLEHLO_IR_STABLEHLOBASE
#define MPC_DIALECT_STABLEHLO_IR_STABLEHLOBASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Stablehlo_Dialect : Dialect {
  let name = "stablehlo";
  let cppNamespace = "::mpc::stablehlo";
  let summary = "StableHLO, as emitted by JAX and other front ends";
  let description = [{
    Ops of the StableHLO specification on statically shaped tensors, for import
    only: nothing is optimized here. `mpc-import-stablehlo` converts a module to
    `mpc`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    /// Emits the reason why an op of the specification is unsupported.
    std::optional<ParseOpHook> getParseOperationHook(::llvm::StringRef name) const override;
  }];
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Stablehlo_Float
    : AnyTypeOf<[F16, BF16, F32, F64, F8E4M3FN, F8E5M2, F8E4M3FNUZ, F8E5M2FNUZ, F8E4M3B11FNUZ,
                 F8E4M3, F8E3M4, F8E8M0FNU, F6E2M3FN, F6E3M2FN, F4E2M1FN],
                "float of 4 to 64 bits">;
def Stablehlo_Int : AnyTypeOf<[I<4>, I8, I16, I32, I64, UI<4>, UI8, UI16, UI32, UI64],
                              "integer of 4 to 64 bits">;
def Stablehlo_IntOrBool : AnyTypeOf<[I1, Stablehlo_Int], "boolean or integer">;
def Stablehlo_Element : AnyTypeOf<[Stablehlo_Float, Stablehlo_IntOrBool], "number">;

def Stablehlo_Tensor : StaticShapeTensorOf<[Stablehlo_Element]>;
def Stablehlo_FloatTensor : StaticShapeTensorOf<[Stablehlo_Float]>;
def Stablehlo_IntTensor : StaticShapeTensorOf<[Stablehlo_Int]>;
def Stablehlo_LogicalTensor : StaticShapeTensorOf<[Stablehlo_IntOrBool]>;
def Stablehlo_BoolTensor : StaticShapeTensorOf<[I1]>;
def Stablehlo_ScalarInt : 0DTensorOf<[Stablehlo_Int]>;

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

class Stablehlo_Enum<string name, string summary, list<string> cases>
    : I32EnumAttr<name, summary, !foreach(i, !range(!size(cases)),
                                          I32EnumAttrCase<cases[i], i>)> {
  let cppNamespace = "::mpc::stablehlo";
  let genSpecializedAttr = 0;
}
class Stablehlo_EnumAttr<EnumAttrInfo info, string mnemonic>
    : EnumAttr<Stablehlo_Dialect, info, mnemonic>;

def Stablehlo_Precision : Stablehlo_Enum<"Precision", "precision of a contraction",
                                         ["DEFAULT", "HIGH", "HIGHEST"]>;
def Stablehlo_PrecisionAttr : Stablehlo_EnumAttr<Stablehlo_Precision, "precision">;
def Stablehlo_PrecisionArrayAttr : TypedArrayAttrBase<Stablehlo_PrecisionAttr, "precisions">;

def Stablehlo_ComparisonDirection
    : Stablehlo_Enum<"ComparisonDirection", "comparison direction",
                     ["EQ", "NE", "GE", "GT", "LE", "LT"]>;
def Stablehlo_ComparisonDirectionAttr
    : Stablehlo_EnumAttr<Stablehlo_ComparisonDirection, "comparison_direction">;

def Stablehlo_ComparisonType : Stablehlo_Enum<"ComparisonType", "comparison type",
    ["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]>;
def Stablehlo_ComparisonTypeAttr : Stablehlo_EnumAttr<Stablehlo_ComparisonType, "comparison_type">;

def Stablehlo_RngAlgorithm : Stablehlo_Enum<"RngAlgorithm", "generator of random bits",
                                            ["DEFAULT", "THREE_FRY", "PHILOX"]>;
def Stablehlo_RngAlgorithmAttr : Stablehlo_EnumAttr<Stablehlo_RngAlgorithm, "rng_algorithm">;

def Stablehlo_ResultAccuracyMode
    : Stablehlo_Enum<"ResultAccuracyMode", "accuracy mode of an approximation",
                     ["DEFAULT", "HIGHEST", "TOLERANCE"]>;
def Stablehlo_ResultAccuracyModeAttr
    : Stablehlo_EnumAttr<Stablehlo_ResultAccuracyMode, "result_accuracy_mode"> {
  let assemblyFormat = "`<` $value `>`";
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Stablehlo_Attr<string name, string attrMnemonic, string text> : AttrDef<Stablehlo_Dialect, name> {
  let mnemonic = attrMnemonic;
  let summary = text;
}

/// Lists of dimensions by name; empty or zero fields are not printed.
class Stablehlo_DimsAttr<string name, string attrMnemonic, string text>
    : Stablehlo_Attr<name, attrMnemonic, text> {
  let hasCustomAssemblyFormat = 1;
}
defvar Stablehlo_Dims = ArrayRefParameter<"int64_t">;

def Stablehlo_DotDimensionNumbersAttr
    : Stablehlo_DimsAttr<"DotDimensionNumbers", "dot", "batch and contracted dimensions"> {
  let parameters = (ins Stablehlo_Dims:$lhs_batching_dimensions,
                        Stablehlo_Dims:$rhs_batching_dimensions,
                        Stablehlo_Dims:$lhs_contracting_dimensions,
                        Stablehlo_Dims:$rhs_contracting_dimensions);
}

def Stablehlo_GatherDimensionNumbersAttr
    : Stablehlo_DimsAttr<"GatherDimensionNumbers", "gather", "dimension numbers of a gather"> {
  let parameters = (ins Stablehlo_Dims:$offset_dims, Stablehlo_Dims:$collapsed_slice_dims,
                        Stablehlo_Dims:$operand_batching_dims,
                        Stablehlo_Dims:$start_indices_batching_dims,
                        Stablehlo_Dims:$start_index_map, "int64_t":$index_vector_dim);
}

def Stablehlo_ScatterDimensionNumbersAttr
    : Stablehlo_DimsAttr<"ScatterDimensionNumbers", "scatter", "dimension numbers of a scatter"> {
  let parameters = (ins Stablehlo_Dims:$update_window_dims, Stablehlo_Dims:$inserted_window_dims,
                        Stablehlo_Dims:$input_batching_dims,
                        Stablehlo_Dims:$scatter_indices_batching_dims,
                        Stablehlo_Dims:$scatter_dims_to_operand_dims, "int64_t":$index_vector_dim);
}

def Stablehlo_ConvDimensionNumbersAttr
    : Stablehlo_DimsAttr<"ConvDimensionNumbers", "conv", "dimension numbers of a convolution"> {
  let description = [{
    `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`: for input, kernel and output.
  }];
  let parameters = (ins "int64_t":$input_batch, "int64_t":$input_feature, Stablehlo_Dims:$input_spatial,
                        "int64_t":$kernel_input_feature, "int64_t":$kernel_output_feature,
                        Stablehlo_Dims:$kernel_spatial,
                        "int64_t":$output_batch, "int64_t":$output_feature, Stablehlo_Dims:$output_spatial);
}

def Stablehlo_DotAlgorithmAttr
    : Stablehlo_Attr<"DotAlgorithm", "dot_algorithm", "algorithm of a contraction"> {
  let parameters = (ins "::mlir::Type":$lhs_precision_type, "::mlir::Type":$rhs_precision_type,
                        "::mlir::Type":$accumulation_type, "int64_t":$lhs_component_count,
                        "int64_t":$rhs_component_count, "int64_t":$num_primitive_operations,
                        "bool":$allow_imprecise_accumulation);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Stablehlo_ResultAccuracyAttr
    : Stablehlo_Attr<"ResultAccuracy", "result_accuracy", "bound on an approximation"> {
  let parameters = (ins "::mlir::FloatAttr":$atol, "::mlir::FloatAttr":$rtol, "int64_t":$ulps,
                        "::mpc::stablehlo::ResultAccuracyModeAttr":$mode);
  let hasCustomAssemblyFormat = 1;
}

def Stablehlo_OutputOperandAliasAttr
    : Stablehlo_Attr<"OutputOperandAlias", "output_operand_alias", "result that shares an operand's memory"> {
  let parameters = (ins Stablehlo_Dims:$output_tuple_indices, "int64_t":$operand_index,
                        Stablehlo_Dims:$operand_tuple_indices);
  let hasCustomAssemblyFormat = 1;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

class Stablehlo_Op<string mnemonic, string text, list<Trait> traits = []>
    : Op<Stablehlo_Dialect, mnemonic, !listconcat([Pure], traits)> {
  let summary = text;
}

#endif // MPC_DIALECT_STABLEHLO_IR_STABLEHLOBASE
