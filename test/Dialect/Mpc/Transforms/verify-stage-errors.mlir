// RUN: mpc-opt %s --mpc-verify-stage=stage=simplify --verify-diagnostics --split-input-file
// RUN: not mpc-opt %s --mpc-verify-stage=stage=late --split-input-file 2>&1 | FileCheck %s

// CHECK: unknown stage 'late'; use import, lift, simplify, differentiate, precision, distribute, loss-scale, pad, layout or fuse

// expected-error @below {{arguments 0 and 1 have the same name "x"; rename one of them}}
func.func @one_name(%x: tensor<4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                    %y: tensor<4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}) {
  return
}

// -----

// expected-error @below {{results 0 and 1 have the same name "y"; rename one of them}}
func.func @one_result_name(%x: tensor<4xf32> {mpc.role = #mpc.role<input>, mpc.name = "y"})
    -> (tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"},
        tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @below {{argument 0 has the name "x\0Ay", which contains control or invisible characters, or bytes that are not UTF-8; rename it}}
func.func @two_lines(%x: tensor<4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x\0Ay"}) {
  return
}

// -----

// Backwards from here on.
// expected-error @below {{argument 0 has the name "x\E2\80\AEy", which contains control or invisible characters}}
func.func @backwards(%x: tensor<4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x\E2\80\AEy"}) {
  return
}

// -----

// expected-error @below {{argument 0 has the name "x\FF", which contains control or invisible characters}}
func.func @bytes(%x: tensor<4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x\FF"}) {
  return
}

// -----

func.func @visible(%x: tensor<4xf32> {mpc.role = #mpc.role<input>, mpc.name = "Gr\C3\B6\C3\9Fe '\22</>"}) {
  return
}

// -----

// expected-error @below {{argument 0 lacks 'mpc.role'}}
func.func @no_role(%x: tensor<4xf32>) {
  return
}

// -----

func.func private @other_dialect() {
  // expected-error @below {{is neither an mpc op nor func.return}}
  %0 = arith.constant 0 : index
  return
}

// -----

func.func private @early_decision(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{must not have a decision before the precision stage}}
  %0 = mpc.relu %x {mpc.decision = #mpc.decision<rule = "clear", list = "float32">} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @early_fusion(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{must not occur before the fuse stage}}
  %0 = mpc.fusion kind(elementwise) name("relu") (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = mpc.relu %a : tensor<4xf32>
    mpc.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{has more than one block}}
func.func private @two_blocks() {
  "cf.br"()[^bb1] : () -> ()
^bb1:
  return
}
