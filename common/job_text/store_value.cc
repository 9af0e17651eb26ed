#include "common/job_text/store_value.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/text/did_you_mean.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace muster {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

absl::Status Expected(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", what));
}

bool CountsBytes(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64 &&
         absl::EndsWith(field.name(), "_bytes");
}

std::optional<absl::int128> WholeNumber(const std::string& text) {
  uint64_t positive = 0;
  if (absl::SimpleAtoi(text, &positive)) return positive;
  int64_t any = 0;
  if (absl::SimpleAtoi(text, &any)) return any;
  // Up to here every whole number is exact.
  constexpr double kMostExact = 9007199254740992;
  double number = 0;
  if (absl::SimpleAtod(text, &number) && std::abs(number) <= kMostExact &&
      std::floor(number) == number) {
    return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

// Reads a size as flags do.
std::optional<absl::int128> Size(std::string text) {
  try {
    if (!CLI::AsSizeValue(/*kb_is_1000=*/false)(text).empty()) return std::nullopt;
  } catch (const CLI::ValidationError&) {
    return std::nullopt;
  }
  return WholeNumber(text);
}

// Within what the field's type holds.
template <typename T>
absl::StatusOr<T> ParseWhole(const std::string& text, const FieldDescriptor& field) {
  std::optional<absl::int128> number = WholeNumber(text);
  const bool bytes = CountsBytes(field);
  if (!number.has_value() && bytes) number = Size(text);
  constexpr T kLeast = std::numeric_limits<T>::min();
  constexpr T kMost = std::numeric_limits<T>::max();
  if (number.has_value() && *number >= kLeast && *number <= kMost) return static_cast<T>(*number);
  if (bytes) return Expected("a number of bytes, such as 65536, 64KiB or 1GiB");
  return Expected(absl::StrCat("a whole number from ", kLeast, " to ", kMost));
}

template <typename T>
absl::StatusOr<T> ParseFloating(const std::string& text) {
  double number = 0;
  if (!absl::SimpleAtod(text, &number)) return Expected("a number, such as 0.1 or 3e-4");
  if (std::isfinite(number) && std::abs(number) > std::numeric_limits<T>::max()) {
    return Expected(absl::StrCat("a number of at most ", std::numeric_limits<T>::max()));
  }
  return static_cast<T>(number);
}

absl::StatusOr<bool> ParseBool(const std::string& text) {
  const std::string word = absl::AsciiStrToLower(text);
  for (const char* yes : {"true", "yes", "on", "t", "1"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"false", "no", "off", "f", "0"}) {
    if (word == no) return false;
  }
  return Expected("true or false");
}

absl::StatusOr<const EnumValueDescriptor*> ParseEnum(const std::string& text,
                                                     const EnumDescriptor& type) {
  const std::string name = absl::AsciiStrToUpper(absl::StrReplaceAll(text, {{"-", "_"}}));
  if (const EnumValueDescriptor* value = type.FindValueByName(name)) return value;
  int number = 0;
  if (absl::SimpleAtoi(text, &number)) {
    if (const EnumValueDescriptor* value = type.FindValueByNumber(number)) return value;
  }
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    // 0 stands for left out.
    if (type.value(i)->number() != 0) names.push_back(type.value(i)->name());
  }
  return Expected(absl::StrCat(names.size() == 1 ? "" : "one of ", absl::StrJoin(names, ", "),
                               DidYouMean(text, names)));
}

}  // namespace

absl::Status StoreValue(const TextNode& node, const FieldDescriptor& field, Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const bool add = field.is_repeated();
  const std::string& text = node.value;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: {
      MUSTER_ASSIGN_OR_RETURN(const uint32_t value, ParseWhole<uint32_t>(text, field));
      add ? reflection.AddUInt32(&message, &field, value)
          : reflection.SetUInt32(&message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      MUSTER_ASSIGN_OR_RETURN(const uint64_t value, ParseWhole<uint64_t>(text, field));
      add ? reflection.AddUInt64(&message, &field, value)
          : reflection.SetUInt64(&message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      MUSTER_ASSIGN_OR_RETURN(const int32_t value, ParseWhole<int32_t>(text, field));
      add ? reflection.AddInt32(&message, &field, value)
          : reflection.SetInt32(&message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      MUSTER_ASSIGN_OR_RETURN(const int64_t value, ParseWhole<int64_t>(text, field));
      add ? reflection.AddInt64(&message, &field, value)
          : reflection.SetInt64(&message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      MUSTER_ASSIGN_OR_RETURN(const float value, ParseFloating<float>(text));
      add ? reflection.AddFloat(&message, &field, value)
          : reflection.SetFloat(&message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      MUSTER_ASSIGN_OR_RETURN(const double value, ParseFloating<double>(text));
      add ? reflection.AddDouble(&message, &field, value)
          : reflection.SetDouble(&message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      MUSTER_ASSIGN_OR_RETURN(const bool value, ParseBool(text));
      add ? reflection.AddBool(&message, &field, value)
          : reflection.SetBool(&message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      MUSTER_ASSIGN_OR_RETURN(const EnumValueDescriptor* value,
                              ParseEnum(text, *field.enum_type()));
      add ? reflection.AddEnum(&message, &field, value)
          : reflection.SetEnum(&message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_STRING:
      if (!node.may_be_text) return Expected("a text, in quotes");
      add ? reflection.AddString(&message, &field, text)
          : reflection.SetString(&message, &field, text);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return Expected("a group of fields");
}

}  // namespace muster
