//===- Fiber.cpp - user-level context switches ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On x86-64 a switch saves the callee-saved registers and takes a few
// nanoseconds; other architectures use ucontext, whose switches are system
// calls.
//
//===----------------------------------------------------------------------===//

#include "Fiber.h"

#include <cassert>
#include <cstdint>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MPC_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define MPC_ASAN 1
#endif
#ifdef MPC_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__) && !defined(MPC_UCONTEXT_FIBERS)
#define MPC_OWN_SWITCH 1
#endif

using namespace mpc::host;

//===----------------------------------------------------------------------===//
// Stacks
//===----------------------------------------------------------------------===//

static size_t guardBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

StackPool::StackPool(int count) {
  bytes = (kStackBytes + guardBytes()) * count;
  void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    return;
  memory = static_cast<char *>(mapped);
  for (int i = 0; i < count; ++i)
    mprotect(stack(i) - guardBytes(), guardBytes(), PROT_NONE);
}

StackPool::~StackPool() {
  if (!memory)
    return;
#ifdef MPC_ASAN
  // Frames of dropped fibers would remain poisoned for the next mapping.
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
#endif
  munmap(memory, bytes);
}

char *StackPool::stack(int index) const {
  return memory + (kStackBytes + guardBytes()) * index + guardBytes();
}

bool StackPool::contains(const void *address) const {
  return address >= memory && address < memory + bytes;
}

//===----------------------------------------------------------------------===//
// Switching
//===----------------------------------------------------------------------===//

struct Fiber::Context {
  void (*entry)(void *) = nullptr;
  void *argument = nullptr;
#if defined(MPC_OWN_SWITCH)
  void *fiber = nullptr, *resumer = nullptr;
#else
  ucontext_t fiber, resumer;
#endif
#ifdef MPC_ASAN
  char *stack = nullptr;
  size_t bytes = 0;
  const void *resumerStack = nullptr;
  size_t resumerBytes = 0;
  void *fiberFrames = nullptr, *resumerFrames = nullptr;
#endif

  void switchToFiber();
  void switchToResumer();
  static void begin(Context *context);
  static void beginHalves(unsigned high, unsigned low);
};

#if defined(MPC_OWN_SWITCH)
// rdi: address to save this stack pointer at, rsi: stack pointer to load.
asm(R"(
.text
.p2align 4
.type mpcSwitchFiber, @function
mpcSwitchFiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size mpcSwitchFiber, .-mpcSwitchFiber
.p2align 4
.type mpcFiberBegin, @function
mpcFiberBegin:
  movq %rbx, %rdi
  call *%r12
  ud2
.size mpcFiberBegin, .-mpcFiberBegin
)");
extern "C" void mpcSwitchFiber(void **save, void *load);
extern "C" void mpcFiberBegin();

void Fiber::Context::switchToFiber() { mpcSwitchFiber(&resumer, fiber); }
void Fiber::Context::switchToResumer() { mpcSwitchFiber(&fiber, resumer); }
#else
void Fiber::Context::switchToFiber() { swapcontext(&resumer, &fiber); }
void Fiber::Context::switchToResumer() { swapcontext(&fiber, &resumer); }
#endif

void Fiber::Context::begin(Context *context) {
#ifdef MPC_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &context->resumerStack,
                                  &context->resumerBytes);
#endif
  context->entry(context->argument);
  assert(false && "a fiber's function returned");
}

#if !defined(MPC_OWN_SWITCH)
/// makecontext passes only int arguments.
void Fiber::Context::beginHalves(unsigned high, unsigned low) {
  begin(reinterpret_cast<Context *>(static_cast<uint64_t>(high) << 32 | low));
}
#endif

Fiber::Fiber() : context(std::make_unique<Context>()) {}
Fiber::~Fiber() = default;
Fiber::Fiber(Fiber &&) noexcept = default;

void Fiber::start(char *stack, size_t bytes, void (*entry)(void *),
                  void *argument) {
  context->entry = entry;
  context->argument = argument;
#ifdef MPC_ASAN
  ASAN_UNPOISON_MEMORY_REGION(stack, bytes);
  context->stack = stack;
  context->bytes = bytes;
  context->fiberFrames = nullptr;
#endif
#if defined(MPC_OWN_SWITCH)
  auto top = reinterpret_cast<uintptr_t>(stack + bytes) & ~uintptr_t(15);
  auto *slot = reinterpret_cast<void **>(top);
  // Initial stack: end marker for backtraces, return address, and the six
  // registers that the switch pops (r15 first).
  *--slot = nullptr;
  *--slot = nullptr;
  *--slot = reinterpret_cast<void *>(&mpcFiberBegin);
  *--slot = nullptr;                                   // rbp
  *--slot = context.get();                             // rbx
  *--slot = reinterpret_cast<void *>(&Context::begin); // r12
  *--slot = nullptr;                                   // r13
  *--slot = nullptr;                                   // r14
  *--slot = nullptr;                                   // r15
  context->fiber = slot;
#else
  getcontext(&context->fiber);
  context->fiber.uc_stack.ss_sp = stack;
  context->fiber.uc_stack.ss_size = bytes;
  context->fiber.uc_link = nullptr;
  auto address = reinterpret_cast<uint64_t>(context.get());
  makecontext(
      &context->fiber, reinterpret_cast<void (*)()>(&Context::beginHalves), 2,
      static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
#endif
}

void Fiber::resume() {
#ifdef MPC_ASAN
  __sanitizer_start_switch_fiber(&context->resumerFrames, context->stack,
                                 context->bytes);
#endif
  context->switchToFiber();
#ifdef MPC_ASAN
  __sanitizer_finish_switch_fiber(context->resumerFrames, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#ifdef MPC_ASAN
  __sanitizer_start_switch_fiber(&context->fiberFrames, context->resumerStack,
                                 context->resumerBytes);
#endif
  context->switchToResumer();
#ifdef MPC_ASAN
  __sanitizer_finish_switch_fiber(context->fiberFrames, &context->resumerStack,
                                  &context->resumerBytes);
#endif
}
