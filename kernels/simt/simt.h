// Runs CUDA-style kernels on the CPU, one fiber per CUDA thread. With nvcc this header only adds
// simt::launch and a few macros; with a plain C++20 compiler it supplies the CUDA names a kernel
// uses. What it checks and what it leaves out: README.md beside this file.
//
// KERNEL_SIDE names the namespace that kernels live in (orrery::kernels::on_gpu or ::on_cpu): the
// same template is compiled by nvcc and by the C++ compiler into one program, so the two must not
// share a symbol. For the same reason everything here is in an inline namespace of its side.
#pragma once
// NOLINTBEGIN(bugprone-reserved-identifier,bugprone-macro-parentheses,readability-identifier-naming)
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#ifdef __CUDACC__
#include <cuda_runtime.h>
#define KERNEL_SIDE on_gpu
#else
#define KERNEL_SIDE on_cpu
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
#endif

namespace simt::inline KERNEL_SIDE {
struct Config {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  unsigned order_seed = 0;  // CPU only. 0: threads run in index order; else a shuffled order
  void* stream = nullptr;   // GPU only: a cudaStream_t
};
}  // namespace simt::inline KERNEL_SIDE

#ifdef __CUDACC__
#define SIMT_UNROLL _Pragma("unroll")
#define SIMT_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char simt_dynamic_memory[]; \
  T* name = reinterpret_cast<T*>(simt_dynamic_memory)
namespace simt::inline KERNEL_SIDE {
// Puts the kernel on the stream and returns at once: nullptr, or why it could not be launched.
template <class... P, class... A>
const char* launch(const Config& c, void (*kernel)(P...), A... args) {
  kernel<<<c.grid, c.block, c.shared_bytes, static_cast<cudaStream_t>(c.stream)>>>(
      static_cast<P>(args)...);
  const cudaError_t e = cudaGetLastError();
  return e == cudaSuccess ? nullptr : cudaGetErrorString(e);
}
}  // namespace simt::inline KERNEL_SIDE

#else  // ---------------------------------------------------------------- CPU
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/simt/fiber.h"
#include "runtime/base/rng.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static thread_local  // one block at a time per OS thread
#define SIMT_UNROLL
#define SIMT_DYNAMIC_SHARED(T, name) T* name = reinterpret_cast<T*>(simt::dynamic_shared())
inline constinit thread_local dim3 threadIdx{0, 0, 0}, blockIdx{0, 0, 0}, blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace simt::inline KERNEL_SIDE {
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {
enum class State : std::uint8_t { ready, barrier, warp, done };
struct Site {
  const char *what = "", *file = "";
  int line = 0;
  bool operator==(const Site&) const = default;  // equal literals of a kernel share an address
  std::string str() const { return std::string(what) + " at " + file + ":" + std::to_string(line); }
};
struct Thread : Fiber {
  dim3 tid;
  State state = State::ready;
  Site site;            // where it waits
  unsigned mask = 0;    // warp collective: participating lanes
  unsigned source = 0;  // warp collective: lane to read
  alignas(16) unsigned char value[16], result[16];
};
struct Block {                                   // the block being run by this OS thread
  std::vector<std::unique_ptr<Thread>> threads;  // kept from launch to launch
  std::vector<unsigned char> dynamic;
  unsigned count = 0, now = 0;
  Thread& at(unsigned i) { return *threads[i]; }
};
inline Block& block() {
  static thread_local Block b;
  return b;
}

inline std::string name(dim3 d) {
  return "(" + std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z) + ")";
}
[[noreturn]] inline void report_stuck() {
  Block& b = block();
  std::map<std::string, std::pair<unsigned, dim3>> groups;
  for (unsigned i = 0; i < b.count; ++i) {
    const Thread& f = b.at(i);
    std::string k = f.state == State::done ? "returned from the kernel" : "wait in " + f.site.str();
    if (f.state == State::warp) k += ", warp " + std::to_string(i / 32);
    auto [it, fresh] = groups.try_emplace(k, 0u, f.tid);
    ++it->second.first;
  }
  std::string text =
      "simt: deadlock in block " + name(blockIdx) + " of " + std::to_string(b.count) + " threads:";
  for (auto& [what, g] : groups)
    text += "\n  " + std::to_string(g.first) + " thread(s) " + what + ", first " + name(g.second);
  throw Error(text);
}

// Called when no thread can run: opens the block barrier or reports what is wrong.
inline void open_barrier() {
  Block& b = block();
  for (unsigned i = 0; i < b.count; ++i)
    if (b.at(i).state != State::barrier || b.at(i).site != b.at(0).site) report_stuck();
  for (unsigned i = 0; i < b.count; ++i) b.at(i).state = State::ready;
}

inline void run_block(const Config& c, void (*body)(void*), void* arg) {
  Block& b = block();
  b.count = c.block.x * c.block.y * c.block.z;
  b.dynamic.assign(c.shared_bytes + 16, 0xff);  // every float starts as NaN
  while (b.threads.size() < b.count) b.threads.push_back(std::make_unique<Thread>());
  std::vector<unsigned> order(b.count);
  for (unsigned i = 0; i < b.count; ++i) {
    order[i] = i;
    b.at(i).start(body, arg);
    b.at(i).state = State::ready;
    b.at(i).tid = {i % c.block.x, i / c.block.x % c.block.y, i / c.block.x / c.block.y};
  }
  if (c.order_seed != 0) {
    orrery::RandomStream random(c.order_seed);
    for (unsigned i = b.count; i > 1; --i) std::swap(order[i - 1], order[random.next_below(i)]);
  }
  for (unsigned live = b.count; live != 0;) {
    bool progress = false;
    for (unsigned i : order) {
      Thread& t = b.at(i);
      if (t.state != State::ready) continue;
      progress = true;
      b.now = i;
      threadIdx = t.tid;
      t.resume();
      if (t.finished()) t.state = State::done, --live;
    }
    if (!progress) open_barrier();
  }
}

// Waits until every lane named in `mask` has come to the same call, then hands
// each lane the value of its source lane.
inline void warp_exchange(unsigned mask, unsigned source, const void* in, void* out,
                          std::size_t size, Site site) {
  Block& b = block();
  Thread& me = b.at(b.now);
  const unsigned first = b.now / 32 * 32, lanes = std::min(32u, b.count - first);
  if (lanes < 32) mask &= (1u << lanes) - 1;  // the last warp may be short
  if (!(mask >> (b.now % 32) & 1)) throw Error("simt: lane not in its own mask, " + site.str());
  if (size != 0 && !(mask >> source & 1))
    throw Error("simt: reads lane " + std::to_string(source) + " outside mask, " + site.str());
  std::memcpy(me.value, in, size);
  me.site = site, me.mask = mask, me.source = source, me.state = State::warp;
  for (unsigned l = 0; l < lanes; ++l) {
    const Thread& t = b.at(first + l);
    if ((mask >> l & 1) && (t.state != State::warp || t.mask != mask || t.site != site)) {
      Fiber::yield();  // someone is still missing; the last one serves all
      std::memcpy(out, me.result, size);
      return;
    }
  }
  for (unsigned l = 0; l < lanes; ++l) {
    Thread& t = b.at(first + l);
    if (!(mask >> l & 1)) continue;
    std::memcpy(t.result, b.at(first + t.source).value, size);
    t.state = State::ready;
  }
  std::memcpy(out, me.result, size);
}
inline unsigned lane() { return block().now % 32; }
template <class T>
T shuffle(unsigned mask, T v, unsigned source, Site site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
  T r;
  warp_exchange(mask, source & 31, &v, &r, sizeof(T), site);
  return r;
}
}  // namespace detail

