// RUN: mpc-opt %s --mpc-hoist-index-checks | FileCheck %s

// The check, its load and its comparison leave the loop over a row's elements,
// not the loop over rows, which may be empty.
// CHECK-LABEL: @rows(
// CHECK: scf.for
// CHECK: memref.load
// CHECK: arith.cmpi
// CHECK: scf.if
// CHECK: memref.atomic_rmw maxu
// CHECK: scf.for
// CHECK-NOT: atomic_rmw
// CHECK: vector.store
func.func @rows(%table: memref<300x128xf32>, %ids: memref<40xi64>, %checks: memref<1xi64>,
                %out: memref<40x128xf32>, %first: index, %end: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c128 = arith.constant 128 : index
  %extent = arith.constant 300 : i64
  scf.for %row = %first to %end step %c1 {
    scf.for %j = %c0 to %c128 step %c16 {
      %id = memref.load %ids[%row] : memref<40xi64>
      %outside = arith.cmpi uge, %id, %extent : i64
      scf.if %outside {
        %old = memref.atomic_rmw maxu %id, %checks[%c0] : (i64, memref<1xi64>) -> i64
      }
      %i = arith.index_cast %id : i64 to index
      %v = vector.load %table[%i, %j] : memref<300x128xf32>, vector<16xf32>
      vector.store %v, %out[%row, %j] : memref<40x128xf32>, vector<16xf32>
    }
  }
  return
}

// Indices that the kernel writes, an index per element, and a check under a
// condition stay.
// CHECK-LABEL: @kept(
// CHECK-COUNT-3: scf.for
// CHECK-COUNT-3: memref.atomic_rmw maxu
func.func @kept(%ids: memref<128xi64>, %written: memref<128xi64>, %checks: memref<1xi64>, %on: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %extent = arith.constant 300 : i64
  scf.for %k = %c0 to %c128 step %c1 {
    scf.for %l = %c0 to %c128 step %c1 {
      scf.for %j = %c0 to %c128 step %c1 {
        %a = memref.load %written[%c0] : memref<128xi64>
        %x = arith.cmpi uge, %a, %extent : i64
        scf.if %x {
          %old = memref.atomic_rmw maxu %a, %checks[%c0] : (i64, memref<1xi64>) -> i64
        }
        memref.store %a, %written[%j] : memref<128xi64>
        %b = memref.load %ids[%j] : memref<128xi64>
        %y = arith.cmpi uge, %b, %extent : i64
        scf.if %y {
          %old = memref.atomic_rmw maxu %b, %checks[%c0] : (i64, memref<1xi64>) -> i64
        }
        scf.if %on {
          %c = memref.load %ids[%c0] : memref<128xi64>
          %z = arith.cmpi uge, %c, %extent : i64
          scf.if %z {
            %old = memref.atomic_rmw maxu %c, %checks[%c0] : (i64, memref<1xi64>) -> i64
          }
        }
      }
    }
  }
  return
}
