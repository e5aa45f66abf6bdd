// RUN: mpc-opt %s --mpc-schedule-kernels=target=sm_70 --verify-diagnostics

// expected-error @below {{kernels are generated for sm_75 and later, not for 'sm_70'}}
module {
}
