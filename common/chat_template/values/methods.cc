#include "common/chat_template/values/methods.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/chat_template/values/python_text.h"
#include "common/chat_template/values/texts.h"
#include "common/text/data_error.h"

namespace muster {
namespace {

absl::StatusOr<Value> StripMethod(const std::string& text, absl::string_view name,
                                  const Arguments& arguments, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const auto bound, arguments.Bind(name, {"chars"}));
  const Side side = name == "strip" ? Side::kBoth : name == "lstrip" ? Side::kLeft : Side::kRight;
  return StripText(text, bound[0], side, budget);
}

absl::StatusOr<Value> SplitMethod(const std::string& text, const Arguments& arguments,
                                  Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("split", {"sep", "maxsplit"}));
  MUSTER_ASSIGN_OR_RETURN(const int64_t most, IntegerOr(bound[1], -1, "maxsplit"));
  const bool at_space = bound[0] == nullptr || bound[0]->Is<None>();
  MUSTER_ASSIGN_OR_RETURN(const std::string separator,
                          at_space ? std::string() : TextOr(bound[0], "", "sep"));
  // A part of one character is a value of its own.
  const size_t parts = at_space            ? text.size() / 2
                       : separator.empty() ? 0
                                           : CountOccurrences(text, separator);
  MUSTER_RETURN_IF_ERROR(budget.Spend(text.size() + parts * 3 * sizeof(Value)));
  if (at_space) return ListOfTexts(SplitAtSpace(text, most));
  MUSTER_ASSIGN_OR_RETURN(std::vector<std::string> split, SplitAt(text, separator, most));
  return ListOfTexts(std::move(split));
}

absl::StatusOr<Value> AffixMethod(const std::string& text, absl::string_view name,
                                  const Arguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const auto bound, arguments.Bind(name, {"affix"}));
  const auto has = [&](const std::string& affix) {
    return name == "startswith" ? absl::StartsWith(text, affix) : absl::EndsWith(text, affix);
  };
  const Value affix = bound[0] == nullptr ? Value() : *bound[0];
  if (affix.text() != nullptr) return Value(has(*affix.text()));
  const Sequence* affixes = affix.sequence();
  if (affixes == nullptr || affixes->form != Sequence::Form::kTuple) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, "() takes a string or a tuple of strings, not ", KindOf(affix), "; give it one"));
  }
  bool found = false;
  for (const Value& each : affixes->items) {
    MUSTER_ASSIGN_OR_RETURN(const std::string part, TextOr(&each, "", name));
    found = found || has(part);
  }
  return Value(found);
}

absl::StatusOr<Value> FindMethod(const std::string& text, const Arguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("find", {"sub"}));
  MUSTER_ASSIGN_OR_RETURN(const std::string part, TextOr(bound[0], "", "sub"));
  const size_t at = FindText(text, part);
  if (at == absl::string_view::npos) return Value(int64_t{-1});
  return Value(static_cast<int64_t>(CountCharacters(absl::string_view(text).substr(0, at))));
}

absl::StatusOr<Value> TextMethod(const std::string& text, absl::string_view name,
                                 const Arguments& arguments, Budget& budget) {
  MUSTER_RETURN_IF_ERROR(budget.Spend(text.size()));
  if (absl::EndsWith(name, "strip")) return StripMethod(text, name, arguments, budget);
  if (name == "split") return SplitMethod(text, arguments, budget);
  if (name == "startswith" || name == "endswith") return AffixMethod(text, name, arguments);
  if (name == "find") return FindMethod(text, arguments);
  if (name == "replace") {
    MUSTER_ASSIGN_OR_RETURN(const auto bound, arguments.Bind(name, {"old", "new", "count"}));
    return ReplaceText(text, bound, budget);
  }
  if (name == "join") {
    MUSTER_ASSIGN_OR_RETURN(const auto bound, arguments.Bind(name, {"iterable"}));
    return JoinTexts(bound[0] == nullptr ? Value() : *bound[0], text, /*only_texts=*/true, budget);
  }
  MUSTER_RETURN_IF_ERROR(arguments.Bind(name, {}).status());
  absl::StatusOr<std::string> changed = name == "upper"        ? Upper(text)
                                        : name == "lower"      ? Lower(text)
                                        : name == "capitalize" ? Capitalize(text)
                                                               : TitleMethod(text);
  if (!changed.ok()) return std::move(changed).status();
  return Value(*std::move(changed));
}

absl::StatusOr<Value> DictionaryMethod(const Value& value, absl::string_view name,
                                       const Arguments& arguments, Budget& budget) {
  const Dictionary& dictionary = *value.dictionary();
  MUSTER_RETURN_IF_ERROR(budget.Spend(dictionary.items.size() * 3 * sizeof(Value)));
  if (name == "get") {
    MUSTER_ASSIGN_OR_RETURN(const auto bound, arguments.Bind(name, {"key", "default"}));
    if (bound[0] == nullptr || bound[0]->sequence() != nullptr ||
        bound[0]->dictionary() != nullptr) {
      return absl::InvalidArgumentError("get() takes a dictionary's key; give it a string");
    }
    if (const Value* item = dictionary.Find(*bound[0])) return *item;
    return bound[1] == nullptr ? Value() : *bound[1];
  }
  MUSTER_RETURN_IF_ERROR(arguments.Bind(name, {}).status());
  if (name == "items") return ItemsOf(value, Sequence::Form::kItems);
  std::vector<Value> found;
  for (const auto& [key, item] : dictionary.items) found.push_back(name == "keys" ? key : item);
  return Value::Of(std::move(found),
                   name == "keys" ? Sequence::Form::kKeys : Sequence::Form::kValues);
}

const std::vector<std::string>& TextMethods() {
  static const auto* names = new std::vector<std::string>{
      "capitalize", "endswith", "find",  "join",       "lower", "lstrip", "replace",
      "rstrip",     "split",    "strip", "startswith", "title", "upper"};
  return *names;
}

const std::vector<std::string>& DictionaryMethods() {
  static const auto* names = new std::vector<std::string>{"get", "items", "keys", "values"};
  return *names;
}

bool IsOneOf(absl::string_view name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const std::vector<std::string>& MethodNames() {
  static const auto* names = [] {
    auto* all = new std::vector<std::string>(TextMethods());
    all->insert(all->end(), DictionaryMethods().begin(), DictionaryMethods().end());
    std::sort(all->begin(), all->end());
    return all;
  }();
  return *names;
}

bool IsMethodOf(const Value& value, absl::string_view name) {
  if (value.text() != nullptr) return IsOneOf(name, TextMethods());
  static const auto* others = new std::vector<std::string>{
      "clear", "copy", "fromkeys", "pop", "popitem", "setdefault", "update"};
  return value.dictionary() != nullptr &&
         (IsOneOf(name, DictionaryMethods()) || IsOneOf(name, *others));
}

absl::StatusOr<Value> CallMethod(const Value& value, absl::string_view name,
                                 const Arguments& arguments, Budget& budget) {
  if (const auto* undefined = value.As<Undefined>()) return UndefinedError(*undefined);
  if (value.text() != nullptr && IsOneOf(name, TextMethods())) {
    return TextMethod(*value.text(), name, arguments, budget);
  }
  if (value.dictionary() != nullptr && IsOneOf(name, DictionaryMethods())) {
    return DictionaryMethod(value, name, arguments, budget);
  }
  return absl::InvalidArgumentError(absl::StrCat(KindOf(value), " has no method ", Quote(name),
                                                 "; ask for its kind first, as with `is string`"));
}

}  // namespace muster
