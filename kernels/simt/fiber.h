// A function with its own stack that can be left and taken up again: what one CUDA thread becomes
// on the CPU. Own context switch on x86-64, ucontext elsewhere (or with SIMT_UCONTEXT).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>
#if !defined(__x86_64__) && !defined(SIMT_UCONTEXT)
#define SIMT_UCONTEXT 1
#endif
#ifdef SIMT_UCONTEXT
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#endif
#ifdef SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace simt {

class Fiber {
 public:
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes the next resume() call body(arg) on this fiber's stack. A fiber that
  // was left half-way is given up without running destructors.
  void start(void (*body)(void*), void* arg) {
    body_ = body, arg_ = arg, finished_ = false;
#ifdef SIMT_ASAN  // a fiber given up half-way leaves marks on its stack
    __asan_unpoison_memory_region(stack_.get(), kStackBytes);
#endif
    std::memset(stack_.get() + kSpareBytes, kStripByte, kStripBytes);
#ifdef SIMT_UCONTEXT
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
#else
    auto end = (reinterpret_cast<std::uintptr_t>(stack_.get()) + kStackBytes) & ~std::uintptr_t{15};
    auto* slots = reinterpret_cast<std::uintptr_t*>(end);
    std::fill(slots - 8, slots, std::uintptr_t{0});        // six registers, two more words
    slots[-2] = reinterpret_cast<std::uintptr_t>(&entry);  // where the first `ret` goes
    context_ = slots - 8;
#endif
  }

  // Runs until the fiber yields or ends. Passes on what its body threw.
  void resume() {
    Fiber* outer = std::exchange(current(), this);
    switch_to(caller_, context_, stack_.get(), kStackBytes, false);
    current() = outer;
    const unsigned char* strip = stack_.get() + kSpareBytes;
    if (std::count(strip, strip + kStripBytes, kStripByte) != kStripBytes)
      throw std::runtime_error("fiber stack overflow");
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  static void yield() {  // back to the resume() that runs this fiber
    Fiber& f = *current();
    switch_to(f.context_, f.caller_, f.caller_stack_, f.caller_size_, false);
  }
  static Fiber*& current() {
    static constinit thread_local Fiber* f = nullptr;
    return f;
  }
  bool finished() const { return finished_; }

 private:
  static constexpr std::size_t kStackBytes = 96 * 1024;
  static constexpr std::size_t kSpareBytes = 32 * 1024;      // low part that must stay unused
  static constexpr int kStripBytes = 64, kStripByte = 0x5a;  // known bytes just above it

#ifdef SIMT_UCONTEXT
  using Context = ucontext_t;
  static void raw_switch(Context& from, Context& to) { swapcontext(&from, &to); }
#else
  using Context = void*;  // the saved stack pointer
  // Saves the registers a callee must keep on this stack and takes up the other one.
  __attribute__((naked, noinline)) static void raw_switch(Context&, Context&) {
    asm volatile(
        "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        "movq %rsp, (%rdi)\n movq (%rsi), %rsp\n"
        "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
  }
#endif
  static void switch_to(Context& from, Context& to, [[maybe_unused]] const void* stack,
                        [[maybe_unused]] std::size_t size, [[maybe_unused]] bool last) {
#ifdef SIMT_ASAN
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(last ? nullptr : &fake, stack, size);
    raw_switch(from, to);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    raw_switch(from, to);
#endif
  }
  static void entry() {
    Fiber& f = *current();
#ifdef SIMT_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &f.caller_stack_, &f.caller_size_);
#endif
    try {
      f.body_(f.arg_);
    } catch (...) {
      f.error_ = std::current_exception();
    }
    f.finished_ = true;
    switch_to(f.context_, f.caller_, f.caller_stack_, f.caller_size_, true);
    std::terminate();  // a finished fiber is never resumed
  }

  Context context_{}, caller_{};
  std::unique_ptr<unsigned char[]> stack_{new unsigned char[kStackBytes]};
  void (*body_)(void*) = nullptr;
  void* arg_ = nullptr;
  std::exception_ptr error_;
  const void* caller_stack_ = nullptr;  // for the address sanitizer
  std::size_t caller_size_ = 0;
  bool finished_ = true;
};

}  // namespace simt
