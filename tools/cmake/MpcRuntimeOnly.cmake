# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The build under MPC_RUNTIME_ONLY: the runtime, the mpc that runs .mpcx files and
# their tests. Looks for no package of LLVM and builds with any C++20 compiler.

find_package(GTest REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
include(tools/cmake/MpcTargets.cmake)
include_directories(include)
add_subdirectory(lib/Runtime)
add_subdirectory(lib/Support)
# Kernels on the host, for tests.
add_subdirectory(lib/Target/CUDA)
add_subdirectory(tools/mpc)
add_subdirectory(test/unit/Runtime)
enable_testing()
add_test(NAME MpcRuntimeTests COMMAND MpcRuntimeTests)
