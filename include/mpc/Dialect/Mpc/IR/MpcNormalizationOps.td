//===- MpcNormalizationOps.td - softmax and norms -----------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCNORMALIZATIONOPS
#define MPC_DIALECT_MPC_IR_MPCNORMALIZATIONOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

class Mpc_SoftmaxLikeOp<string mnemonic, string text, string low, string high>
    : Mpc_Op<mnemonic, "RowWise", "12 * ::mpc::elementCount(getResult())",
             [SameOperandsAndResultType, DeclareOpInterfaceMethods<Mpc_ReductionOpInterface>,
              Mpc_RangeOpInterface, Mpc_MapsRows]> {
  let summary = text;
  let description = [{
    The maximum is subtracted first.
    - (C1) `axis` is inside the rank.
  }];
  let arguments = (ins Mpc_FloatTensor:$input, I64Attr:$axis);
  let results = (outs Mpc_FloatTensor:$result);
  let assemblyFormat = "$input `axis` `(` $axis `)` attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = members # Mpc_Between<low, high>.members;
}
def Mpc_SoftmaxOp : Mpc_SoftmaxLikeOp<"softmax", "exp(x) / sum(exp(x)) along an axis", "0", "1">;
def Mpc_LogSoftmaxOp : Mpc_SoftmaxLikeOp<"log_softmax", "x - log(sum(exp(x))) along an axis",
                                         "::mpc::KnownRange().low", "0">;

class Mpc_NormOp<string mnemonic, string text, string flops, Trait form>
    : Mpc_Op<mnemonic, "RowWise", flops # " * ::mpc::elementCount(getResult())",
             [AllTypesMatch<["input", "result"]>,
              DeclareOpInterfaceMethods<Mpc_ReductionOpInterface>, Mpc_Normalizes, form]> {
  let summary = text;
  let results = (outs Mpc_FloatTensor:$result);
  let hasVerifier = 1;
}

def Mpc_LayerNormOp : Mpc_NormOp<"layer_norm", "Normalise over trailing axes", "8",
                                 Mpc_MapsRows> {
  let description = [{
    `(x - mean) / sqrt(variance + epsilon) * scale + bias` over the axes from
    `axis` on (Ba et al., arXiv 1607.06450); the variance is the biased one.
    - (C1) `axis` is inside the rank.
    - (C2) scale and bias broadcast to the normalized extents.
    - (C3) all operands have the same element type.
  }];
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$scale,
                       Optional<Mpc_FloatTensor>:$bias, I64Attr:$axis, F64Attr:$epsilon);
  let assemblyFormat = [{
    $input `,` $scale (`,` $bias^)? `axis` `(` $axis `)` `epsilon` `(` $epsilon `)`
    attr-dict `:` functional-type(operands, results)
  }];
}

def Mpc_RmsNormOp : Mpc_NormOp<"rms_norm", "Divide by the root mean square over trailing axes", "5",
                               Mpc_MapsRows> {
  let description = [{
    `x / sqrt(mean(x^2) + epsilon) * scale` over the axes from `axis` on
    (Zhang and Sennrich, arXiv 1910.07467).
    - (C1) `axis` is inside the rank.
    - (C2) scale broadcasts to the normalized extents.
    - (C3) all operands have the same element type.
  }];
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$scale, I64Attr:$axis, F64Attr:$epsilon);
  let assemblyFormat = [{
    $input `,` $scale `axis` `(` $axis `)` `epsilon` `(` $epsilon `)`
    attr-dict `:` functional-type(operands, results)
  }];
}

def Mpc_BatchNormOp : Mpc_Op<"batch_norm", "Elementwise", "4 * ::mpc::elementCount(getResult())",
                             [AllTypesMatch<["input", "result"]>, Mpc_Normalizes, Mpc_Composite]> {
  let summary = "Normalize each channel with given statistics";
  let description = [{
    `(x - mean) / sqrt(variance + epsilon) * scale + bias` per channel, axis 1
    (Ioffe and Szegedy, arXiv 1502.03167).
    - (C1) scale, bias, mean and variance are `[channels]`.
    - (C2) all operands have the same element type.
  }];
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$scale, Mpc_FloatTensor:$bias,
                       Mpc_FloatTensor:$mean, Mpc_FloatTensor:$variance, F64Attr:$epsilon);
  let results = (outs Mpc_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $scale `,` $bias `,` $mean `,` $variance `epsilon` `(` $epsilon `)`
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Mpc_GroupNormOp : Mpc_NormOp<"group_norm", "Normalise groups of channels per sample", "8",
                                 Mpc_Composite> {
  let description = [{
    Splits channels (axis 1) into `groups` equal groups, normalizes each over its
    channels and all spatial axes of one sample, then scales per channel (Wu and He,
    arXiv 1803.08494).
    - (C1) `groups` divides the channels.
    - (C2) scale and bias are `[channels]`.
    - (C3) all operands have the same element type.
  }];
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$scale, Mpc_FloatTensor:$bias,
                       I64Attr:$groups, F64Attr:$epsilon);
  let assemblyFormat = [{
    $input `,` $scale `,` $bias `groups` `(` $groups `)` `epsilon` `(` $epsilon `)`
    attr-dict `:` functional-type(operands, results)
  }];
}

def Mpc_InstanceNormOp : Mpc_NormOp<"instance_norm", "Normalise each channel of each sample", "8",
                                    Mpc_Composite> {
  let description = [{
    group_norm with one channel per group (Ulyanov et al., arXiv 1607.08022).
    - (C1) rank is at least 3.
    - (C2) scale and bias are `[channels]`.
    - (C3) all operands have the same element type.
  }];
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$scale, Mpc_FloatTensor:$bias,
                       F64Attr:$epsilon);
  let assemblyFormat = [{
    $input `,` $scale `,` $bias `epsilon` `(` $epsilon `)`
    attr-dict `:` functional-type(operands, results)
  }];
}

#endif // MPC_DIALECT_MPC_IR_MPCNORMALIZATIONOPS
