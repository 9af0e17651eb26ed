#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/chat_template/values/methods.h"
#include "common/chat_template/values/operators.h"
#include "common/chat_template/values/python_text.h"

namespace muster {
namespace {

absl::Status OnlyOnce(const Value& value) {
  return absl::InvalidArgumentError(
      absl::StrCat(KindOf(value),
                   " can be gone through once, from its beginning; make it a list "
                   "with the filter list"));
}

// Returns what an index finds in `count` items; negative ones count from the end.
bool Resolve(int64_t& index, size_t count) {
  if (index < 0) index += static_cast<int64_t>(count);
  return index >= 0 && index < static_cast<int64_t>(count);
}

absl::StatusOr<Value> CharacterAt(const std::string& text, int64_t index, Budget& budget) {
  MUSTER_RETURN_IF_ERROR(budget.Spend(text.size() * sizeof(absl::string_view)));
  const std::vector<absl::string_view> characters = Characters(text);
  if (!Resolve(index, characters.size())) return Value::Attribute(absl::StrCat(index));
  return Value(std::string(characters[static_cast<size_t>(index)]));
}

absl::StatusOr<Value> LoopAttribute(const LoopState& loop, absl::string_view name) {
  const auto count = static_cast<int64_t>(loop.items->size());
  const auto index = static_cast<int64_t>(loop.index);
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(count - index);
  if (name == "revindex0") return Value(count - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == count);
  if (name == "length") return Value(count);
  if (name == "previtem") {
    return index == 0 ? Value::UndefinedAs("there is no previous item: loop.previtem")
                      : (*loop.items)[loop.index - 1];
  }
  if (name == "nextitem") {
    return index + 1 == count ? Value::UndefinedAs("there is no next item: loop.nextitem")
                              : (*loop.items)[loop.index + 1];
  }
  return absl::InvalidArgumentError(
      absl::StrCat("loop has no '", name.substr(0, 40),
                   "' here; it has index, index0, revindex, revindex0, first, last, length, "
                   "previtem and nextitem"));
}

// Clips a bound of a slice as Python does.
absl::StatusOr<int64_t> ClipBound(const Value& bound, int64_t if_none, int64_t count,
                                  bool backwards) {
  if (bound.Is<None>()) return if_none;
  const auto integer = AsInteger(bound);
  if (!integer) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slice's bounds are integers, not ", KindOf(bound), "; use the filter int"));
  }
  const int64_t least = backwards ? -1 : 0;
  const int64_t most = backwards ? count - 1 : count;
  return std::clamp(*integer < 0 ? *integer + count : *integer, least, most);
}

}  // namespace

absl::StatusOr<Value> AttributeOf(const Value& value, absl::string_view name, Budget& budget) {
  if (const auto* undefined = value.As<Undefined>()) return UndefinedError(*undefined);
  if (const auto* loop = value.As<const LoopState*>()) return LoopAttribute(**loop, name);
  if (const auto* space = value.As<Namespace*>()) {
    const auto found = (*space)->attributes.find(name);
    return found == (*space)->attributes.end() ? Value::Attribute(name) : found->second;
  }
  if (IsMethodOf(value, name)) return Value(BoundMethod());
  if (value.dictionary() != nullptr) {
    MUSTER_RETURN_IF_ERROR(budget.Spend(value.dictionary()->items.size() * sizeof(Value)));
    if (const Value* item = value.dictionary()->Find(name)) return *item;
  }
  return Value::Attribute(name);
}

absl::StatusOr<Value> Item(const Value& value, const Value& index, Budget& budget) {
  if (const auto* undefined = value.As<Undefined>()) return UndefinedError(*undefined);
  if (const Dictionary* dictionary = value.dictionary()) {
    MUSTER_RETURN_IF_ERROR(budget.Spend(dictionary->items.size() * sizeof(Value)));
    const bool key = index.sequence() == nullptr && index.dictionary() == nullptr;
    if (const Value* item = key ? dictionary->Find(index) : nullptr) return *item;
  }
  const auto integer = AsInteger(index);
  if (integer && value.text() != nullptr) return CharacterAt(*value.text(), *integer, budget);
  if (const Sequence* sequence = integer ? value.sequence() : nullptr) {
    if (sequence->form == Sequence::Form::kGenerator) return OnlyOnce(value);
    const bool indexed = sequence->form == Sequence::Form::kList ||
                         sequence->form == Sequence::Form::kTuple ||
                         sequence->form == Sequence::Form::kRange;
    int64_t at = *integer;
    if (indexed && Resolve(at, sequence->items.size())) {
      return sequence->items[static_cast<size_t>(at)];
    }
  }
  // Jinja takes a name that is no key for an attribute.
  if (index.text() != nullptr) return AttributeOf(value, *index.text(), budget);
  return Value::Attribute(integer ? absl::StrCat(*integer) : KindOf(index));
}

