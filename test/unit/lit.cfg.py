# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# GoogleTest programs: every build/test/unit/*Tests.
import os

import lit.formats

config.name = "mpc-unit"
config.suffixes = []
config.test_source_root = os.path.join(config.mpc_build_dir, "test", "unit")
config.test_exec_root = config.test_source_root
config.test_format = lit.formats.GoogleTest(".", "Tests")
config.environment["MPC_SOURCE_DIR"] = config.mpc_source_dir
config.environment["MPC_BUILD_DIR"] = config.mpc_build_dir
config.environment["MPC_CACHE_DIR"] = os.path.join(config.mpc_build_dir, "test", "cache")
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
