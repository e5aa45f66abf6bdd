// RUN: mpc-opt %s --mpc-schedule-kernels --verify-diagnostics

// expected-error @below {{kernels are generated for cuda:sm_75 and later, not for 'cuda:sm_70'}}
module attributes {exe.target = #exe.target<"cuda:sm_70">} {
}