inline void* dynamic_shared() {
  void* p = detail::block().dynamic.data();
  std::size_t space = detail::block().dynamic.size();
  return std::align(16, space - 15, p, space);
}
// Runs a kernel to its end, block after block, and returns nullptr. Throws Error on misuse.
template <class... P, class... A>
const char* launch(const Config& c, void (*kernel)(P...), A... args) {
  auto call = [&] { kernel(static_cast<P>(args)...); };
  auto body = [](void* p) { (*static_cast<decltype(call)*>(p))(); };
  blockDim = c.block, gridDim = c.grid;
  for (blockIdx.z = 0; blockIdx.z < c.grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < c.grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < c.grid.x; ++blockIdx.x) detail::run_block(c, body, &call);
  return nullptr;
}
}  // namespace simt::inline KERNEL_SIDE

// The call site of each collective comes from these default arguments.
#define SIMT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
inline void __syncthreads(SIMT_SITE) {
  simt::detail::Thread& t = simt::detail::block().at(simt::detail::block().now);
  t.site = {"__syncthreads", file, line}, t.state = simt::detail::State::barrier;
  simt::Fiber::yield();
}
inline void __syncwarp(unsigned mask = 0xffffffffu, SIMT_SITE) {
  char none = 0;
  simt::detail::warp_exchange(mask, 0, &none, &none, 0, {"__syncwarp", file, line});
}
template <class T>
T __shfl_sync(unsigned mask, T v, int source, SIMT_SITE) {
  return simt::detail::shuffle(mask, v, static_cast<unsigned>(source), {"__shfl_sync", file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int lane_mask, SIMT_SITE) {
  return simt::detail::shuffle(mask, v, simt::detail::lane() ^ static_cast<unsigned>(lane_mask),
                               {"__shfl_xor_sync", file, line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned delta, SIMT_SITE) {
  const unsigned me = simt::detail::lane(), from = me + delta;
  return simt::detail::shuffle(mask, v, from > 31 ? me : from, {"__shfl_down_sync", file, line});
}
template <class T>
T atomicAdd(T* p, std::type_identity_t<T> v) {
  return std::atomic_ref<T>(*p).fetch_add(v, std::memory_order_relaxed);
}
#endif
// NOLINTEND(bugprone-reserved-identifier,bugprone-macro-parentheses,readability-identifier-naming)
