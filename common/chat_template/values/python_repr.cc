#include "common/chat_template/values/python_repr.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/chat_template/values/python_text.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

// Format and private characters past ASCII that repr() writes out, beside whitespace.
constexpr CodePointRange kUnseen[] = {
    {0x7f, 0x9f},        {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},
    {0x6dd, 0x6dd},      {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},
    {0x180e, 0x180e},    {0x200b, 0x200f},   {0x202a, 0x202e},   {0x2060, 0x2064},
    {0x2066, 0x206f},    {0xe000, 0xf8ff},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},
    {0x110bd, 0x110bd},  {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a},  {0xe0001, 0xe0001}, {0xe0020, 0xe007f}, {0xf0000, 0xffffd},
    {0x100000, 0x10fffd}};

bool IsUnseen(uint32_t value) {
  if (value < 0x20 || (value > 0x20 && IsPythonSpace(value))) return true;
  return std::any_of(std::begin(kUnseen), std::end(kUnseen), [value](const CodePointRange& range) {
    return value >= range.first && value <= range.last;
  });
}

void AppendStringRepr(absl::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != absl::string_view::npos;
  const bool has_double = text.find('"') != absl::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out.push_back(quote);
  while (!text.empty()) {
    const CodePoint next = FirstCodePoint(text);
    if (next.value == '\n') {
      out += "\\n";
    } else if (next.value == '\r') {
      out += "\\r";
    } else if (next.value == '\t') {
      out += "\\t";
    } else if (next.value == '\\' || next.value == static_cast<uint32_t>(quote)) {
      out.push_back('\\');
      out.push_back(text[0]);
    } else if (!IsUnseen(next.value)) {
      out.append(text.data(), next.bytes);
    } else if (next.value <= 0xff) {
      absl::StrAppendFormat(&out, "\\x%02x", next.value);
    } else if (next.value <= 0xffff) {
      absl::StrAppendFormat(&out, "\\u%04x", next.value);
    } else {
      absl::StrAppendFormat(&out, "\\U%08x", next.value);
    }
    text.remove_prefix(next.bytes);
  }
  out.push_back(quote);
}

absl::Status AppendRepr(const Value& value, Budget& budget, std::string& out);

absl::Status AppendSequence(const Sequence& sequence, Budget& budget, std::string& out) {
  const auto brackets = [&sequence]() -> std::pair<const char*, const char*> {
    switch (sequence.form) {
      case Sequence::Form::kTuple:
        return {"(", sequence.items.size() == 1 ? ",)" : ")"};
      case Sequence::Form::kKeys:
        return {"dict_keys([", "])"};
      case Sequence::Form::kValues:
        return {"dict_values([", "])"};
      case Sequence::Form::kItems:
        return {"dict_items([", "])"};
      default:
        return {"[", "]"};
    }
  };
  const auto [begin, end] = brackets();
  absl::StrAppend(&out, begin);
  bool first = true;
  for (const Value& item : sequence.items) {
    if (!first) out += ", ";
    first = false;
    MUSTER_RETURN_IF_ERROR(AppendRepr(item, budget, out));
  }
  absl::StrAppend(&out, end);
  return absl::OkStatus();
}

absl::Status AppendDictionary(const Dictionary& dictionary, Budget& budget, std::string& out) {
  out += "{";
  bool first = true;
  for (const auto& [key, value] : dictionary.items) {
    if (!first) out += ", ";
    first = false;
    MUSTER_RETURN_IF_ERROR(AppendRepr(key, budget, out));
    out += ": ";
    MUSTER_RETURN_IF_ERROR(AppendRepr(value, budget, out));
  }
  out += "}";
  return absl::OkStatus();
}

// REQUIRES: the value's weight is spent. Its depth is bounded by kMaxValueDepth.
absl::Status AppendRepr(const Value& value, Budget& budget, std::string& out) {
  MUSTER_RETURN_IF_ERROR(budget.CheckText(out.size()));
  if (value.Is<Undefined>()) {
    out += "Undefined";
  } else if (value.Is<None>()) {
    out += "None";
  } else if (const bool* truth = value.As<bool>()) {
    out += *truth ? "True" : "False";
  } else if (const int64_t* integer = value.As<int64_t>()) {
    absl::StrAppend(&out, *integer);
  } else if (const double* number = value.As<double>()) {
    out += FloatRepr(*number);
  } else if (value.text() != nullptr) {
    AppendStringRepr(*value.text(), out);
  } else if (value.dictionary() != nullptr) {
    return AppendDictionary(*value.dictionary(), budget, out);
  } else if (value.sequence() != nullptr && value.sequence()->form != Sequence::Form::kGenerator &&
             value.sequence()->form != Sequence::Form::kRange) {
    return AppendSequence(*value.sequence(), budget, out);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        KindOf(value), " has no text; print a part of it, or make it a list with the filter list"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 32> buffer;
  const auto scientific = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                        std::chars_format::scientific);
  const std::string digits(buffer.data(), scientific.ptr);
  const int exponent = std::atoi(digits.c_str() + digits.find('e') + 1);
  // Python's own bounds of the form without an exponent.
  if (exponent < -4 || exponent >= 16) return digits;
  std::array<char, 64> fixed;
  const auto end =
      std::to_chars(fixed.data(), fixed.data() + fixed.size(), value, std::chars_format::fixed);
  std::string text(fixed.data(), end.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

absl::StatusOr<std::string> Str(const Value& value, Budget& budget) {
  MUSTER_RETURN_IF_ERROR(budget.Spend(value.weight()));
  if (value.text() != nullptr) return *value.text();
  if (value.Is<Undefined>()) return "";
  std::string text;
  MUSTER_RETURN_IF_ERROR(AppendRepr(value, budget, text));
  return text;
}

}  // namespace muster
