# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The build under MPC_STATIC_LLVM: Debian's static archives instead of its shared libraries,
# so that the package depends on the C library, its unwinder and the few libraries that exist
# only shared, and requires no C library as new as Debian's.

# All archives as one linker script, of which the linker extracts the members that are used. libgcc.a
# comes before libgcc_s, whose conversions of float16 are as new as GCC 12.
file(GLOB archives ${LLVM_LIBRARY_DIRS}/libMLIR*.a ${LLVM_LIBRARY_DIRS}/libLLVM*.a)
find_package(ZLIB REQUIRED)
find_library(MPC_ZSTD zstd REQUIRED)
list(JOIN archives " " archives)
file(CONFIGURE OUTPUT llvm-archives.ld CONTENT "INPUT(@archives@ @ZLIB_LIBRARIES@ @MPC_ZSTD@ -lgcc)\n" @ONLY)
add_library(MpcStaticLlvm INTERFACE)
target_link_libraries(MpcStaticLlvm INTERFACE ${CMAKE_BINARY_DIR}/llvm-archives.ld)

add_link_options(-fuse-ld=lld -static-libstdc++ LINKER:--gc-sections LINKER:--exclude-libs,ALL LINKER:--as-needed)
