#ifndef MUSTER_COMMON_BASE_ROUND_UP_H_
#define MUSTER_COMMON_BASE_ROUND_UP_H_

#include <type_traits>

namespace muster {

// Returns the quotient of integers, rounded up. REQUIRES: a >= 0, b > 0.
template <typename T>
constexpr T CeilDivide(T a, std::type_identity_t<T> b) {
  return a / b + (a % b != 0);
}

// Returns the least multiple of `unit` that is not below `value`. REQUIRES: value >= 0, unit > 0;
// the result fits T.
template <typename T>
constexpr T RoundUp(T value, std::type_identity_t<T> unit) {
  return CeilDivide(value, unit) * unit;
}

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_ROUND_UP_H_
