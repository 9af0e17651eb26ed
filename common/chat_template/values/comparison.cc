#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/chat_template/values/operators.h"
#include "common/chat_template/values/python_text.h"

namespace muster {
namespace {

// Returns -1, 0 or 1, and 2 where nothing is in order with NaN; nothing if the two have no order.
// REQUIRES: the weights are spent.
std::optional<int> Order(const Value& a, const Value& b) {
  if (IsNumber(a) && IsNumber(b)) {
    const long double x = AsNumber(a);
    const long double y = AsNumber(b);
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
  }
  if (a.text() != nullptr && b.text() != nullptr) {
    // The order of UTF-8's bytes is that of code points.
    const int order = a.text()->compare(*b.text());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  const Sequence* x = a.sequence();
  const Sequence* y = b.sequence();
  if (x == nullptr || y == nullptr || x->form != y->form ||
      (x->form != Sequence::Form::kList && x->form != Sequence::Form::kTuple)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
    if (!Equal(x->items[i], y->items[i])) return Order(x->items[i], y->items[i]);
  }
  return x->items.size() < y->items.size() ? -1 : x->items.size() > y->items.size() ? 1 : 0;
}

// Returns whether Python could have the value as a key: no list, no dictionary, no tuple that holds
// one.
bool IsHashable(const Value& value) {
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr) return value.dictionary() == nullptr;
  return sequence->form == Sequence::Form::kTuple &&
         std::all_of(sequence->items.begin(), sequence->items.end(), IsHashable);
}

absl::StatusOr<bool> Contains(const Value& container, const Value& value, Budget& budget) {
  if (const std::string* text = container.text()) {
    if (value.text() == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("`in` a string asks for a string, not for ",
                                                     KindOf(value), "; use the filter string"));
    }
    return FindText(*text, *value.text()) != absl::string_view::npos;
  }
  if (container.dictionary() != nullptr) {
    if (!IsHashable(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(KindOf(value), " is no key of a dictionary; ask for a string"));
    }
    return container.dictionary()->Find(value) != nullptr;
  }
  if (container.Is<Undefined>()) return false;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(container, budget));
  return std::any_of(items.begin(), items.end(),
                     [&value](const Value& item) { return Equal(item, value); });
}

}  // namespace

absl::StatusOr<bool> Compare(absl::string_view sign, const Value& a, const Value& b,
                             Budget& budget) {
  MUSTER_RETURN_IF_ERROR(budget.Spend(a.weight()));
  MUSTER_RETURN_IF_ERROR(budget.Spend(b.weight()));
  if (sign == "==") return Equal(a, b);
  if (sign == "!=") return !Equal(a, b);
  if (sign == "in") return Contains(b, a, budget);
  if (sign == "not in") {
    MUSTER_ASSIGN_OR_RETURN(const bool contains, Contains(b, a, budget));
    return !contains;
  }
  const std::optional<int> order = Order(a, b);
  if (!order) {
    for (const Value* value : {&a, &b}) {
      if (const auto* undefined = value->As<Undefined>()) return UndefinedError(*undefined);
    }
    return absl::InvalidArgumentError(absl::StrCat("`", sign, "` has no order of ", KindOf(a),
                                                   " and ", KindOf(b),
                                                   "; compare values of one kind"));
  }
  if (sign == "<") return *order == -1;
  if (sign == "<=") return *order == -1 || *order == 0;
  if (sign == ">") return *order == 1;
  return *order == 1 || *order == 0;
}

}  // namespace muster
