#include "common/kernels/device/simt/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Switching stacks by hand, for the sake of speed: swapcontext asks the kernel for the signal mask
// each time. On other machines swapcontext it is. Sanitizers are told, or they would take one
// stack's frames for another's.
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define MUSTER_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MUSTER_FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define MUSTER_FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MUSTER_FIBER_TSAN 1
#endif
#endif

#if defined(MUSTER_FIBER_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(MUSTER_FIBER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace muster {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;

#if defined(__x86_64__)
// Keeps what a function must preserve on the present stack, notes its top in *from, and takes up
// the stack `to`.
extern "C" void muster_switch_stack(void** from, void* to);
asm(R"(
.pushsection .text
.globl muster_switch_stack
.hidden muster_switch_stack
.type muster_switch_stack, @function
muster_switch_stack:
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
.size muster_switch_stack, . - muster_switch_stack
.popsection
)");
#endif

}  // namespace

struct Fiber::Context {
  void (*body)(void*);
  void* argument;
  char* stack = nullptr;
#if defined(__x86_64__)
  void* inside = nullptr;
  void* outside = nullptr;
#else
  ucontext_t inside;
  ucontext_t outside;
#endif
#if defined(MUSTER_FIBER_ASAN)
  void* inside_fake_stack = nullptr;
  void* outside_fake_stack = nullptr;
  const void* outside_bottom = nullptr;
  size_t outside_size = 0;
#endif
#if defined(MUSTER_FIBER_TSAN)
  void* inside_tsan = nullptr;
  void* outside_tsan = nullptr;
#endif

  void Switch(bool in) {
#if defined(__x86_64__)
    if (in) {
      muster_switch_stack(&outside, inside);
    } else {
      muster_switch_stack(&inside, outside);
    }
#else
    if (in) {
      swapcontext(&outside, &inside);
    } else {
      swapcontext(&inside, &outside);
    }
#endif
  }

  void Arrived() {
#if defined(MUSTER_FIBER_ASAN)
    __sanitizer_finish_switch_fiber(inside_fake_stack, &outside_bottom, &outside_size);
#endif
  }
};

namespace {

// The fiber that Enter is starting: a new stack has no arguments.
thread_local void* entering = nullptr;

}  // namespace

Fiber::Fiber(void (*body)(void*), void* argument) : context_(std::make_unique<Context>()) {
  Context& c = *context_;
  c.body = body;
  c.argument = argument;
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) {
    std::perror("mmap of a fiber's stack");
    std::abort();
  }
  c.stack = static_cast<char*>(stack);
  void (*const start)() = [] {
    Context* self = static_cast<Context*>(entering);
    self->Arrived();
    self->body(self->argument);
    std::abort();
  };
#if defined(__x86_64__)
  // As if `start` had been called: six registers, the address to return to, and above it a word
  // that stands for the caller's address: a call leaves the stack 8 bytes off 16.
  void** top = reinterpret_cast<void**>(c.stack + kStackBytes) - 1;
  top[0] = nullptr;
  *--top = reinterpret_cast<void*>(start);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  c.inside = top;
#else
  getcontext(&c.inside);
  c.inside.uc_stack.ss_sp = c.stack;
  c.inside.uc_stack.ss_size = kStackBytes;
  c.inside.uc_link = nullptr;
  makecontext(&c.inside, start, 0);
#endif
#if defined(MUSTER_FIBER_TSAN)
  c.inside_tsan = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(MUSTER_FIBER_TSAN)
  __tsan_destroy_fiber(context_->inside_tsan);
#endif
  munmap(context_->stack, kStackBytes);
}

void Fiber::Enter() {
  Context& c = *context_;
  entering = &c;
#if defined(MUSTER_FIBER_ASAN)
  __sanitizer_start_switch_fiber(&c.outside_fake_stack, c.stack, kStackBytes);
#endif
#if defined(MUSTER_FIBER_TSAN)
  c.outside_tsan = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(c.inside_tsan, 0);
#endif
  c.Switch(true);
#if defined(MUSTER_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(c.outside_fake_stack, nullptr, nullptr);
#endif
}

void Fiber::Leave() {
  Context& c = *context_;
#if defined(MUSTER_FIBER_ASAN)
  __sanitizer_start_switch_fiber(&c.inside_fake_stack, c.outside_bottom, c.outside_size);
#endif
#if defined(MUSTER_FIBER_TSAN)
  __tsan_switch_to_fiber(c.outside_tsan, 0);
#endif
  c.Switch(false);
  c.Arrived();
}

}  // namespace muster
