#ifndef MUSTER_COMMON_CHAT_TEMPLATE_VALUES_OPERATORS_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_VALUES_OPERATORS_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/values/budget.h"
#include "common/chat_template/values/value.h"

namespace muster {

// Python's operators on values. Integers are int64_t; a result that is none is an error.

// `sign` is one of + - * / // % **.
absl::StatusOr<Value> Arithmetic(absl::string_view sign, const Value& a, const Value& b,
                                 Budget& budget);

// `sign` is + or -.
absl::StatusOr<Value> Signed(absl::string_view sign, const Value& value);

// `sign` is one of == != < <= > >= in, "not in".
absl::StatusOr<bool> Compare(absl::string_view sign, const Value& a, const Value& b,
                             Budget& budget);

// Returns value[index]. What is not there is undefined.
absl::StatusOr<Value> Item(const Value& value, const Value& index, Budget& budget);

// Returns value.name.
absl::StatusOr<Value> AttributeOf(const Value& value, absl::string_view name, Budget& budget);

// Returns value[start:stop:step]; None is what is left out.
absl::StatusOr<Value> Slice(const Value& value, const Value& start, const Value& stop,
                            const Value& step, Budget& budget);

// Returns what a for loop goes through: items, characters, keys.
absl::StatusOr<std::vector<Value>> Iterate(const Value& value, Budget& budget);

// Returns Python's len().
absl::StatusOr<int64_t> Length(const Value& value, Budget& budget);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_VALUES_OPERATORS_H_
