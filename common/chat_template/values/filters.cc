#include "common/chat_template/values/filters.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/chat_template/values/json_text.h"
#include "common/chat_template/values/operators.h"
#include "common/chat_template/values/python_repr.h"
#include "common/chat_template/values/python_text.h"
#include "common/chat_template/values/selecting_filters.h"
#include "common/chat_template/values/texts.h"
#include "common/text/data_error.h"

namespace muster {
namespace {

using Bound = std::vector<const Value*>;

// The most columns that a line is indented by.
constexpr int64_t kMostIndent = 100;

absl::StatusOr<std::string> IndentOf(const Value& width) {
  if (width.text() != nullptr && width.text()->size() <= kMostIndent) return *width.text();
  MUSTER_ASSIGN_OR_RETURN(const int64_t columns, IntegerOr(&width, 0, "indent"));
  if (columns > kMostIndent) {
    return absl::InvalidArgumentError(
        absl::StrCat("a line is indented by at most ", kMostIndent, " columns; use fewer"));
  }
  return std::string(static_cast<size_t>(std::max<int64_t>(columns, 0)), ' ');
}

absl::StatusOr<Value> TextChange(absl::StatusOr<std::string> (*change)(absl::string_view),
                                 const Value& value, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, Str(value, budget));
  MUSTER_ASSIGN_OR_RETURN(std::string changed, change(text));
  return Value(std::move(changed));
}

absl::StatusOr<Value> UpperFilter(const Value& value, const Bound&, Budget& budget) {
  return TextChange(Upper, value, budget);
}

absl::StatusOr<Value> LowerFilter(const Value& value, const Bound&, Budget& budget) {
  return TextChange(Lower, value, budget);
}

absl::StatusOr<Value> CapitalizeFilter(const Value& value, const Bound&, Budget& budget) {
  return TextChange(Capitalize, value, budget);
}

absl::StatusOr<Value> TitleOfWords(const Value& value, const Bound&, Budget& budget) {
  return TextChange(TitleFilter, value, budget);
}

absl::StatusOr<Value> TrimFilter(const Value& value, const Bound& bound, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, Str(value, budget));
  return StripText(text, bound[0], Side::kBoth, budget);
}

absl::StatusOr<Value> LengthFilter(const Value& value, const Bound&, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const int64_t length, Length(value, budget));
  return Value(length);
}

absl::StatusOr<Value> StringFilter(const Value& value, const Bound&, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(std::string text, Str(value, budget));
  return Value(std::move(text));
}

absl::StatusOr<Value> ReplaceFilter(const Value& value, const Bound& bound, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, Str(value, budget));
  return ReplaceText(text, bound, budget);
}

absl::StatusOr<Value> JoinFilter(const Value& value, const Bound& bound, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const std::string separator, TextOr(bound[0], "", "d"));
  if (bound[1] == nullptr) return JoinTexts(value, separator, /*only_texts=*/false, budget);
  MUSTER_ASSIGN_OR_RETURN(
      const Value mapped,
      ApplySelectingFilter("map", value, Arguments{{}, {{"attribute", *bound[1]}}}, budget));
  return JoinTexts(mapped, separator, /*only_texts=*/false, budget);
}

absl::StatusOr<Value> DefaultFilter(const Value& value, const Bound& bound, Budget&) {
  const bool replace = value.Is<Undefined>() || (TruthOr(bound[1], false) && !IsTrue(value));
  if (!replace) return value;
  return bound[0] == nullptr ? Value(std::string()) : *bound[0];
}

absl::StatusOr<Value> ListFilter(const Value& value, const Bound&, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(value, budget));
  return Value::Of(std::move(items));
}

absl::StatusOr<Value> ReverseFilter(const Value& value, const Bound&, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(value, budget));
  std::reverse(items.begin(), items.end());
  MUSTER_ASSIGN_OR_RETURN(Value reversed, Value::Of(std::move(items), Sequence::Form::kGenerator));
  return value.text() == nullptr ? std::move(reversed)
                                 : JoinTexts(reversed, "", /*only_texts=*/true, budget);
}

absl::StatusOr<Value> FirstFilter(const Value& value, const Bound&, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value, budget));
  return items.empty() ? Value::UndefinedAs("the first item of nothing") : items.front();
}

