//===- MpcConvolutionOps.td - convolution and pooling ------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCCONVOLUTIONOPS
#define MPC_DIALECT_MPC_IR_MPCCONVOLUTIONOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

defvar Mpc_WindowConstraints = [{
    - (C1) input and filter have the same float element type, of a conv also
      8-bit integers signed or not; rank is 2 + spatial rank, which is at least 1.
    - (C2) every window attribute has one entry per spatial dimension; strides
      and dilations are positive.
    - (C3) input channels are `groups` times the filter's input channels, and
      `groups` divides the output channels.
    - (C4) the (dilated) filter fits into the padded input.
}];

def Mpc_ConvOp : Mpc_WideningOp<"conv", "Convolution",
    "2 * getContractionSize() * ::mpc::elementCount(getResult())",
    [DeclareOpInterfaceMethods<Mpc_ContractionOpInterface>]> {
  let summary = "Convolution of any spatial rank (no filter flip)";
  let description = [{
    Input `[N, C, spatial...]`, filter `[O, C / groups, window...]`, result
    `[N, O, spatial...]`; with `layout(channels_last)` input and result are
    `[N, spatial..., C]`. With `packed` the filter is a constant
    `[groups, ceil(O/groups/columns), window..., C/groups, columns]` flattened to
    rank 3: `[groups * panels, window * C/groups, columns]`.

    8-bit integers give i32, modulo 2^32. Padding has the value `pad_value`, the
    input's zero point, so that the zero-point correction is the same at the borders
    as elsewhere: one constant per output channel.
  }] # Mpc_WindowConstraints # [{
    - (C5) `pad_value` is zero, or of the type of an integer input.
  }];
  let arguments = (ins Mpc_Tensor:$input, Mpc_Tensor:$filter,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pad_low,
                       DenseI64ArrayAttr:$pad_high, DenseI64ArrayAttr:$dilations,
                       DefaultValuedAttr<I64Attr, "1">:$groups, Mpc_ImageLayoutDefault:$layout,
                       OptionalAttr<DenseI64ArrayAttr>:$window,
                       OptionalAttr<TypeAttr>:$accumulate, Mpc_ComputeDefault:$compute,
                       OptionalAttr<Mpc_PackedAttr>:$packed,
                       DefaultValuedAttr<I64Attr, "0">:$pad_value);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $filter `strides` `(` $strides `)` `pad` `(` $pad_low `,` $pad_high `)`
    (`pad_value` `(` $pad_value^ `)`)? `dilations` `(` $dilations `)` (`groups` `(` $groups^ `)`)? (`layout` `(` custom<EnumKeyword>($layout)^ `)`)?
    (`window` `(` $window^ `)`)? (`accumulate` `(` $accumulate^ `)`)?
    (`compute` `(` custom<EnumKeyword>($compute)^ `)`)? (`packed` `` $packed^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = members # [{
    /// Extents of the filter's window, packed or not.
    ::llvm::SmallVector<int64_t> getWindowShape();
    /// Number of output channels.
    int64_t getOutputChannels();
    /// Number of filter elements that are contiguous in a channels_last input:
    /// one row of the window times its channels, or the channels alone.
    int64_t getContractionRun();
  }];
}

def Mpc_ConvTransposeOp : Mpc_WideningOp<"conv_transpose", "Convolution",
    "2 * getContractionSize() * ::mpc::elementCount(getInput())",
    [DeclareOpInterfaceMethods<Mpc_ContractionOpInterface>, Mpc_Composite]> {
  let summary = "Transposed convolution (gradient of conv with respect to its input)";
  let description = [{
    Input `[N, C, spatial...]`, filter `[C, O / groups, window...]`, result
    `[N, O, spatial...]` with extent
    `(in - 1) * stride + dilation * (window - 1) + 1 + output_padding - pad_low - pad_high`.
  }] # Mpc_WindowConstraints;
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$filter,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pad_low,
                       DenseI64ArrayAttr:$pad_high, DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$output_padding, DefaultValuedAttr<I64Attr, "1">:$groups,
                       OptionalAttr<TypeAttr>:$accumulate, Mpc_ComputeDefault:$compute);
  let results = (outs Mpc_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $filter `strides` `(` $strides `)` `pad` `(` $pad_low `,` $pad_high `)`
    `dilations` `(` $dilations `)` `output_padding` `(` $output_padding `)`
    (`groups` `(` $groups^ `)`)? (`accumulate` `(` $accumulate^ `)`)? (`compute` `(` custom<EnumKeyword>($compute)^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

class Mpc_PoolOp<string mnemonic, string text, list<Trait> traits = []>
    : Mpc_InferredOp<mnemonic, "Pool", "::mpc::productOf(getWindow()) * ::mpc::elementCount(getResult())",
                     traits> {
  let summary = text;
  let description = [{
    Input `[N, C, spatial...]` (or channels last). Extents round down unless
    `ceil_mode`, in which case a window that starts in the high padding is dropped.
    - (C1) window attributes have one positive entry (padding: non-negative) per
      spatial dimension.
    - (C2) the dilated window fits into the padded input.
  }];
  let results = (outs Mpc_Tensor:$result);
}

def Mpc_MaxPoolOp : Mpc_PoolOp<"max_pool", "Maximum over a sliding window; padding is ignored",
                               [Mpc_Range]> {
  let arguments = (ins Mpc_Tensor:$input, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pad_low, DenseI64ArrayAttr:$pad_high,
                       DenseI64ArrayAttr:$dilations, UnitAttr:$ceil_mode, Mpc_ImageLayoutDefault:$layout);
  let assemblyFormat = [{
    $input `window` `(` $window `)` `strides` `(` $strides `)` `pad` `(` $pad_low `,` $pad_high `)`
    `dilations` `(` $dilations `)` (`ceil_mode` $ceil_mode^)? (`layout` `(` custom<EnumKeyword>($layout)^ `)`)?
    attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}
def Mpc_AvgPoolOp : Mpc_PoolOp<"avg_pool", "Mean over a sliding window"> {
  let arguments = (ins Mpc_FloatTensor:$input, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pad_low, DenseI64ArrayAttr:$pad_high,
                       DenseI64ArrayAttr:$dilations, UnitAttr:$ceil_mode,
                       UnitAttr:$count_include_pad, Mpc_ImageLayoutDefault:$layout);
  let assemblyFormat = [{
    $input `window` `(` $window `)` `strides` `(` $strides `)` `pad` `(` $pad_low `,` $pad_high `)`
    `dilations` `(` $dilations `)` (`ceil_mode` $ceil_mode^)? (`count_include_pad` $count_include_pad^)?
    (`layout` `(` custom<EnumKeyword>($layout)^ `)`)? attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // MPC_DIALECT_MPC_IR_MPCCONVOLUTIONOPS