absl::StatusOr<Value> Slice(const Value& value, const Value& start, const Value& stop,
                            const Value& step, Budget& budget) {
  if (const auto* undefined = value.As<Undefined>()) return UndefinedError(*undefined);
  const Sequence* sequence = value.sequence();
  const bool sliced = value.text() != nullptr ||
                      (sequence != nullptr && (sequence->form == Sequence::Form::kList ||
                                               sequence->form == Sequence::Form::kTuple ||
                                               sequence->form == Sequence::Form::kRange));
  if (!sliced) {
    return absl::InvalidArgumentError(
        absl::StrCat(KindOf(value), " has no slices; make it a list with the filter list"));
  }
  MUSTER_RETURN_IF_ERROR(budget.Spend(
      value.text() != nullptr ? value.text()->size() * sizeof(absl::string_view) : value.weight()));
  std::vector<absl::string_view> characters;
  if (value.text() != nullptr) characters = Characters(*value.text());
  const auto count =
      static_cast<int64_t>(sequence == nullptr ? characters.size() : sequence->items.size());
  const int64_t by = step.Is<None>() ? 1 : AsInteger(step).value_or(0);
  if (by == 0) {
    return absl::InvalidArgumentError(
        "a slice's step is an integer other than 0; write another, or leave it out");
  }
  MUSTER_ASSIGN_OR_RETURN(int64_t at, ClipBound(start, by < 0 ? count - 1 : 0, count, by < 0));
  MUSTER_ASSIGN_OR_RETURN(const int64_t end, ClipBound(stop, by < 0 ? -1 : count, count, by < 0));
  // More than `count` is as far as any step goes.
  const int64_t stride = std::clamp(by, -count - 1, count + 1);
  std::vector<Value> items;
  std::string text;
  for (; stride < 0 ? at > end : at < end; at += stride) {
    if (sequence == nullptr) {
      absl::StrAppend(&text, characters[static_cast<size_t>(at)]);
    } else {
      items.push_back(sequence->items[static_cast<size_t>(at)]);
    }
  }
  if (sequence == nullptr) return Value(std::move(text));
  return Value::Of(std::move(items), sequence->form);
}

absl::StatusOr<std::vector<Value>> Iterate(const Value& value, Budget& budget) {
  if (value.Is<Undefined>()) return std::vector<Value>();
  std::vector<Value> items;
  if (const Sequence* sequence = value.sequence()) {
    if (sequence->consumed) return OnlyOnce(value);
    sequence->consumed = sequence->form == Sequence::Form::kGenerator;
    MUSTER_RETURN_IF_ERROR(budget.Spend(sequence->items.size() * sizeof(Value)));
    return sequence->items;
  }
  if (const Dictionary* dictionary = value.dictionary()) {
    MUSTER_RETURN_IF_ERROR(budget.Spend(dictionary->items.size() * sizeof(Value)));
    for (const auto& [key, item] : dictionary->items) items.push_back(key);
    return items;
  }
  if (value.text() != nullptr) {
    // A character is a string of its own.
    MUSTER_RETURN_IF_ERROR(budget.Spend(value.text()->size() * 3 * sizeof(Value)));
    for (const absl::string_view character : Characters(*value.text())) {
      items.emplace_back(std::string(character));
    }
    return items;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(KindOf(value), " cannot be gone through; use a list, a dictionary or a string"));
}

absl::StatusOr<int64_t> Length(const Value& value, Budget& budget) {
  if (value.Is<Undefined>()) return 0;
  if (value.text() != nullptr) {
    MUSTER_RETURN_IF_ERROR(budget.Spend(value.text()->size()));
    return static_cast<int64_t>(CountCharacters(*value.text()));
  }
  if (value.dictionary() != nullptr) {
    return static_cast<int64_t>(value.dictionary()->items.size());
  }
  if (value.sequence() != nullptr && value.sequence()->form == Sequence::Form::kGenerator) {
    return OnlyOnce(value);
  }
  if (value.sequence() != nullptr) return static_cast<int64_t>(value.sequence()->items.size());
  if (const auto* loop = value.As<const LoopState*>()) {
    return static_cast<int64_t>((*loop)->items->size());
  }
  return absl::InvalidArgumentError(
      absl::StrCat(KindOf(value), " has no length; use a list, a dictionary or a string"));
}

}  // namespace muster