absl::StatusOr<Value> LastFilter(const Value& value, const Bound&, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value, budget));
  return items.empty() ? Value::UndefinedAs("the last item of nothing") : items.back();
}

absl::StatusOr<Value> ItemsFilter(const Value& value, const Bound&, Budget& budget) {
  if (value.Is<Undefined>()) return Value::Of({}, Sequence::Form::kGenerator);
  if (value.dictionary() == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the filter items takes a dictionary, not ",
                                                   KindOf(value), "; ask `is mapping` first"));
  }
  MUSTER_RETURN_IF_ERROR(budget.Spend(value.dictionary()->items.size() * 3 * sizeof(Value)));
  return ItemsOf(value, Sequence::Form::kGenerator);
}

// Returns what Python's int() or float() reads; nothing if it is no number.
std::optional<double> ReadNumber(absl::string_view text) {
  double number = 0;
  if (!absl::SimpleAtod(Strip(text), &number)) return std::nullopt;
  return number;
}

absl::StatusOr<Value> IntFilter(const Value& value, const Bound& bound, Budget&) {
  if (const auto* undefined = value.As<Undefined>()) return UndefinedError(*undefined);
  if (const auto integer = AsInteger(value)) return Value(*integer);
  std::optional<double> number;
  if (value.text() != nullptr) {
    int64_t integer = 0;
    if (absl::SimpleAtoi(Strip(*value.text()), &integer)) return Value(integer);
    number = ReadNumber(*value.text());
  } else if (const double* found = value.As<double>()) {
    number = *found;
  }
  if (!number) return bound[0] == nullptr ? Value(int64_t{0}) : *bound[0];
  // 2^63, which a double holds exactly.
  constexpr double kPastIntegers = 9223372036854775808.0;
  if (!(std::abs(*number) < kPastIntegers)) {
    return absl::InvalidArgumentError(
        "the number is too large for the filter int; use one of 64 bits");
  }
  return Value(static_cast<int64_t>(*number));
}

absl::StatusOr<Value> FloatFilter(const Value& value, const Bound& bound, Budget&) {
  if (const auto* undefined = value.As<Undefined>()) return UndefinedError(*undefined);
  if (IsNumber(value)) return Value(static_cast<double>(AsNumber(value)));
  const auto number = value.text() == nullptr ? std::nullopt : ReadNumber(*value.text());
  if (number) return Value(*number);
  return bound[0] == nullptr ? Value(0.0) : *bound[0];
}

absl::StatusOr<Value> ToJsonFilter(const Value& value, const Bound& bound, Budget& budget) {
  JsonTextOptions options;
  options.ensure_ascii = TruthOr(bound[0], false);
  if (bound[1] != nullptr && !bound[1]->Is<None>()) {
    MUSTER_ASSIGN_OR_RETURN(options.indent, IndentOf(*bound[1]));
  }
  if (bound[2] != nullptr && !bound[2]->Is<None>()) {
    const Sequence* both = bound[2]->sequence();
    if (both == nullptr || both->items.size() != 2) {
      return absl::InvalidArgumentError(
          "tojson's separators are two strings; write separators=(',', ':')");
    }
    MUSTER_ASSIGN_OR_RETURN(options.item_separator, TextOr(&both->items[0], "", "separators"));
    MUSTER_ASSIGN_OR_RETURN(options.key_separator, TextOr(&both->items[1], "", "separators"));
  }
  options.sort_keys = TruthOr(bound[3], false);
  MUSTER_ASSIGN_OR_RETURN(std::string text, JsonText(value, options, budget));
  return Value(std::move(text));
}

absl::StatusOr<Value> DictSortFilter(const Value& value, const Bound& bound, Budget& budget) {
  if (value.dictionary() == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("dictsort takes a dictionary, not ", KindOf(value), "; ask `is mapping`"));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string by, TextOr(bound[1], "key", "by"));
  if (by != "key" && by != "value") {
    return absl::InvalidArgumentError("dictsort sorts by 'key' or by 'value'; name one");
  }
  MUSTER_RETURN_IF_ERROR(budget.Spend(value.weight() * 8));
  MUSTER_ASSIGN_OR_RETURN(const Value items, ItemsOf(value, Sequence::Form::kList));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items.sequence()->items) {
    Value key = item.sequence()->items[by == "key" ? 0 : 1];
    if (key.text() != nullptr && !TruthOr(bound[0], false)) {
      MUSTER_ASSIGN_OR_RETURN(std::string lower, Lower(*key.text()));
      key = Value(std::move(lower));
    }
    keyed.emplace_back(std::move(key), item);
  }
  absl::Status error;
  const bool reverse = TruthOr(bound[2], false);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const absl::StatusOr<bool> less =
        reverse ? Compare("<", b.first, a.first, budget) : Compare("<", a.first, b.first, budget);
    if (!less.ok()) error = less.status();
    return less.ok() && *less;
  });
  MUSTER_RETURN_IF_ERROR(error);
  std::vector<Value> sorted;
  for (auto& [key, item] : keyed) sorted.push_back(std::move(item));
  return Value::Of(std::move(sorted));
}

