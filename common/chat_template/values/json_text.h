#ifndef MUSTER_COMMON_CHAT_TEMPLATE_VALUES_JSON_TEXT_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_VALUES_JSON_TEXT_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/chat_template/values/budget.h"
#include "common/chat_template/values/value.h"

namespace muster {

// Returns the value of a JSON text that was parsed. Fails where lists and objects lie too deeply in
// one another, and for integers that are not int64_t.
absl::StatusOr<Value> ValueOfJson(const nlohmann::ordered_json& json);

struct JsonTextOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  // A line is indented by this for each level; without it all is one line.
  std::optional<std::string> indent;
  // "," and ": " by default, and a space after the comma on one line.
  std::optional<std::string> item_separator;
  std::optional<std::string> key_separator;
};

// Python's json.dumps. Fails for what is no JSON.
absl::StatusOr<std::string> JsonText(const Value& value, const JsonTextOptions& options,
                                     Budget& budget);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_VALUES_JSON_TEXT_H_
