#include "common/model_files/config_fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/text/dump_json.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

using Json = nlohmann::json;

// Bytes of a value as an error shows it.
constexpr size_t kMostShown = 160;

std::string Shown(const Json& value) {
  const std::string text = DumpJson(value);
  const absl::string_view shown = CutUtf8(text, kMostShown);
  return absl::StrCat(shown, shown.size() < text.size() ? "…" : "");
}

std::string With(absl::string_view expected, absl::string_view instead) {
  return absl::StrCat(expected, instead.empty() ? "" : "; ", instead);
}

}  // namespace

ConfigFields::ConfigFields(const Json& json, std::string origin)
    : json_(json), origin_(std::move(origin)) {}

const Json& ConfigFields::Get(const char* key) {
  static const Json null;
  known_.insert(key);
  const auto found = json_.find(key);
  return found == json_.end() ? null : *found;
}

uint32_t ConfigFields::Count(const char* key, uint64_t most) {
  const Json& value = Get(key);
  if (!value.is_number_integer() || value < Json(1) || value > Json(most)) {
    Refuse(key, absl::StrCat("expected a whole number from 1 to ", most));
    return 1;
  }
  return value.get<uint32_t>();
}

uint32_t ConfigFields::Count(const char* key, uint64_t most, uint32_t left_out) {
  return Get(key).is_null() ? left_out : Count(key, most);
}

uint32_t ConfigFields::CountOrNone(const char* key, uint64_t most) {
  const Json& value = Get(key);
  return value.is_null() || value == Json(0) ? 0 : Count(key, most);
}

std::vector<uint32_t> ConfigFields::Indices(const char* key, uint64_t end) {
  const Json& value = Get(key);
  if (value.is_null()) return {};
  const auto is_index = [end](const Json& each) {
    return each.is_number_integer() && each >= Json(0) && each < Json(end);
  };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_index)) {
    Refuse(key, absl::StrCat("expected a list of whole numbers from 0 to below ", end));
    return {};
  }
  return value.get<std::vector<uint32_t>>();
}

double ConfigFields::NotNegative(const char* key, double left_out) {
  const Json& value = Get(key);
  if (value.is_null()) return left_out;
  if (!value.is_number() || !(value.get<double>() >= 0) || !std::isfinite(value.get<double>())) {
    Refuse(key, "expected a number of at least 0");
    return left_out;
  }
  return value.get<double>();
}

float ConfigFields::Positive(const char* key, float left_out) {
  const Json& value = Get(key);
  if (value.is_null()) return left_out;
  if (!value.is_number() || !(value.get<double>() > 0)) {
    Refuse(key, "expected a number above 0");
    return left_out;
  }
  return value.get<float>();
}

float ConfigFields::Probability(const char* key, float left_out) {
  const Json& value = Get(key);
  if (value.is_null()) return left_out;
  if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() < 1)) {
    Refuse(key, "expected a number from 0 to below 1");
    return left_out;
  }
  return value.get<float>();
}

bool ConfigFields::Flag(const char* key, bool left_out) {
  const Json& value = Get(key);
  if (value.is_null()) return left_out;
  if (!value.is_boolean()) {
    Refuse(key, "expected true or false");
    return left_out;
  }
  return value.get<bool>();
}

void ConfigFields::Expect(const char* key, const Json& expected, absl::string_view instead) {
  if (Get(key).is_null() || Get(key) == expected) return;
  Refuse(key, With(expected.is_null() ? "only models without it are understood"
                                      : absl::StrCat("only ", Shown(expected), " is understood"),
                   instead));
}

void ConfigFields::ExpectOneOf(const char* key, absl::Span<const char* const> expected,
                               absl::string_view instead) {
  const Json& value = Get(key);
  const auto is_value = [&value](const char* each) { return value == Json(each); };
  if (value.is_null() || std::any_of(expected.begin(), expected.end(), is_value)) return;
  Refuse(key, With(absl::StrCat("only \"", absl::StrJoin(expected, "\" and \""),
                                expected.size() == 1 ? "\" is understood" : "\" are understood"),
                   instead));
}

void ConfigFields::Ignore(absl::Span<const char* const> keys) {
  known_.insert(keys.begin(), keys.end());
}

void ConfigFields::Refuse(const char* key, absl::string_view expected) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrCat(origin_, ": ", key, " is ", Shown(Get(key)), "; ", expected));
}

void ConfigFields::RefuseOthers() {
  for (const auto& item : json_.items()) {
    if (item.value().is_null() || known_.count(item.key()) > 0) continue;
    Refuse(item.key().c_str(),
           "no such key is known for this model_type, and it may change what the model computes; "
           "if it does not, take it out of the file");
  }
}

}  // namespace muster
