#include "common/chat_template/values/texts.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/chat_template/values/arguments.h"
#include "common/chat_template/values/operators.h"
#include "common/chat_template/values/python_repr.h"

namespace muster {

absl::StatusOr<Value> StripText(absl::string_view text, const Value* characters, Side side,
                                Budget& budget) {
  if (characters == nullptr || characters->Is<None>()) {
    MUSTER_RETURN_IF_ERROR(budget.Spend(text.size()));
    return Value(std::string(Strip(text, side)));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string set, TextOr(characters, "", "chars"));
  // Each character may be looked for in all of the set.
  MUSTER_RETURN_IF_ERROR(budget.Spend(text.size() * (1 + set.size() / 16)));
  return Value(std::string(Strip(text, set, side)));
}

absl::StatusOr<Value> ReplaceText(absl::string_view text, const std::vector<const Value*>& bound,
                                  Budget& budget) {
  if (bound[0] == nullptr || bound[1] == nullptr) {
    return absl::InvalidArgumentError("replace takes what to replace and by what; give it both");
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string from, TextOr(bound[0], "", "old"));
  MUSTER_ASSIGN_OR_RETURN(const std::string to, TextOr(bound[1], "", "new"));
  const bool all = bound[2] == nullptr || bound[2]->Is<None>();
  MUSTER_ASSIGN_OR_RETURN(const int64_t most, IntegerOr(all ? nullptr : bound[2], -1, "count"));
  const size_t places = from.empty() ? text.size() + 1 : CountOccurrences(text, from);
  MUSTER_RETURN_IF_ERROR(budget.SpendText(text.size() + places * to.size()));
  return Value(Replace(text, from, to, most));
}

absl::StatusOr<Value> JoinTexts(const Value& items, absl::string_view separator, bool only_texts,
                                Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Value> each, Iterate(items, budget));
  std::string joined;
  for (const Value& item : each) {
    if (only_texts && item.text() == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("join() joins strings, not ", KindOf(item), "; use the filter join"));
    }
    if (&item != &each.front()) absl::StrAppend(&joined, separator);
    MUSTER_ASSIGN_OR_RETURN(const std::string text, Str(item, budget));
    absl::StrAppend(&joined, text);
    MUSTER_RETURN_IF_ERROR(budget.CheckText(joined.size()));
    MUSTER_RETURN_IF_ERROR(budget.Spend(separator.size()));
  }
  return Value(std::move(joined));
}

absl::StatusOr<Value> ListOfTexts(std::vector<std::string> texts) {
  std::vector<Value> items;
  items.reserve(texts.size());
  for (std::string& text : texts) items.emplace_back(std::move(text));
  return Value::Of(std::move(items));
}

absl::StatusOr<Value> ItemsOf(const Value& value, Sequence::Form form) {
  std::vector<Value> items;
  for (const auto& [key, item] : value.dictionary()->items) {
    MUSTER_ASSIGN_OR_RETURN(items.emplace_back(), Value::Of({key, item}, Sequence::Form::kTuple));
  }
  return Value::Of(std::move(items), form);
}

}  // namespace muster
