// RUN: mpc-opt %s --verify-diagnostics --split-input-file

exe.program @program_c1 target("cpu:avx512") arena(0) {
  // expected-error @below {{'exe.argument' op has index 1 at position 0}}
  exe.argument @x : tensor<4xf32> input(1) name("x")
}

// -----

exe.program @program_c2 target("cpu:avx512") arena(64) {
  // expected-error @below {{'exe.launch' op uses arena[64 : 16] of an arena of 64 bytes aligned to 64}}
  exe.launch @k kind(elementwise) ops([]) flops(0) bytes(0) (write arena[64 : 16])
}

// -----

exe.program @program_c2_alignment target("cpu:avx512") arena(64) {
  // expected-error @below {{'exe.launch' op uses arena[8 : 16] of an arena of 64 bytes aligned to 64}}
  exe.launch @k kind(elementwise) ops([]) flops(0) bytes(0) (write arena[8 : 16])
}

// -----

exe.program @program_c3 target("cpu:avx512") arena(128) {
  exe.result @y : tensor<4xf32> output(0) name("y")
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (write arena[0 : 80])
  exe.launch @b kind(elementwise) ops([]) flops(0) bytes(0) (write arena[64 : 16])
  // expected-error @below {{'exe.launch' op reads arena[0 : 80], which has no value at that point}}
  exe.launch @c kind(elementwise) ops([]) flops(0) bytes(0) (read arena[0 : 80], write @y)
}

// -----

exe.program @program_c4 target("cpu:avx512") arena(0) {
  // expected-error @below {{'exe.result' op is written by no launch}}
  exe.result @y : tensor<4xf32> output(0) name("y")
}

// -----

exe.program @program_c4_twice target("cpu:avx512") arena(0) {
  exe.result @y : tensor<4xf32> output(0) name("y")
  // expected-note @below {{first written here}}
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (write @y)
  // expected-error @below {{'exe.launch' op writes result @y again}}
  exe.launch @b kind(elementwise) ops([]) flops(0) bytes(0) (write @y)
}

// -----

exe.program @reads_result_early target("cpu:avx512") arena(64) {
  exe.result @y : tensor<4xf32> output(0) name("y")
  // expected-error @below {{'exe.launch' op reads result @y before it is written}}
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (read @y, write arena[0 : 16])
  exe.launch @b kind(elementwise) ops([]) flops(0) bytes(0) (write @y)
}

// -----

exe.program @launch_c1 target("cpu:avx512") arena(64) {
  // expected-error @below {{'exe.launch' op uses buffer @x, which is not an argument, result or constant of the program}}
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (read @x, write arena[0 : 16])
}

// -----

exe.program @launch_c2 target("cpu:avx512") arena(0) {
  exe.argument @x : tensor<4xf32> input(0) name("x")
  // expected-error @below {{'exe.launch' op writes @x, which is not a result of the program}}
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (write @x)
}

// -----

exe.program @launch_c3 target("cpu:avx512") arena(256) {
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (write arena[0 : 128])
  // expected-error @below {{'exe.launch' op writes #exe.arena<64, 128>, which overlaps its input #exe.arena<0, 128>}}
  exe.launch @b kind(elementwise) ops([]) flops(0) bytes(0) (read arena[0 : 128], write arena[64 : 128])
}

// -----

func.func private @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
exe.program @launch_c4 target("cpu:avx512") arena(64) {
  exe.argument @x : tensor<8xf32> input(0) name("x")
  // expected-error @below {{'exe.launch' op input 0 has 32 bytes, the kernel's 'tensor<4xf32>' has 16}}
  exe.launch @k kind(elementwise) ops([]) flops(0) bytes(0) (read @x, write arena[0 : 16])
}

// -----

func.func private @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
exe.program @launch_c4_count target("cpu:avx512") arena(64) {
  // expected-error @below {{'exe.launch' op has 0 inputs, kernel @k has 1}}
  exe.launch @k kind(elementwise) ops([]) flops(0) bytes(0) (write arena[0 : 16])
}

// -----

exe.program @other_ops target("cpu:avx512") arena(0) {
  // expected-error @below {{'mpc.constant' op is not part of a program}}
  %0 = mpc.constant dense<1.0> : tensor<f32>
}

// -----

exe.program @unknown_kind target("cpu:avx512") arena(64) {
  // expected-error @below {{unknown kind of kernel 'magic'}}
  exe.launch @k kind(magic) ops([]) flops(0) bytes(0) (write arena[0 : 16])
}

// -----

exe.program @bad_buffer target("cpu:avx512") arena(64) {
  // expected-error @below {{expected 'write' or 'read' before a buffer}}
  exe.launch @k kind(row) ops([]) flops(0) bytes(0) (arena[0 : 16])
}

// -----

func.func private @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpc.reverse %x axes([0]) : tensor<4xf32>
  return %0 : tensor<4xf32>
}
exe.program @launch_c3_not_in_place target("cpu:avx512") arena(0) {
  exe.argument @w : tensor<4xf32> input(0) name("w")
  exe.result @w1 : tensor<4xf32> output(0) name("w") alias(@w)
  // expected-error @below {{'exe.launch' op writes @w1, which overlaps its input @w, but its kernel does not support that in place}}
  exe.launch @k kind(elementwise) ops([]) flops(0) bytes(0) (read @w, write @w1)
}

