# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What is installed besides targets and headers: find_package(mpc), pkg-config, the
# licence; and Debian packages of the components (cpack). Included last, by both builds.
#
# Components: `runtime` has the shared libraries, `dev` what programs are built with,
# `tools` the programs. The Python package's component is installed only by name.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mpc)
install(EXPORT mpcTargets NAMESPACE mpc:: DESTINATION ${package_dir} COMPONENT dev)
file(WRITE ${PROJECT_BINARY_DIR}/package/mpcConfig.cmake [[
include(${CMAKE_CURRENT_LIST_DIR}/mpcTargets.cmake)
foreach(component IN LISTS mpc_FIND_COMPONENTS)
  if(TARGET mpc::${component})
    set(mpc_${component}_FOUND TRUE)
  elseif(mpc_FIND_REQUIRED_${component})
    set(mpc_FOUND FALSE)
    set(mpc_NOT_FOUND_MESSAGE "this build of mpc has no component '${component}'")
  endif()
endforeach()
]])
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/mpcConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/mpcConfig.cmake
              ${PROJECT_BINARY_DIR}/package/mpcConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT dev)

file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" up ${up})
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/package/mpc.pc @ONLY CONTENT
"prefix=\${pcfiledir}/@up@
includedir=\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
libdir=\${prefix}/@CMAKE_INSTALL_LIBDIR@

Name: mpc
Description: Mixed-precision compiler for ONNX, StableHLO, PyTorch and JAX models (C API)
Version: @PROJECT_VERSION@
Cflags: -I\${includedir}
Libs: -L\${libdir} -lmpc_c
")
install(FILES ${PROJECT_BINARY_DIR}/package/mpc.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT dev)
foreach(component runtime dev tools)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright COMPONENT ${component}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/mpc-compiler-${component})
endforeach()

# Package what is built instead of building the tests.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME mpc-compiler)
set(CPACK_PACKAGE_VENDOR "mpc")
set(CPACK_PACKAGE_CONTACT "the authors of mpc")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "mixed-precision compiler for ONNX, StableHLO, PyTorch and JAX models")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime dev tools)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Shared libraries of mpc.")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers, CMake package and pkg-config file of mpc.")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "Programs of mpc.")
foreach(component RUNTIME DEV TOOLS)
  string(TOLOWER ${component} name)
  set(CPACK_DEBIAN_${component}_PACKAGE_NAME mpc-compiler-${name})
  set(CPACK_DEBIAN_${component}_PACKAGE_SECTION libs)
  if(NOT component STREQUAL RUNTIME)
    set(CPACK_DEBIAN_${component}_PACKAGE_DEPENDS "mpc-compiler-runtime (= ${PROJECT_VERSION})")
  endif()
endforeach()
# Debian's package mpc, a music player's client, has a program of this name.
set(CPACK_DEBIAN_TOOLS_PACKAGE_CONFLICTS mpc)
include(CPack)