absl::StatusOr<Value> IndentFilter(const Value& value, const Bound& bound, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, Str(value, budget));
  MUSTER_ASSIGN_OR_RETURN(const std::string indent,
                          bound[0] == nullptr ? std::string(4, ' ') : IndentOf(*bound[0]));
  MUSTER_RETURN_IF_ERROR(budget.Spend(text.size() * 2 + 64));
  const std::vector<std::string> lines = SplitLines(absl::StrCat(text, "\n"));
  MUSTER_RETURN_IF_ERROR(budget.SpendText(text.size() + lines.size() * indent.size()));
  std::string indented = TruthOr(bound[1], false) ? indent : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool indents = i > 0 && (TruthOr(bound[2], false) || !lines[i].empty());
    absl::StrAppend(&indented, i > 0 ? "\n" : "", indents ? indent : "", lines[i]);
  }
  return Value(std::move(indented));
}

struct Filter {
  absl::StatusOr<Value> (*apply)(const Value&, const Bound&, Budget&);
  std::vector<absl::string_view> parameters;
};

// Templates print without HTML's escapes, so `safe` says what holds anyway.
const std::map<absl::string_view, Filter>& Filters() {
  static const auto* filters = new std::map<absl::string_view, Filter>{
      {"capitalize", {CapitalizeFilter, {}}},
      {"count", {LengthFilter, {}}},
      {"d", {DefaultFilter, {"default_value", "boolean"}}},
      {"default", {DefaultFilter, {"default_value", "boolean"}}},
      {"dictsort", {DictSortFilter, {"case_sensitive", "by", "reverse"}}},
      {"first", {FirstFilter, {}}},
      {"float", {FloatFilter, {"default"}}},
      {"indent", {IndentFilter, {"width", "first", "blank"}}},
      {"int", {IntFilter, {"default"}}},
      {"items", {ItemsFilter, {}}},
      {"join", {JoinFilter, {"d", "attribute"}}},
      {"last", {LastFilter, {}}},
      {"length", {LengthFilter, {}}},
      {"list", {ListFilter, {}}},
      {"lower", {LowerFilter, {}}},
      {"replace", {ReplaceFilter, {"old", "new", "count"}}},
      {"reverse", {ReverseFilter, {}}},
      {"safe", {StringFilter, {}}},
      {"string", {StringFilter, {}}},
      {"title", {TitleOfWords, {}}},
      {"tojson", {ToJsonFilter, {"ensure_ascii", "indent", "separators", "sort_keys"}}},
      {"trim", {TrimFilter, {"chars"}}},
      {"upper", {UpperFilter, {}}},
  };
  return *filters;
}

}  // namespace

const std::vector<std::string>& FilterNames() {
  static const auto* names = [] {
    auto* all = new std::vector<std::string>{"map", "reject", "rejectattr", "select", "selectattr"};
    for (const auto& [name, filter] : Filters()) all->emplace_back(name);
    std::sort(all->begin(), all->end());
    return all;
  }();
  return *names;
}

absl::StatusOr<Value> ApplyFilter(absl::string_view name, const Value& value,
                                  const Arguments& arguments, Budget& budget) {
  if (IsSelectingFilter(name)) return ApplySelectingFilter(name, value, arguments, budget);
  const auto filter = Filters().find(name);
  if (filter == Filters().end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no filter ", Quote(name), "; there are: ", absl::StrJoin(FilterNames(), ", ")));
  }
  MUSTER_ASSIGN_OR_RETURN(const Bound bound, arguments.Bind(name, filter->second.parameters));
  return filter->second.apply(value, bound, budget);
}

}  // namespace muster
