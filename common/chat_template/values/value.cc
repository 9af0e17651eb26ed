#include "common/chat_template/values/value.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/chat_template/values/chat_template_limits.h"

namespace muster {
namespace {

constexpr size_t kMostWeight = std::numeric_limits<size_t>::max() / 4;

// A value takes this by itself.
constexpr size_t kOwnWeight = 16;

size_t AddWeights(size_t a, size_t b) { return std::min(kMostWeight, a + b); }

absl::Status CheckPlain(const Value& value) {
  if (!value.plain()) {
    return absl::InvalidArgumentError(
        absl::StrCat(KindOf(value),
                     " cannot lie in a list, a dictionary or a namespace; give it "
                     "a name of its own"));
  }
  if (value.depth() >= kMaxValueDepth) {
    return absl::InvalidArgumentError(absl::StrCat("lists and dictionaries lie more than ",
                                                   kMaxValueDepth,
                                                   " deep in one another; flatten them"));
  }
  return absl::OkStatus();
}

// Returns whether keys are equal; they are never lists or dictionaries.
bool SameText(const Value& key, absl::string_view text) {
  return key.text() != nullptr && *key.text() == text;
}

}  // namespace

const Value* Dictionary::Find(const Value& key) const {
  if (key.text() != nullptr) return Find(absl::string_view(*key.text()));
  for (const auto& [each, value] : items) {
    if (Equal(each, key)) return &value;
  }
  return nullptr;
}

const Value* Dictionary::Find(absl::string_view key) const {
  for (const auto& [each, value] : items) {
    if (SameText(each, key)) return &value;
  }
  return nullptr;
}

absl::StatusOr<Value> Value::Of(std::vector<Value> items, Sequence::Form form) {
  auto sequence = std::make_shared<Sequence>();
  sequence->form = form;
  sequence->weight = kOwnWeight;
  for (const Value& item : items) {
    if (absl::Status plain = CheckPlain(item); !plain.ok()) return plain;
    sequence->depth = std::max(sequence->depth, item.depth() + 1);
    sequence->weight = AddWeights(sequence->weight, item.weight());
  }
  sequence->items = std::move(items);
  return Value(Variant(std::shared_ptr<const Sequence>(std::move(sequence))));
}

absl::StatusOr<Value> Value::Of(std::vector<std::pair<Value, Value>> items) {
  Dictionary distinct;
  for (auto& [key, value] : items) {
    if (key.sequence() != nullptr || key.dictionary() != nullptr || !key.plain()) {
      return absl::InvalidArgumentError(
          absl::StrCat(KindOf(key), " cannot be a dictionary's key; use a string"));
    }
    // The value lies in `distinct`, which is not const.
    if (const Value* earlier = distinct.Find(key)) {
      *const_cast<Value*>(earlier) = std::move(value);
    } else {
      distinct.items.emplace_back(std::move(key), std::move(value));
    }
  }
  return OfDistinct(std::move(distinct.items));
}

absl::StatusOr<Value> Value::OfDistinct(std::vector<std::pair<Value, Value>> items) {
  auto dictionary = std::make_shared<Dictionary>();
  // Finding each of its keys once.
  dictionary->weight = AddWeights(kOwnWeight, std::min(kMostWeight, items.size() * items.size()));
  for (const auto& [key, value] : items) {
    if (absl::Status plain = CheckPlain(value); !plain.ok()) return plain;
    dictionary->depth = std::max(dictionary->depth, value.depth() + 1);
    dictionary->weight = AddWeights(dictionary->weight, AddWeights(key.weight(), value.weight()));
  }
  dictionary->items = std::move(items);
  return Value(Variant(std::shared_ptr<const Dictionary>(std::move(dictionary))));
}

Value Value::UndefinedAs(absl::string_view what) {
  return Value(Undefined{std::make_shared<const std::string>(what)});
}

Value Value::Attribute(absl::string_view name) {
  return UndefinedAs(absl::StrCat("attribute '", name, "'"));
}

const Sequence* Value::sequence() const {
  const auto* sequence = As<std::shared_ptr<const Sequence>>();
  return sequence == nullptr ? nullptr : sequence->get();
}

const Dictionary* Value::dictionary() const {
  const auto* dictionary = As<std::shared_ptr<const Dictionary>>();
  return dictionary == nullptr ? nullptr : dictionary->get();
}

size_t Value::weight() const {
  if (text() != nullptr) return kOwnWeight + text()->size();
  if (sequence() != nullptr) return sequence()->weight;
  if (dictionary() != nullptr) return dictionary()->weight;
  return kOwnWeight;
}

int Value::depth() const {
  if (sequence() != nullptr) return sequence()->depth;
  if (dictionary() != nullptr) return dictionary()->depth;
  return 0;
}

bool Value::plain() const {
  return !Is<Namespace*>() && !Is<const LoopState*>() && !Is<const Macro*>() &&
         !Is<GlobalFunction>() && !Is<BoundMethod>();
}

std::string KindOf(const Value& value) {
  if (value.Is<Undefined>()) return "an undefined value";
  if (value.Is<None>()) return "none";
  if (value.Is<bool>()) return "a boolean";
  if (value.Is<int64_t>()) return "an integer";
  if (value.Is<double>()) return "a float";
  if (value.text() != nullptr) return "a string";
  if (value.dictionary() != nullptr) return "a dictionary";
  if (value.Is<Namespace*>()) return "a namespace";
  if (value.Is<const LoopState*>()) return "the loop";
  if (value.Is<const Macro*>()) return "a macro";
  if (value.sequence() == nullptr) return "a function";
  switch (value.sequence()->form) {
    case Sequence::Form::kList:
      return "a list";
    case Sequence::Form::kTuple:
      return "a tuple";
    case Sequence::Form::kRange:
      return "a range";
    case Sequence::Form::kGenerator:
      return "what a filter returns one by one";
    default:
      return "a view of a dictionary";
  }
}

absl::Status UndefinedError(const Undefined& undefined) {
  return absl::InvalidArgumentError(
      absl::StrCat(undefined.what == nullptr ? "a value" : *undefined.what,
                   " is undefined; give it a value, or ask `is defined` first"));
}

bool IsTrue(const Value& value) {
  if (value.Is<Undefined>() || value.Is<None>()) return false;
  if (IsNumber(value)) return AsNumber(value) != 0;
  if (value.text() != nullptr) return !value.text()->empty();
  if (value.dictionary() != nullptr) return !value.dictionary()->items.empty();
  if (value.sequence() != nullptr) {
    return value.sequence()->form == Sequence::Form::kGenerator || !value.sequence()->items.empty();
  }
  return true;
}

bool Equal(const Value& a, const Value& b) {
  if (IsNumber(a) && IsNumber(b)) return AsNumber(a) == AsNumber(b);
  if (a.text() != nullptr && b.text() != nullptr) return *a.text() == *b.text();
  if (a.sequence() != nullptr && b.sequence() != nullptr) {
    if (a.sequence() == b.sequence()) return true;
    const auto& [x, y] = std::tie(a.sequence()->items, b.sequence()->items);
    return a.sequence()->form == b.sequence()->form &&
           std::equal(x.begin(), x.end(), y.begin(), y.end(), Equal);
  }
  if (a.dictionary() != nullptr && b.dictionary() != nullptr) {
    const auto& x = *a.dictionary();
    const auto& y = *b.dictionary();
    return x.items.size() == y.items.size() &&
           std::all_of(x.items.begin(), x.items.end(), [&y](const auto& item) {
             const Value* other = y.Find(item.first);
             return other != nullptr && Equal(item.second, *other);
           });
  }
  if (a.Is<Namespace*>() && b.Is<Namespace*>()) return *a.As<Namespace*>() == *b.As<Namespace*>();
  if (a.Is<const Macro*>() && b.Is<const Macro*>()) {
    return *a.As<const Macro*>() == *b.As<const Macro*>();
  }
  return (a.Is<Undefined>() && b.Is<Undefined>()) || (a.Is<None>() && b.Is<None>());
}

bool IsNumber(const Value& value) {
  return value.Is<bool>() || value.Is<int64_t>() || value.Is<double>();
}

long double AsNumber(const Value& value) {
  if (const double* number = value.As<double>()) return *number;
  return static_cast<long double>(AsInteger(value).value_or(0));
}

std::optional<int64_t> AsInteger(const Value& value) {
  if (const bool* truth = value.As<bool>()) return *truth ? 1 : 0;
  if (const int64_t* number = value.As<int64_t>()) return *number;
  return std::nullopt;
}

}  // namespace muster
