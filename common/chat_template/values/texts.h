#ifndef MUSTER_COMMON_CHAT_TEMPLATE_VALUES_TEXTS_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_VALUES_TEXTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/values/budget.h"
#include "common/chat_template/values/python_text.h"
#include "common/chat_template/values/value.h"

namespace muster {

// Filters and methods share these.

// Removes whitespace, or the characters of a string, at the ends.
absl::StatusOr<Value> StripText(absl::string_view text, const Value* characters, Side side,
                                Budget& budget);

// Replaces by the arguments old, new and count.
absl::StatusOr<Value> ReplaceText(absl::string_view text, const std::vector<const Value*>& bound,
                                  Budget& budget);

// Joins what Str returns of each item; with `only_texts`, fails for other items than strings.
absl::StatusOr<Value> JoinTexts(const Value& items, absl::string_view separator, bool only_texts,
                                Budget& budget);

absl::StatusOr<Value> ListOfTexts(std::vector<std::string> texts);

// Returns (key, value) tuples. REQUIRES: the value is a dictionary.
absl::StatusOr<Value> ItemsOf(const Value& value, Sequence::Form form);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_VALUES_TEXTS_H_
