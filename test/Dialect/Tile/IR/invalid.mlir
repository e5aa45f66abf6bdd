// RUN: mpc-opt %s --verify-diagnostics --split-input-file

// expected-error @+1 {{the numbers of a thread mapping must be positive, found 0}}
func.func private @no_member() attributes {t = #tile.threads<members = 0>}

// -----

// expected-error @+1 {{a block has at most 1024 threads, found 512 x 4}}
func.func private @large_block() attributes {t = #tile.threads<members = 512, items = 4>}

// -----

// expected-error @+1 {{the threads per item must be a power of two or a multiple of a warp, found 24}}
func.func private @odd_team() attributes {t = #tile.threads<members = 24>}

// -----

// expected-error @+1 {{a mapping with every_block has at most 32 threads per item and one block, found 64 threads and 1 blocks}}
func.func private @large_team() attributes {t = #tile.threads<members = 64, every_block = true>}

// -----

// expected-error @+1 {{a mapping with every_block has at most 32 threads per item and one block, found 32 threads and 2 blocks}}
func.func private @shared_items() attributes {t = #tile.threads<members = 32, splits = 2, every_block = true>}

// -----

// expected-error @+1 {{the numbers of a blocking must be positive, found 0}}
func.func private @no_row() attributes {b = #tile.blocks<rows = 0, columns = 16>}

// -----

func.func @no_line() {
  // expected-error @+1 {{'tile.loop' op loops over a row of 4 by 8}}
  tile.loop (%c) from (0) to (4) by 8 {
  }
  return
}

// -----

func.func @backwards() {
  // expected-error @+1 {{'tile.loop' op loops from 8 to 4}}
  tile.loop (%c) from (8) to (4) by 1 {
  }
  return
}

// -----

func.func @other_type(%x: f32) {
  // expected-error @+1 {{'tile.loop' op yields types that differ from the carried types}}
  %r = tile.loop (%c) from (0) to (4) by 1 carry(%a = %x) : f32 {
    tile.yield %c : index
  }
  return
}

// -----

func.func @joins_wide(%x: vector<4xf32>, %z: f32) {
  // expected-error @+1 {{'tile.reduce' op needs a region that reduces two scalars of each value to one}}
  %r = tile.reduce any %x from(%z : f32) "x" : (vector<4xf32>) -> f32 {
  ^bb0(%a: vector<4xf32>, %b: vector<4xf32>):
    tile.yield %z : f32
  }
  return
}

// -----

func.func @joins_to_other(%x: vector<4xf32>, %z: f32) {
  // expected-error @+1 {{'tile.reduce' op reduces 'vector<4xf32>' to 'f64'}}
  %r = tile.reduce any %x from(%z : f32) "x" : (vector<4xf32>) -> f64 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %z : f32
  }
  return
}

// -----

func.func @unknown_join(%x: f32) {
  // expected-error @+1 {{unknown reduction 'product'; known are any, sum, largest, least}}
  %r = tile.reduce product %x from(%x : f32) "x" : (f32) -> f32 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a : f32
  }
  return
}

// -----

func.func @odd_total() {
  %s = tile.accumulators : <6 x f32>
  // expected-error @+1 {{'tile.total' op has accumulators of 6 and 6 columns, by 4}}
  tile.total %s by 4 : !tile.accumulators<6 x f32> {
  ^bb0(%c: index, %v: vector<4xf32>):
  }
  return
}

// -----

func.func @by_nothing() {
  // expected-error @+1 {{needs a vector width of at least 1, found 0}}
  tile.loop (%c) from (0) to (4) by 0 masked(%m) {
  }
  return
}

// -----

func.func @nested() {
  tile.loop (%c) from (0) to (4) by 1 {
    // expected-error @+1 {{'tile.loop' op must not be nested in another tile.loop}}
    tile.loop (%d) from (0) to (4) by 1 {
    }
  }
  return
}

// -----

func.func @joined_early(%x: f32) {
  tile.loop (%c) from (0) to (4) by 1 {
    // expected-error @+1 {{'tile.reduce' op must not be inside a tile.loop; it reduces the results of loops}}
    %r = tile.reduce any %x from(%x : f32) "x" : (f32) -> f32 {
    ^bb0(%a: f32, %b: f32):
      tile.yield %a : f32
    }
  }
  return
}

// -----

func.func @saved_nowhere(%x: f32, %i: index) {
  %kept = tile.buffer "x" : <[4] x f32>
  // expected-error @+1 {{'tile.write' op must be inside a tile.loop}}
  tile.write %x, %kept[%i] : f32, <[4] x f32>
  return
}

// -----

func.func @other_extents(%x: f32) {
  %kept = tile.buffer "x" : <[4, 2, 2] x f32>
  tile.loop (%c) from (0) to (4) by 1 {
    // expected-error @+1 {{'tile.write' op has 1 positions for a buffer of 3 extents}}
    tile.write %x, %kept[%c] : f32, <[4, 2, 2] x f32>
  }
  return
}

// -----

func.func @given_place(%kept: !tile.buffer<[4] x f32>) {
  tile.loop (%c) from (0) to (4) by 1 {
    // expected-error @+1 {{'tile.read' op needs a buffer defined by tile.buffer}}
    %v = tile.read %kept[%c] : <[4] x f32>, f32
  }
  return
}

// -----

func.func @given_sums(%sums: !tile.accumulators<4 x f32>, %x: f32) {
  tile.loop (%c) from (0) to (4) by 1 {
    // expected-error @+1 {{'tile.accumulate' op needs accumulators defined by tile.accumulators}}
    tile.accumulate %x, %sums[%c] : f32, <4 x f32>
  }
  return
}