// -----

// In-place kernels have to be marked.
func.func private @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpc.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
exe.program @launch_c3_not_marked target("cpu:avx512") arena(64) {
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (write arena[0 : 16])
  // expected-error @below {{'exe.launch' op writes #exe.arena<0, 16>, which overlaps its input #exe.arena<0, 16>, but its kernel does not support that in place}}
  exe.launch @k kind(elementwise) ops([]) flops(0) bytes(0) (read arena[0 : 16], write arena[0 : 16])
}

// -----

exe.program @program_c5 target("cpu:avx512") arena(0) {
  // expected-error @below {{'exe.result' op has alias @x, which is not an argument}}
  exe.result @y : tensor<4xf32> output(0) name("y") alias(@x)
}

// -----

exe.program @program_c5_type target("cpu:avx512") arena(0) {
  exe.argument @x : tensor<4xi32> input(0) name("x")
  // expected-error @below {{'exe.result' op of type 'tensor<4xf32>' has alias @x of type 'tensor<4xi32>'}}
  exe.result @y : tensor<4xf32> output(0) name("y") alias(@x)
}

// -----

exe.program @program_c5_twice target("cpu:avx512") arena(0) {
  exe.argument @x : tensor<4xf32> input(0) name("x")
  // expected-note @below {{the other result}}
  exe.result @y : tensor<4xf32> output(0) name("y") alias(@x)
  // expected-error @below {{'exe.result' op has alias @x, as another has}}
  exe.result @z : tensor<4xf32> output(1) name("z") alias(@x)
}

// -----

exe.program @program_c6 target("cpu:avx512") arena(64) {
  exe.argument @w : tensor<4xf32> input(0) name("w")
  exe.result @w1 : tensor<4xf32> output(0) name("w") alias(@w)
  // expected-note @below {{written here}}
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (write @w1)
  // expected-error @below {{'exe.launch' op reads argument @w after result @w1 replaced it}}
  exe.launch @b kind(elementwise) ops([]) flops(0) bytes(0) (read @w, write arena[0 : 16])
}

// -----

exe.program @part_outside target("cpu:avx512") arena(0) {
  exe.argument @x : tensor<20xf32> input(0) name("x")
  exe.result @y : tensor<20xf32> output(0) name("y") alias(@x)
  // expected-error @below {{'exe.launch' op uses bytes [64 : 32] of @y, which has 80 bytes and parts aligned to 64}}
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (write @y[64 : 32])
}

// -----

exe.program @part_unaligned target("cpu:avx512") arena(0) {
  exe.argument @x : tensor<20xf32> input(0) name("x")
  exe.result @y : tensor<20xf32> output(0) name("y") alias(@x)
  // expected-error @below {{'exe.launch' op uses bytes [16 : 32] of @y}}
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (write @y[16 : 32])
}

// -----

exe.program @part_of_nothing target("cpu:avx512") arena(0) {
  exe.result @y : tensor<20xf32> output(0) name("y")
  // expected-error @below {{'exe.launch' op writes #exe.part<@y, 64, 16>, a part of a result that replaces nothing}}
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (write @y[64 : 16])
}

// -----

exe.program @part_twice target("cpu:avx512") arena(0) {
  exe.argument @x : tensor<40xf32> input(0) name("x")
  exe.result @y : tensor<40xf32> output(0) name("y") alias(@x)
  // expected-note @below {{first written here}}
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (write @y[64 : 96])
  exe.launch @b kind(elementwise) ops([]) flops(0) bytes(0) (write @y[0 : 64])
  // expected-error @below {{'exe.launch' op writes result #exe.part<@y, 128, 16> again}}
  exe.launch @c kind(elementwise) ops([]) flops(0) bytes(0) (write @y[128 : 16])
}

// -----

exe.program @part_read_of_replaced target("cpu:avx512") arena(64) {
  exe.argument @x : tensor<20xf32> input(0) name("x")
  exe.result @y : tensor<20xf32> output(0) name("y") alias(@x)
  // expected-note @below {{written here}}
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (write @y[64 : 16])
  // expected-error @below {{'exe.launch' op reads argument @x after result @y replaced it}}
  exe.launch @b kind(elementwise) ops([]) flops(0) bytes(0) (read @x, write arena[0 : 16])
}

// -----

exe.program @part_over_input target("cpu:avx512") arena(0) {
  exe.argument @x : tensor<20xf32> input(0) name("x")
  exe.result @y : tensor<20xf32> output(0) name("y") alias(@x)
  // expected-error @below {{'exe.launch' op writes #exe.part<@y, 64, 16>, which overlaps its input @x}}
  exe.launch @a kind(elementwise) ops([]) flops(0) bytes(0) (read @x, write @y[64 : 16])
}

// -----

// expected-error @below {{'exe.target' must be an #exe.target, found "cpu:avx512"}}
module attributes {exe.target = "cpu:avx512"} {}

// -----

// expected-error @below {{target 'cpu:sse2' is not one of cpu:avx2, cpu:avxvnni,}}
module attributes {exe.target = #exe.target<"cpu:sse2">} {}

// -----

// expected-error @below {{has 'exe.target', which belongs to a module}}
func.func private @f() attributes {exe.target = #exe.target<"cpu:avx512">}
