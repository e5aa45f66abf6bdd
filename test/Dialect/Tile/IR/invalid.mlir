// RUN: mpc-opt %s --verify-diagnostics --split-input-file

// expected-error @+1 {{a team's numbers are positive, found 0}}
func.func private @no_member() attributes {t = #tile.threads<members = 0>}

// -----

// expected-error @+1 {{a block has at most 1024 threads, found 512 x 4}}
func.func private @large_block() attributes {t = #tile.threads<members = 512, items = 4>}

// -----

// expected-error @+1 {{a team's members are a power of two or whole warps, found 24}}
func.func private @odd_team() attributes {t = #tile.threads<members = 24>}

// -----

// expected-error @+1 {{teams of every block have at most 32 members and one block, found 64 members and 1 blocks}}
func.func private @large_team() attributes {t = #tile.threads<members = 64, every_block = true>}

// -----

// expected-error @+1 {{teams of every block have at most 32 members and one block, found 32 members and 2 blocks}}
func.func private @shared_items() attributes {t = #tile.threads<members = 32, splits = 2, every_block = true>}

// -----

// expected-error @+1 {{a cut's numbers are positive, found 0}}
func.func private @no_row() attributes {b = #tile.blocks<rows = 0, columns = 16>}

// -----

func.func @no_line() {
  // expected-error @+1 {{'tile.loop' op walks a line of 4 by 8}}
  tile.loop (%c) from (0) to (4) by 8 {
  }
  return
}

// -----

func.func @backwards() {
  // expected-error @+1 {{'tile.loop' op walks from 8 to 4}}
  tile.loop (%c) from (8) to (4) by 1 {
  }
  return
}

// -----

func.func @other_type(%x: f32) {
  // expected-error @+1 {{'tile.loop' op yields other types than it carries}}
  %r = tile.loop (%c) from (0) to (4) by 1 carry(%a = %x) : f32 {
    tile.yield %c : index
  }
  return
}

// -----

func.func @joins_wide(%x: vector<4xf32>, %z: f32) {
  // expected-error @+1 {{'tile.reduce' op needs a region from two scalars of each value to one, and to be from one}}
  %r = tile.reduce any %x from(%z : f32) "x" : (vector<4xf32>) -> f32 {
  ^bb0(%a: vector<4xf32>, %b: vector<4xf32>):
    tile.yield %z : f32
  }
  return
}

// -----

func.func @joins_to_other(%x: vector<4xf32>, %z: f32) {
  // expected-error @+1 {{'tile.reduce' op joins 'vector<4xf32>' to 'f64'}}
  %r = tile.reduce any %x from(%z : f32) "x" : (vector<4xf32>) -> f64 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %z : f32
  }
  return
}

// -----

func.func @unknown_join(%x: f32) {
  // expected-error @+1 {{unknown way to join 'product'; known are any, sum, largest, least}}
  %r = tile.reduce product %x from(%x : f32) "x" : (f32) -> f32 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a : f32
  }
  return
}

// -----

func.func @odd_total() {
  %s = tile.accumulators : <6 x f32>
  // expected-error @+1 {{'tile.total' op has sums of 6 and 6 columns, by 4}}
  tile.total %s by 4 : !tile.accumulators<6 x f32> {
  ^bb0(%c: index, %v: vector<4xf32>):
  }
  return
}

// -----

func.func @by_nothing() {
  // expected-error @+1 {{walks by vectors of at least one position, found 0}}
  tile.loop (%c) from (0) to (4) by 0 masked(%m) {
  }
  return
}

// -----

func.func @nested() {
  tile.loop (%c) from (0) to (4) by 1 {
    // expected-error @+1 {{'tile.loop' op stands inside of another walk}}
    tile.loop (%d) from (0) to (4) by 1 {
    }
  }
  return
}

// -----

func.func @joined_early(%x: f32) {
  tile.loop (%c) from (0) to (4) by 1 {
    // expected-error @+1 {{'tile.reduce' op stands inside of a walk; it joins what walks end with}}
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
  // expected-error @+1 {{'tile.write' op stands in no tile.loop, and so at no position}}
  tile.write %x, %kept[%i] : f32, <[4] x f32>
  return
}

// -----

func.func @other_extents(%x: f32) {
  %kept = tile.buffer "x" : <[4, 2, 2] x f32>
  tile.loop (%c) from (0) to (4) by 1 {
    // expected-error @+1 {{'tile.write' op has 1 positions in a place of 3 extents}}
    tile.write %x, %kept[%c] : f32, <[4, 2, 2] x f32>
  }
  return
}

// -----

func.func @given_place(%kept: !tile.buffer<[4] x f32>) {
  tile.loop (%c) from (0) to (4) by 1 {
    // expected-error @+1 {{'tile.read' op needs a place that a tile.buffer makes}}
    %v = tile.read %kept[%c] : <[4] x f32>, f32
  }
  return
}

// -----

func.func @given_sums(%sums: !tile.accumulators<4 x f32>, %x: f32) {
  tile.loop (%c) from (0) to (4) by 1 {
    // expected-error @+1 {{'tile.accumulate' op needs sums that a tile.accumulators makes}}
    tile.accumulate %x, %sums[%c] : f32, <4 x f32>
  }
  return
}
