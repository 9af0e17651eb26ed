#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/chat_template/values/operators.h"

namespace muster {
namespace {

absl::Status NotDefinedFor(absl::string_view sign, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (const auto* undefined = value->As<Undefined>()) return UndefinedError(*undefined);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("`", sign, "` takes no ", KindOf(a).substr(KindOf(a).find(' ') + 1), " and ",
                   KindOf(b), "; turn one into the other's kind, as with the filter string"));
}

absl::Status ZeroDivision() {
  return absl::InvalidArgumentError("division by zero; ask for the divisor first");
}

absl::Status TooLarge() {
  return absl::InvalidArgumentError(
      "the number gets too large: integers are of 64 bits; use smaller ones, or a float");
}

absl::StatusOr<Value> IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return ZeroDivision();
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base >= -1 && base <= 1) {
    return Value(base == -1 && exponent % 2 == 0 ? int64_t{1} : exponent == 0 ? int64_t{1} : base);
  }
  int64_t power = 1;
  // Any other base overflows within 63 rounds.
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(power, base, &power)) return TooLarge();
  }
  return Value(power);
}

absl::StatusOr<Value> IntegerArithmetic(absl::string_view sign, int64_t a, int64_t b) {
  int64_t result = 0;
  if (sign == "+")
    return __builtin_add_overflow(a, b, &result) ? TooLarge()
                                                 : absl::StatusOr<Value>(Value(result));
  if (sign == "-")
    return __builtin_sub_overflow(a, b, &result) ? TooLarge()
                                                 : absl::StatusOr<Value>(Value(result));
  if (sign == "*")
    return __builtin_mul_overflow(a, b, &result) ? TooLarge()
                                                 : absl::StatusOr<Value>(Value(result));
  if (sign == "**") return IntegerPower(a, b);
  if (b == 0) return ZeroDivision();
  if (sign == "/") return Value(static_cast<double>(static_cast<long double>(a) / b));
  if (b == -1) {
    if (sign == "%") return Value(int64_t{0});
    return __builtin_sub_overflow(int64_t{0}, a, &result) ? TooLarge()
                                                          : absl::StatusOr<Value>(Value(result));
  }
  // Python rounds down, C++ towards zero.
  const bool adjust = a % b != 0 && (a % b < 0) != (b < 0);
  return Value(sign == "%" ? a % b + (adjust ? b : 0) : a / b - (adjust ? 1 : 0));
}

// Python's float_divmod.
std::pair<double, double> DivideDown(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), rest};
  double down = std::floor(quotient);
  if (quotient - down > 0.5) down += 1;
  return {down, rest};
}

absl::StatusOr<Value> FloatArithmetic(absl::string_view sign, double a, double b) {
  if (sign == "+") return Value(a + b);
  if (sign == "-") return Value(a - b);
  if (sign == "*") return Value(a * b);
  if (sign == "**") {
    if (a == 0 && b < 0) return ZeroDivision();
    const double power = std::pow(a, b);
    if (std::isfinite(a) && std::isfinite(b) && !std::isfinite(power)) return TooLarge();
    return Value(power);
  }
  if (b == 0) return ZeroDivision();
  if (sign == "/") return Value(a / b);
  const auto [quotient, rest] = DivideDown(a, b);
  return Value(sign == "%" ? rest : quotient);
}

absl::StatusOr<Value> Repeat(const Value& value, int64_t times, Budget& budget) {
  times = std::max<int64_t>(times, 0);
  const size_t size = value.weight();
  if (static_cast<size_t>(times) > budget.limits().max_output_bytes / size) {
    return budget.CheckText(budget.limits().max_output_bytes + 1);
  }
  MUSTER_RETURN_IF_ERROR(budget.Spend(static_cast<size_t>(times) * size));
  if (value.text() != nullptr) {
    std::string repeated;
    for (; times > 0; --times) repeated += *value.text();
    return Value(std::move(repeated));
  }
  std::vector<Value> repeated;
  const std::vector<Value>& items = value.sequence()->items;
  for (; times > 0 && !items.empty(); --times) {
    repeated.insert(repeated.end(), items.begin(), items.end());
  }
  return Value::Of(std::move(repeated), value.sequence()->form);
}

bool IsListOrTuple(const Value& value) {
  return value.sequence() != nullptr && (value.sequence()->form == Sequence::Form::kList ||
                                         value.sequence()->form == Sequence::Form::kTuple);
}

}  // namespace

absl::StatusOr<Value> Arithmetic(absl::string_view sign, const Value& a, const Value& b,
                                 Budget& budget) {
  if (IsNumber(a) && IsNumber(b)) {
    const auto x = AsInteger(a);
    const auto y = AsInteger(b);
    if (x && y) return IntegerArithmetic(sign, *x, *y);
    return FloatArithmetic(sign, static_cast<double>(AsNumber(a)),
                           static_cast<double>(AsNumber(b)));
  }
  if (sign == "+" && a.text() != nullptr && b.text() != nullptr) {
    MUSTER_RETURN_IF_ERROR(budget.SpendText(a.text()->size() + b.text()->size()));
    return Value(absl::StrCat(*a.text(), *b.text()));
  }
  if (sign == "+" && IsListOrTuple(a) && IsListOrTuple(b) &&
      a.sequence()->form == b.sequence()->form) {
    MUSTER_RETURN_IF_ERROR(budget.Spend(a.weight() + b.weight()));
    std::vector<Value> items = a.sequence()->items;
    items.insert(items.end(), b.sequence()->items.begin(), b.sequence()->items.end());
    return Value::Of(std::move(items), a.sequence()->form);
  }
  const auto repeats = [](const Value& value) {
    return value.text() != nullptr || IsListOrTuple(value);
  };
  if (sign == "*" && repeats(a) && AsInteger(b)) return Repeat(a, *AsInteger(b), budget);
  if (sign == "*" && repeats(b) && AsInteger(a)) return Repeat(b, *AsInteger(a), budget);
  return NotDefinedFor(sign, a, b);
}

absl::StatusOr<Value> Signed(absl::string_view sign, const Value& value) {
  if (const auto* undefined = value.As<Undefined>()) return UndefinedError(*undefined);
  if (const double* number = value.As<double>()) return Value(sign == "-" ? -*number : *number);
  const auto integer = AsInteger(value);
  if (!integer) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", sign, "` takes no ", KindOf(value), "; use a number"));
  }
  return IntegerArithmetic(sign, 0, *integer);
}

}  // namespace muster
