//===- MpcBase.td - dialect, types and enums of mpc ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dialect itself, its type constraints, enums and attributes.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCBASE
#define MPC_DIALECT_MPC_IR_MPCBASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Mpc_Dialect : Dialect {
  let name = "mpc";
  let cppNamespace = "::mpc";
  let summary = "Tensor dataflow with explicit storage, compute and accumulate types";
  let description = [{
    Ops on builtin ranked tensors. An op's operand and result element types are
    the types it computes in; storage in another type is an explicit `mpc.cast`.
    Contractions and reductions accumulate in their `accumulate` type, by
    default their result's element type. Elementwise ops broadcast as NumPy
    does; nothing else broadcasts.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    /// Discardable attribute on any op: the decision that determined its types.
    static constexpr ::llvm::StringLiteral kDecisionAttr = "mpc.decision";
    /// Function argument and result attributes.
    static constexpr ::llvm::StringLiteral kRoleAttr = "mpc.role";
    static constexpr ::llvm::StringLiteral kNameAttr = "mpc.name";
    static constexpr ::llvm::StringLiteral kAliasAttr = "mpc.alias";
    /// Discardable string attribute on ops: the layer path (decisions: module
    /// scopes joined by slashes).
    static constexpr ::llvm::StringLiteral kLayerAttr = "mpc.layer";
    /// Discardable attributes on ops: the imported framework op, the padding of
    /// a contraction, the rounding errors of a constant.
    static constexpr ::llvm::StringLiteral kSourceAttr = "mpc.source";
    static constexpr ::llvm::StringLiteral kPaddingAttr = "mpc.padding";
    static constexpr ::llvm::StringLiteral kNarrowingAttr = "mpc.narrowing";
    /// On private functions: the kernel family.
    static constexpr ::llvm::StringLiteral kKernelKindAttr = "mpc.kernel_kind";
    /// On arguments of role parameter: elements attribute with the initial
    /// value.
    static constexpr ::llvm::StringLiteral kInitialAttr = "mpc.initial";
  }];
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Mpc_Float : AnyTypeOf<[F16, BF16, F32, F64], "f16, bf16, f32 or f64">;
def Mpc_Int : AnyTypeOf<[I1, I8, I16, I32, I64, UI8, UI16, UI32, UI64],
                        "boolean or 8- to 64-bit integer">;
def Mpc_IndexInt : AnyTypeOf<[I32, I64], "i32 or i64">;
def Mpc_Element : AnyTypeOf<[Mpc_Float, Mpc_Int], "mpc element type">;

def Mpc_Tensor : RankedTensorOf<[Mpc_Element]>;
// Operands of a matmul, and what makes and moves them.
def Mpc_Factor : RankedTensorOf<[Mpc_Element, F8E4M3FN, F8E5M2]>;
def Mpc_FloatTensor : RankedTensorOf<[Mpc_Float]>;
def Mpc_IntTensor : RankedTensorOf<[Mpc_Int]>;
def Mpc_IndexTensor : RankedTensorOf<[Mpc_IndexInt]>;
def Mpc_BoolTensor : RankedTensorOf<[I1]>;

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

class Mpc_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mpc";
  let genSpecializedAttr = 0;
}
class Mpc_EnumAttr<EnumAttrInfo info, string mnemonic>
    : EnumAttr<Mpc_Dialect, info, mnemonic>;

def Mpc_ComparePredicate : Mpc_Enum<"ComparePredicate", "ordered comparison; ne is unordered", [
    I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
    I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]>;
def Mpc_ComparePredicateAttr : Mpc_EnumAttr<Mpc_ComparePredicate, "compare_predicate">;

def Mpc_ComputeMode : Mpc_Enum<"ComputeMode", "compute mode of a contraction", [
    I32EnumAttrCase<"native", 0>, I32EnumAttrCase<"tf32", 1>,
    I32EnumAttrCase<"bf16x2", 2>, I32EnumAttrCase<"bf16x3", 3>]>;
def Mpc_ComputeModeAttr : Mpc_EnumAttr<Mpc_ComputeMode, "compute_mode">;

def Mpc_GeluForm : Mpc_Enum<"GeluForm", "formula of gelu", [
    I32EnumAttrCase<"erf", 0>, I32EnumAttrCase<"tanh", 1>]>;
def Mpc_GeluFormAttr : Mpc_EnumAttr<Mpc_GeluForm, "gelu_form">;

def Mpc_PadMode : Mpc_Enum<"PadMode", "padding mode", [
    I32EnumAttrCase<"constant", 0>, I32EnumAttrCase<"reflect", 1>,
    I32EnumAttrCase<"edge", 2>, I32EnumAttrCase<"wrap", 3>]>;
