// RUN: mpc-opt %s --mpc-schedule-cpu-kernels --verify-diagnostics

// expected-error @below {{kernels are scheduled for a level of CPU, not for 'cuda:sm_80'}}
module attributes {exe.target = #exe.target<"cuda:sm_80">} {
}
