// The kernel runner itself: wrong kernels must be reported, right ones must run.
#include "kernels/simt/simt.h"

#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

void barrier_in_branch(int* p) {
  if (threadIdx.x < 40) __syncthreads();
  p[threadIdx.x] = 1;
}
void two_barriers(int* p) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  p[threadIdx.x] = 1;
}
void half_warp_shuffle(int* p) {
  int v = 1;
  if (threadIdx.x < 16) v = __shfl_xor_sync(0xffffffffu, v, 1);
  p[threadIdx.x] = v;
}
void lane_not_in_mask(int* p) {
  if (threadIdx.x < 16) p[threadIdx.x] = __shfl_down_sync(0xffffu, 1, 8);
}
void forgotten_barrier(int* p) {  // no deadlock: shows as a result that depends on the order
  __shared__ int s[64];
  s[threadIdx.x] = static_cast<int>(threadIdx.x) + static_cast<int>(blockIdx.x) * 100;
  p[threadIdx.x] = s[63 - threadIdx.x];
}
void throws(int*) { throw std::runtime_error("from a kernel"); }
[[maybe_unused]] void deep_stack(int* p) {
  volatile unsigned char big[80 * 1024];
  for (std::size_t i = 0; i < sizeof(big); i += 16) big[i] = 0x11;
  p[threadIdx.x] = big[0];
}
void sum_all(const int* x, int* total, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  int v = i < n ? x[i] : 0;
  for (int step = 16; step > 0; step /= 2)
    v += __shfl_down_sync(0xffffffffu, v, static_cast<unsigned>(step));
  __syncwarp();
  if (threadIdx.x % 32 == 0) atomicAdd(total, v);
}
void read_dynamic(int* p) {
  SIMT_DYNAMIC_SHARED(float, memory);
  p[threadIdx.x] = memory[threadIdx.x] != memory[threadIdx.x];
}

std::string message_of(void (*kernel)(int*)) {
  std::vector<int> p(64);
  try {
    simt::launch({dim3{1, 1, 1}, dim3{64, 1, 1}}, kernel, p.data());
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}
bool reports(void (*kernel)(int*), const std::string& part) {
  const std::string text = message_of(kernel);
  return text.find(part) != std::string::npos || (ADD_FAILURE() << text, false);
}

TEST(Simt, a_barrier_that_not_all_threads_reach_is_reported) {
  EXPECT_TRUE(reports(barrier_in_branch, "24 thread(s) returned"));
  EXPECT_TRUE(reports(two_barriers, "32 thread(s) wait in __syncthreads"));
}
TEST(Simt, a_shuffle_without_its_lanes_is_reported) {
  EXPECT_TRUE(reports(half_warp_shuffle, "16 thread(s) wait in __shfl_xor_sync"));
  EXPECT_TRUE(reports(lane_not_in_mask, "reads lane 16 outside"));
}
TEST(Simt, an_exception_leaves_the_kernel) { EXPECT_TRUE(reports(throws, "from a kernel")); }
TEST(Simt, stack_overflow_is_reported) {
#ifdef SIMT_ASAN
  GTEST_SKIP() << "AddressSanitizer stops the overflow itself";
#endif
  EXPECT_TRUE(reports(deep_stack, "stack overflow"));
}
TEST(Simt, two_thread_orders_expose_a_forgotten_barrier) {
  std::vector<int> a(64), b(64);
  const auto run = [](unsigned seed, std::vector<int>& p) {
    simt::launch({dim3{2, 1, 1}, dim3{64, 1, 1}, 0, seed}, forgotten_barrier, p.data());
  };
  run(1, a), run(2, b);
  EXPECT_NE(a, b);
}
TEST(Simt, atomics_after_shuffles_sum_everything) {
  std::vector<int> x(1000);
  std::iota(x.begin(), x.end(), 1);
  for (const unsigned seed : {0u, 1u, 2u}) {
    int total = 0;
    simt::launch({dim3{8, 1, 1}, dim3{128, 1, 1}, 0, seed}, sum_all, x.data(), &total, 1000);
    EXPECT_EQ(total, 500500);
  }
}
TEST(Simt, dynamic_shared_memory_starts_as_nan_in_every_block) {
  std::vector<int> p(64);
  simt::launch({dim3{3, 1, 1}, dim3{64, 1, 1}, 64 * sizeof(float)}, read_dynamic, p.data());
  EXPECT_EQ(p, std::vector<int>(64, 1));
}

}  // namespace