def Mpc_PadModeAttr : Mpc_EnumAttr<Mpc_PadMode, "pad_mode">;

def Mpc_ScatterReduction : Mpc_Enum<"ScatterReduction", "how an update is combined with the old value", [
    I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"add", 1>, I32EnumAttrCase<"mul", 2>,
    I32EnumAttrCase<"max", 3>, I32EnumAttrCase<"min", 4>]>;
def Mpc_ScatterReductionAttr : Mpc_EnumAttr<Mpc_ScatterReduction, "scatter_reduction">;

def Mpc_RecurrentDirection : Mpc_Enum<"RecurrentDirection", "direction of a recurrent layer", [
    I32EnumAttrCase<"forward", 0>, I32EnumAttrCase<"reverse", 1>,
    I32EnumAttrCase<"bidirectional", 2>]>;
def Mpc_RecurrentDirectionAttr : Mpc_EnumAttr<Mpc_RecurrentDirection, "recurrent_direction">;

def Mpc_RecurrentCell : Mpc_Enum<"RecurrentCell", "cell of a recurrent layer", [
    I32EnumAttrCase<"lstm", 0>, I32EnumAttrCase<"gru", 1>,
    I32EnumAttrCase<"linear_gru", 2>, I32EnumAttrCase<"rnn", 3>]>;
def Mpc_RecurrentCellAttr : Mpc_EnumAttr<Mpc_RecurrentCell, "recurrent_cell">;

def Mpc_ImageLayout : Mpc_Enum<"ImageLayout", "order of batch, channel and spatial dimensions", [
    I32EnumAttrCase<"channels_first", 0>, I32EnumAttrCase<"channels_last", 1>]>;
def Mpc_ImageLayoutAttr : Mpc_EnumAttr<Mpc_ImageLayout, "image_layout">;

def Mpc_FusionKind : Mpc_Enum<"FusionKind", "family of the kernel that a fusion becomes", [
    I32EnumAttrCase<"elementwise", 0>, I32EnumAttrCase<"row", 1>, I32EnumAttrCase<"reduce", 2>,
    I32EnumAttrCase<"transpose", 3>, I32EnumAttrCase<"contraction", 4>,
    I32EnumAttrCase<"convolution", 5>, I32EnumAttrCase<"attention", 6>,
    I32EnumAttrCase<"update", 7>, I32EnumAttrCase<"library", 8>,
    I32EnumAttrCase<"recurrence", 9>]>;
def Mpc_FusionKindAttr : Mpc_EnumAttr<Mpc_FusionKind, "fusion_kind">;

def Mpc_OptimizerForm : Mpc_Enum<"OptimizerForm", "framework whose formula an optimizer follows", [
    I32EnumAttrCase<"torch", 0>, I32EnumAttrCase<"keras", 1>]>;
def Mpc_OptimizerFormAttr : Mpc_EnumAttr<Mpc_OptimizerForm, "optimizer_form">;

def Mpc_UnscaleMode : Mpc_Enum<"UnscaleMode", "how a gradient is unscaled", [
    I32EnumAttrCase<"multiply", 0>, I32EnumAttrCase<"divide", 1>]>;
def Mpc_UnscaleModeAttr : Mpc_EnumAttr<Mpc_UnscaleMode, "unscale_mode">;

def Mpc_ScheduleKind : Mpc_Enum<"ScheduleKind", "learning rate schedule", [
    I32EnumAttrCase<"constant", 0>, I32EnumAttrCase<"step", 1>,
    I32EnumAttrCase<"cosine", 2>, I32EnumAttrCase<"linear", 3>]>;
def Mpc_ScheduleKindAttr : Mpc_EnumAttr<Mpc_ScheduleKind, "schedule_kind">;

def Mpc_RoleKind : Mpc_Enum<"RoleKind", "kind of role of a function argument or result", [
    I32EnumAttrCase<"input", 0>, I32EnumAttrCase<"label", 1>, I32EnumAttrCase<"parameter", 2>,
    I32EnumAttrCase<"parameter_copy", 3>, I32EnumAttrCase<"statistics", 4>,
    I32EnumAttrCase<"optimizer_state", 5>, I32EnumAttrCase<"optimizer_step", 6>,
    I32EnumAttrCase<"loss_scale_state", 7>, I32EnumAttrCase<"rng_state", 8>,
    I32EnumAttrCase<"output", 9>, I32EnumAttrCase<"loss", 10>,
    I32EnumAttrCase<"scaling_state", 11>]>;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Mpc_Attr<string name, string attrMnemonic> : AttrDef<Mpc_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Mpc_RoleAttr : Mpc_Attr<"Role", "role"> {
  let summary = "role of a function argument or result";
  let description = [{
    `#mpc.role<input>`; `loss_scale_state` carries the field's name:
    `#mpc.role<loss_scale_state, "scale">`.
  }];
  let parameters = (ins EnumParameter<Mpc_RoleKind>:$kind,
                        OptionalParameter<"::mlir::StringAttr">:$field);
  let assemblyFormat = "`<` $kind (`,` $field^)? `>`";
}

