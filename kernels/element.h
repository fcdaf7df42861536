// Element types of activations, weights and the KV cache, and how they become float and back.
// One struct a type on both sides (nvcc and C++ compiler), so bytes and symbol names agree; on the
// GPU the conversions are the hardware's. Law: conversion to float is exact; conversion from float
// rounds to nearest, ties to even, and gives the same bits on both sides (NaN becomes 0x7fff).
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define KERNEL_INLINE __host__ __device__ __forceinline__
#else
#define KERNEL_INLINE inline
#endif

namespace orrery::kernels {

enum class Element : std::uint8_t { kFloat32, kBfloat16, kFloat16 };

struct Bfloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

constexpr std::size_t element_bytes(Element e) { return e == Element::kFloat32 ? 4 : 2; }

template <class T>
inline constexpr Element kElementOf = Element::kFloat32;
template <>
inline constexpr Element kElementOf<Bfloat16> = Element::kBfloat16;
template <>
inline constexpr Element kElementOf<Float16> = Element::kFloat16;

KERNEL_INLINE float to_float(float x) { return x; }
KERNEL_INLINE float to_float(Bfloat16 x) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
#else
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
#endif
}
KERNEL_INLINE float to_float(Float16 x) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(x.bits));
#else
  const std::uint32_t h = x.bits;
  const std::uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31u, m = h & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: a whole number of 2^-24
    const float tiny = static_cast<float>(m) * 0x1.0p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(tiny) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
  return std::bit_cast<float>(sign | wide << 23 | m << 13);
#endif
}

// from_float<T>(x)
template <class T>
KERNEL_INLINE T from_float(float x) {
  return x;
}
template <>
KERNEL_INLINE Bfloat16 from_float<Bfloat16>(float x) {
#ifdef __CUDA_ARCH__
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
  const auto u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
#endif
}
template <>
KERNEL_INLINE Float16 from_float<Float16>(float x) {
#ifdef __CUDA_ARCH__
  return {__half_as_ushort(__float2half_rn(x))};
#else
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, u = bits & 0x7fffffffu;
  if (u > 0x7f800000u) return {0x7fff};
  if (u >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // 65520 and up
  if (u < 0x38800000u) {  // below 2^-14: adding 0.5 rounds to a whole number of 2^-24
    const float shifted = std::bit_cast<float>(u) + 0.5f;
    return {
        static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
  }
  const std::uint32_t rounded = u + 0xfffu + ((u >> 13) & 1u) - 0x38000000u;
  return {static_cast<std::uint16_t>(sign | rounded >> 13)};
#endif
}

// What one thread loads or stores at once: 16 bytes.
template <class T>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / sizeof(T);
  T v[kSize];
};
// p must be 16-byte aligned.
template <class T>
KERNEL_INLINE Pack<T> load_pack(const T* p) {
  Pack<T> out;
#ifdef __CUDA_ARCH__
  const uint4 raw = *reinterpret_cast<const uint4*>(p);
  memcpy(&out, &raw, sizeof raw);
#else
  std::memcpy(&out, p, sizeof out);
#endif
  return out;
}
template <class T>
KERNEL_INLINE void store_pack(T* p, const Pack<T>& pack) {
#ifdef __CUDA_ARCH__
  uint4 raw;
  memcpy(&raw, &pack, sizeof raw);
  *reinterpret_cast<uint4*>(p) = raw;
#else
  std::memcpy(p, &pack, sizeof pack);
#endif
}
// True when p and every row that starts a multiple of `stride` elements after it may be read in
// packs.
template <class T>
bool packable(const T* p, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0 && stride % Pack<T>::kSize == 0;
}

// Reads up to one pack of which `left` elements exist; the others read as zero. One pack or single
// elements: the values are the same, so is everything computed from them.
template <class T>
KERNEL_INLINE Pack<T> load_some(const T* p, int left, bool packs) {
  if (packs && left >= Pack<T>::kSize) return load_pack(p);
  Pack<T> out{};
  for (int i = 0; i < Pack<T>::kSize; ++i)
    if (i < left) out.v[i] = p[i];
  return out;
}
template <class T>
KERNEL_INLINE void store_some(T* p, const Pack<T>& pack, int left, bool packs) {
  if (packs && left >= Pack<T>::kSize) return store_pack(p, pack);
  for (int i = 0; i < Pack<T>::kSize; ++i)
    if (i < left) p[i] = pack.v[i];
}

}  // namespace orrery::kernels
