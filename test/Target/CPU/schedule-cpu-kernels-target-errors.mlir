// RUN: mpc-opt %s --mpc-schedule-cpu-kernels --verify-diagnostics

// expected-error @below {{CPU schedules need a CPU target, not 'cuda:sm_80'}}
module attributes {exe.target = #exe.target<"cuda:sm_80">} {
}