def Mpc_DecisionAttr : Mpc_Attr<"Decision", "decision"> {
  let summary = "reason for the types that an op computes in";
  let description = [{
    `rule` is the class that decided (`low`, `high`, `follow`, `clear`, `widest`,
    `high_result`, `override`, `pin`, `untouched`), `list` the policy, `override`
    the applied override, `reason` one sentence, `cost` the cost of the cut edge, in
    bytes.
  }];
  let parameters = (ins "::mlir::StringAttr":$rule, "::mlir::StringAttr":$list,
                        OptionalParameter<"::mlir::StringAttr">:$override,
                        OptionalParameter<"::mlir::StringAttr">:$reason,
                        OptionalParameter<"::mlir::IntegerAttr">:$cost);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Mpc_PackedAttr : Mpc_Attr<"Packed", "packed"> {
  let summary = "tile layout of a constant right-hand side or filter";
  let description = [{
    Panel-packed (prepacked) GEMM weights: `[ceil(N / columns)][K][columns]`
    elements, N the number of columns (output channels), K the contracted extent in
    row-major order, missing columns zero. With `interleave = 2` (16-bit types)
    element `[k][2 * j + h]` of a panel is column `j + h * columns / 2`, so that one
    32-bit lane holds two columns half a panel apart and upconverting needs only a
    shift and a mask.

    With `depth = D` the layout is `[ceil(N / columns)][steps][D * columns]`, for
    dot-product units that multiply D k indices at once: element `[s][D * j + h]` of
    a panel is column `j` at k index `D * s + h`. K is split into runs that are
    contiguous in the left operand (for a convolution ConvOp's `getContractionRun`,
    else all of K); each run starts a new step and is zero-padded to whole steps.
    - (C1) `columns` is positive, `interleave` 1 or 2, `depth` a power of two,
      and one of both is 1.
  }];
  let parameters = (ins "int64_t":$columns, DefaultValuedParameter<"int64_t", "1">:$interleave,
                        DefaultValuedParameter<"int64_t", "1">:$depth);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Extents 1 and 2 of a constant for K extent `size` in runs of `run`.
    int64_t getSteps(int64_t size, int64_t run) const;
    int64_t getStepElements() const { return getDepth() * getColumns(); }
  }];
}

def Mpc_SourceAttr : Mpc_Attr<"Source", "source"> {
  let summary = "framework op that an op was imported from";
  let description = [{
    `op` is the framework's name without namespace (`addcmul`, `BiasAdd`). Ops of
    one function with the same `id` are one framework op that was imported as
    several ops; policies that imitate the framework assign their types as one.
    Passes that rewrite such ops drop the attribute.
  }];
  let parameters = (ins "::mlir::StringAttr":$op, "int64_t":$id);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Mpc_PaddingAttr : Mpc_Attr<"Padding", "padding"> {
  let summary = "padding applied to a contraction by mpc-pad-contractions";
  let description = [{
    `from` and `to` are the extents batch, M, N, K (of a convolution: images,
    output positions, output channels, input channels per group times the window)
    before and after; `extra_flops` is what the padding costs.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$from, ArrayRefParameter<"int64_t">:$to,
                        "int64_t":$extra_flops);
  let assemblyFormat = "`<` `from` `=` `[` $from `]` `,` `to` `=` `[` $to `]` `,` `extra_flops` `=` $extra_flops `>`";
}

def Mpc_NarrowingAttr : Mpc_Attr<"Narrowing", "narrowing"> {
  let summary = "rounding errors of a constant rounded at compile time";
  let description = [{
    Of `count` values `overflowed` became infinite and `flushed` became zero.
    `max_error` and `rms_error` are the maximum and root mean square rounding error
    relative to the root mean square of the values, over values that stayed finite.
  }];
  let parameters = (ins "int64_t":$count, "int64_t":$overflowed, "int64_t":$flushed,
                        "::mlir::FloatAttr":$max_error, "::mlir::FloatAttr":$rms_error);
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif // MPC_DIALECT_MPC_IR_MPCBASE
