#ifndef MUSTER_COMMON_CHAT_TEMPLATE_VALUES_VALUE_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_VALUES_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// A template computes with these: Python's values, as far as templates have them. Lists and
// dictionaries never change, and hold plain values alone: nothing that refers to a scope or can
// change. So values form no circles, and each knows its depth and what walking it costs.

class Value;

// A name that has no value stands for this. It prints as nothing.
struct Undefined {
  // For errors: "'name'" or "attribute 'name'".
  std::shared_ptr<const std::string> what;
};

struct None {};

struct Sequence {
  enum class Form {
    kList,
    kTuple,
    kRange,
    // keys(), values() and items() of a dictionary return this: no list, since Python prints them
    // differently and takes no index of them.
    kKeys,
    kValues,
    kItems,
    // Filters such as map return this: Python goes through it once, and knows no length.
    kGenerator,
  };

  std::vector<Value> items;
  Form form = Form::kList;
  int depth = 1;
  // Bytes that a walk through all of it, and what lies in it, touches.
  size_t weight = 0;
  // True once a generator has been gone through.
  mutable bool consumed = false;
};

struct Dictionary {
  // In the order in which they came, each key once.
  std::vector<std::pair<Value, Value>> items;
  int depth = 1;
  size_t weight = 0;

  // Returns null if the key is not there. Takes time with the number of items.
  const Value* Find(const Value& key) const;
  const Value* Find(absl::string_view key) const;
};

// namespace() returns this, the one thing that a template changes. It is owned by the rendering.
struct Namespace {
  absl::flat_hash_map<std::string, Value> attributes;
};

// Says where a for loop is.
struct LoopState {
  const std::vector<Value>* items = nullptr;
  size_t index = 0;
};

// A macro; syntax and scope are known to whom calls it.
struct Macro;

// A function that every template has, by its name.
struct GlobalFunction {
  absl::string_view name;
};

// A dictionary's method that is named without being called, or that stands for a missing key of its
// name, as in Python.
struct BoundMethod {};

class Value {
 public:
  using Text = std::shared_ptr<const std::string>;
  using Variant =
      std::variant<Undefined, None, bool, int64_t, double, Text, std::shared_ptr<const Sequence>,
                   std::shared_ptr<const Dictionary>, Namespace*, const LoopState*, const Macro*,
                   GlobalFunction, BoundMethod>;

  Value() : variant_(None()) {}
  explicit Value(Undefined undefined) : variant_(std::move(undefined)) {}
  explicit Value(bool value) : variant_(value) {}
  explicit Value(int64_t value) : variant_(value) {}
  explicit Value(double value) : variant_(value) {}
  explicit Value(std::string text)
      : variant_(std::make_shared<const std::string>(std::move(text))) {}
  explicit Value(Namespace* value) : variant_(value) {}
  explicit Value(const LoopState* loop) : variant_(loop) {}
  explicit Value(const Macro* macro) : variant_(macro) {}
  explicit Value(GlobalFunction function) : variant_(function) {}
  explicit Value(BoundMethod method) : variant_(method) {}

  // Fail if the items are not plain or nested too deeply, or if a key cannot be one. A later item
  // of a dictionary takes the place of an earlier one with its key.
  static absl::StatusOr<Value> Of(std::vector<Value> items,
                                  Sequence::Form form = Sequence::Form::kList);
  static absl::StatusOr<Value> Of(std::vector<std::pair<Value, Value>> items);

  // Adds where the caller knows that the keys are different texts.
  static absl::StatusOr<Value> OfDistinct(std::vector<std::pair<Value, Value>> items);

  static Value UndefinedAs(absl::string_view what);
  static Value Attribute(absl::string_view name);

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&variant_);
  }
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(variant_);
  }

  // Each returns null if the value is not of this kind.
  const std::string* text() const { return As<Text>() ? As<Text>()->get() : nullptr; }
  const Sequence* sequence() const;
  const Dictionary* dictionary() const;

  // Bytes that a walk through the value touches; the largest size_t / 4 at most.
  size_t weight() const;
  int depth() const;
  // Returns whether it may lie in a list, a dictionary or a namespace.
  bool plain() const;

 private:
  explicit Value(Variant variant) : variant_(std::move(variant)) {}

  Variant variant_;
};

// Returns "a string", "a dictionary" and so on, for errors.
std::string KindOf(const Value& value);

// Returns what an error says of an undefined value that is used: "'name' is undefined; ...".
absl::Status UndefinedError(const Undefined& undefined);

// Python's bool().
bool IsTrue(const Value& value);

// Python's ==. The caller has spent both weights.
bool Equal(const Value& a, const Value& b);

// Returns the number that arithmetic takes bool, int64_t and double for. REQUIRES: one of them.
long double AsNumber(const Value& value);
bool IsNumber(const Value& value);
// Returns the integer of an int64_t or bool.
std::optional<int64_t> AsInteger(const Value& value);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_VALUES_VALUE_H_
