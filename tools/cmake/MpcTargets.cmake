# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The three kinds of targets of this tree. Compiler libraries use LLVM and MLIR
# and are built without exceptions, as those are; runtime libraries use neither;
# tools may throw (CLI11 does).

separate_arguments(MPC_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
set(MPC_COMPILER MLIR LLVM)
if(MPC_RUNTIME_ONLY)
  set(MPC_COMPILER "")
elseif(MPC_STATIC_LLVM)
  set(MPC_COMPILER MpcStaticLlvm)
endif()
# Before 1.0 every minor version may change the ABI.
set(MPC_SOVERSION ${PROJECT_VERSION_MAJOR})
if(MPC_SOVERSION EQUAL 0)
  set(MPC_SOVERSION 0.${PROJECT_VERSION_MINOR})
endif()
# Mangled names in namespace mpc: functions, and the tables of its classes.
set(MPC_CXX_SYMBOLS _ZN3mpc* _ZNK3mpc* _ZTIN3mpc* _ZTSN3mpc* _ZTVN3mpc*)
set(MPC_WARNINGS -Wall -Wextra -Wno-unused-parameter -Werror=deprecated-declarations
                 -Werror=return-type -Werror=unused-result)

# Functions that Debian's static libraries use and older C libraries lack.
if(MPC_PORTABLE OR MPC_STATIC_LLVM)
  add_library(MpcPortable STATIC ${PROJECT_SOURCE_DIR}/tools/cmake/portable.cpp)
endif()

# mpc_settings(<target>): language settings that every target shares.
function(mpc_settings target)
  if(TARGET MpcPortable)
    target_link_libraries(${target} PRIVATE MpcPortable)
  endif()
  target_compile_options(${target} PRIVATE ${MPC_WARNINGS} -fno-semantic-interposition
                         -fvisibility-inlines-hidden -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Without a fixed time stamp ccache never hits on a precompiled header.
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# mpc_llvm_settings(<target>): settings for targets that include LLVM headers.
function(mpc_llvm_settings target)
  mpc_settings(${target})
  target_compile_definitions(${target} PRIVATE ${MPC_LLVM_DEFINITIONS})
  target_include_directories(${target} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
endfunction()

# mpc_reuse(<target> <carrier>): compiles the target with the precompiled header
# of a carrier (tools/cmake/CMakeLists.txt), if this build has it.
function(mpc_reuse target carrier)
  if(TARGET ${carrier})
    target_precompile_headers(${target} REUSE_FROM ${carrier})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      # Executables default to -fPIE, with which the header was not compiled.
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${target} PRIVATE -fPIC)
    endif()
  endif()
endfunction()

# mpc_library(<name> <sources...> [DEPENDS ...] [LINK ...]): a compiler library.
function(mpc_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  if(NOT ARG_UNPARSED_ARGUMENTS)
    add_library(${name} INTERFACE)
    return()
  endif()
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  mpc_llvm_settings(${name})
  target_compile_options(${name} PRIVATE -fno-exceptions -funwind-tables)
  target_link_libraries(${name} PUBLIC ${ARG_LINK} ${MPC_COMPILER})
  add_dependencies(${name} MpcTableGen ${ARG_DEPENDS})
  mpc_reuse(${name} MpcCompilerPch)
  set_property(GLOBAL APPEND PROPERTY MPC_COMPILER_LIBS ${name})
endfunction()

# mpc_runtime_library(<name> <sources...> [LINK ...]): a library without LLVM
# and MLIR.
function(mpc_runtime_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  if(NOT ARG_UNPARSED_ARGUMENTS)
    add_library(${name} INTERFACE)
    return()
  endif()
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  mpc_settings(${name})
  target_compile_options(${name} PRIVATE -fno-exceptions -funwind-tables)
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()

# mpc_shared_library(<target> <name> <file> <symbols...>): a library of the installed
# package, mpc::<name> in CMake and lib<file>.so, that exports the symbols of these
# patterns only: templates of the C++ library would be exported too.
function(mpc_shared_library target name file)
  list(JOIN ARGN "; " symbols)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${file}.map)
  file(CONFIGURE OUTPUT ${script} CONTENT "{ global: ${symbols}; local: *; };\n")
  target_link_options(${target} PRIVATE "LINKER:--version-script=${script}")
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} OUTPUT_NAME ${file}
                        VERSION ${PROJECT_VERSION} SOVERSION ${MPC_SOVERSION}
                        LINK_DEPENDS ${script} INSTALL_RPATH "$ORIGIN")
  install(TARGETS ${target} EXPORT mpcTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
endfunction()

# mpc_tool(<name> <sources...> [LINK ...]): a program in build/bin.
function(mpc_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  if(NOT ARG_UNPARSED_ARGUMENTS)
    return()
  endif()
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  mpc_llvm_settings(${name})
  target_compile_definitions(${name} PRIVATE MPC_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${name} PRIVATE ${ARG_LINK} ${MPC_COMPILER})
  add_dependencies(${name} MpcTableGen)
  mpc_reuse(${name} MpcToolPch)
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endfunction()

# mpc_unit_test(<name> <sources...> [LINK ...]): a GoogleTest program that lit
# collects (its name must end in Tests).
function(mpc_unit_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  if(NOT ARG_UNPARSED_ARGUMENTS)
    return()
  endif()
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  mpc_llvm_settings(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} ${MPC_COMPILER} GTest::gtest_main)
  mpc_reuse(${name} MpcTestPch)
  if(NOT MPC_RUNTIME_ONLY)
    add_dependencies(${name} MpcTableGen)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test/unit
                        UNITY_BUILD OFF)
  set_property(GLOBAL APPEND PROPERTY MPC_TEST_DEPENDS ${name})
endfunction()
