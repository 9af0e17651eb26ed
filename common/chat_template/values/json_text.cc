#include "common/chat_template/values/json_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/chat_template/values/python_repr.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Value> ValueAtDepth(const Json& json, int depth) {
  if (depth > kMaxValueDepth) {
    return absl::InvalidArgumentError(absl::StrCat("the chat's lists and objects lie more than ",
                                                   kMaxValueDepth,
                                                   " deep in one another; flatten them"));
  }
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > std::numeric_limits<int64_t>::max()) {
        return absl::InvalidArgumentError(
            "the chat has an integer past 9223372036854775807; write it as a string");
      }
      return Value(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return Value(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) {
        MUSTER_ASSIGN_OR_RETURN(items.emplace_back(), ValueAtDepth(item, depth + 1));
      }
      return Value::Of(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      items.reserve(json.size());
      for (const auto& [key, value] : json.items()) {
        MUSTER_ASSIGN_OR_RETURN(Value converted, ValueAtDepth(value, depth + 1));
        items.emplace_back(Value(key), std::move(converted));
      }
      return Value::OfDistinct(std::move(items));
    }
    default:
      return Value();
  }
}

class JsonWriter {
 public:
  JsonWriter(const JsonTextOptions& options, Budget& budget)
      : options_(options),
        budget_(budget),
        item_separator_(options.item_separator.value_or(options.indent ? "," : ", ")),
        key_separator_(options.key_separator.value_or(": ")) {}

  // Values are at most kMaxValueDepth deep.
  absl::Status Write(const Value& value, int level) {
    MUSTER_RETURN_IF_ERROR(budget_.CheckText(out_.size()));
    if (value.text() != nullptr) {
      WriteText(*value.text());
    } else if (value.dictionary() != nullptr) {
      return WriteDictionary(*value.dictionary(), level);
    } else if (value.sequence() != nullptr) {
      return WriteSequence(value, level);
    } else {
      MUSTER_ASSIGN_OR_RETURN(const std::string scalar, ScalarText(value));
      out_ += scalar;
    }
    return absl::OkStatus();
  }

  std::string TakeText() { return std::move(out_); }

 private:
  static absl::StatusOr<std::string> ScalarText(const Value& value) {
    if (value.Is<None>()) return "null";
    if (const bool* truth = value.As<bool>()) return *truth ? "true" : "false";
    if (const int64_t* integer = value.As<int64_t>()) return absl::StrCat(*integer);
    if (const double* number = value.As<double>()) {
      if (std::isnan(*number)) return "NaN";
      if (std::isinf(*number)) return *number < 0 ? "-Infinity" : "Infinity";
      return FloatRepr(*number);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("tojson cannot write ", KindOf(value), "; give it a value that JSON has"));
  }

  absl::Status WriteSequence(const Value& value, int level) {
    const Sequence& sequence = *value.sequence();
    if (sequence.form != Sequence::Form::kList && sequence.form != Sequence::Form::kTuple) {
      return absl::InvalidArgumentError(absl::StrCat("tojson cannot write ", KindOf(value),
                                                     "; make it a list with the filter list"));
    }
    if (sequence.items.empty()) {
      out_ += "[]";
      return absl::OkStatus();
    }
    out_ += "[";
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      BeginItem(i, level + 1);
      MUSTER_RETURN_IF_ERROR(Write(sequence.items[i], level + 1));
    }
    End("]", level);
    return absl::OkStatus();
  }

  absl::Status WriteDictionary(const Dictionary& dictionary, int level) {
    if (dictionary.items.empty()) {
      out_ += "{}";
      return absl::OkStatus();
    }
    MUSTER_ASSIGN_OR_RETURN(const auto items, Ordered(dictionary));
    out_ += "{";
    for (size_t i = 0; i < items.size(); ++i) {
      BeginItem(i, level + 1);
      const auto& [key, value] = *items[i];
      if (key.text() != nullptr) {
        WriteText(*key.text());
      } else {
        MUSTER_ASSIGN_OR_RETURN(const std::string scalar, ScalarText(key));
        WriteText(scalar);
      }
      out_ += key_separator_;
      MUSTER_RETURN_IF_ERROR(Write(value, level + 1));
    }
    End("}", level);
    return absl::OkStatus();
  }

  using Items = std::vector<const std::pair<Value, Value>*>;
  absl::StatusOr<Items> Ordered(const Dictionary& dictionary) {
    Items items;
    for (const auto& item : dictionary.items) items.push_back(&item);
    if (!options_.sort_keys) return items;
    for (const auto* item : items) {
      if (item->first.text() == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("tojson sorts keys that are strings, and found ", KindOf(item->first),
                         "; leave sort_keys out"));
      }
    }
    std::stable_sort(items.begin(), items.end(), [](const auto* a, const auto* b) {
      return *a->first.text() < *b->first.text();
    });
    return items;
  }

  void BeginItem(size_t index, int level) {
    if (index > 0) out_ += item_separator_;
    BreakLine(level);
  }

  void End(absl::string_view bracket, int level) {
    BreakLine(level);
    absl::StrAppend(&out_, bracket);
  }

  void BreakLine(int level) {
    if (!options_.indent) return;
    out_ += "\n";
    for (int i = 0; i < level; ++i) out_ += *options_.indent;
  }

  void WriteText(absl::string_view text) {
    out_ += '"';
    while (!text.empty()) {
      const CodePoint next = FirstCodePoint(text);
      WriteCharacter(text.substr(0, next.bytes), next.value);
      text.remove_prefix(next.bytes);
    }
    out_ += '"';
  }

  void WriteCharacter(absl::string_view bytes, uint32_t value) {
    static constexpr absl::string_view kEscaped = "\"\\\n\r\t\b\f";
    static constexpr absl::string_view kLetters = "\"\\nrtbf";
    const size_t escape = value < 0x80 ? kEscaped.find(static_cast<char>(value)) : kEscaped.npos;
    if (escape != kEscaped.npos) {
      out_ += '\\';
      out_ += kLetters[escape];
    } else if (value < 0x20 || (options_.ensure_ascii && value >= 0x7f && value <= 0xffff)) {
      absl::StrAppendFormat(&out_, "\\u%04x", value);
    } else if (options_.ensure_ascii && value > 0xffff && value != kInvalidCodePoint) {
      const uint32_t above = value - 0x10000;
      absl::StrAppendFormat(&out_, "\\u%04x\\u%04x", 0xd800 | above >> 10,
                            0xdc00 | (above & 0x3ff));
    } else {
      absl::StrAppend(&out_, bytes);
    }
  }

  const JsonTextOptions& options_;
  Budget& budget_;
  const std::string item_separator_;
  const std::string key_separator_;
  std::string out_;
};

}  // namespace

absl::StatusOr<Value> ValueOfJson(const nlohmann::ordered_json& json) {
  return ValueAtDepth(json, 0);
}

absl::StatusOr<std::string> JsonText(const Value& value, const JsonTextOptions& options,
                                     Budget& budget) {
  MUSTER_RETURN_IF_ERROR(budget.Spend(value.weight()));
  JsonWriter writer(options, budget);
  MUSTER_RETURN_IF_ERROR(writer.Write(value, 0));
  std::string text = writer.TakeText();
  MUSTER_RETURN_IF_ERROR(budget.SpendText(text.size()));
  return text;
}

}  // namespace muster
