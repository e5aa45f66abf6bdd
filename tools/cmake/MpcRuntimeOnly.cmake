# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The build under MPC_RUNTIME_ONLY: the runtime, the mpc that runs .mpcx files and
# their tests. Needs no LLVM package and builds with any C++20 compiler.

option(MPC_PYTHON "The Python package that loads .mpcx files, with the runtime and nothing else" OFF)
if(MPC_PYTHON)
  find_package(PkgConfig REQUIRED)
  find_package(Threads REQUIRED)
  include(tools/cmake/MpcTargets.cmake)
  include_directories(include)
  add_subdirectory(lib/Runtime)
  add_subdirectory(lib/Bindings)
  return()
endif()

option(MPC_PORTABLE "Programs that need nothing but the C library of another machine" OFF)
if(NOT MPC_PORTABLE)
  find_package(GTest REQUIRED)
endif()
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
include(tools/cmake/MpcTargets.cmake)
if(MPC_PORTABLE)
  # Link the C++ library statically, but the unwinder dynamically: Debian's static one requires
  # a newer C library than many machines have.
  add_link_options(-static-libstdc++ LINKER:--as-needed)
endif()
include_directories(include)
add_subdirectory(lib/Runtime)
add_subdirectory(lib/Bindings)
add_subdirectory(lib/Support)
# Kernels on the host, for tests.
add_subdirectory(lib/Target/CUDA)
add_subdirectory(tools/mpc)
add_subdirectory(tools/gpu/answers)
if(MPC_PORTABLE)
  # GPU-to-host comparison, whose header the host tests share.
  add_subdirectory(tools/gpu/prelude-check)
  add_subdirectory(tools/gpu/product-check)
  return()
endif()
add_subdirectory(test/unit/Runtime)
enable_testing()
add_test(NAME MpcRuntimeTests COMMAND MpcRuntimeTests)
include(tools/cmake/MpcPackage.cmake)
