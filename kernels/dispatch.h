// From an Element at run time to a type at compile time, and pointers with it.
#pragma once
#include "kernels/element.h"

namespace orrery::kernels {

// Calls f.template operator()<T>().
template <class F>
auto with_element(Element e, F&& f) {
  if (e == Element::kBfloat16) return f.template operator()<Bfloat16>();
  if (e == Element::kFloat16) return f.template operator()<Float16>();
  return f.template operator()<float>();
}

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace orrery::kernels
