#ifndef MUSTER_COMMON_MODEL_FILES_CONFIG_FIELDS_H_
#define MUSTER_COMMON_MODEL_FILES_CONFIG_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// Reads the keys of a config.json one after another. Remembers the first key that is wrong, and
// every key that was asked for, so that RefuseOthers finds unknown keys. `json` must outlive this
// object. Not thread-safe.
class ConfigFields {
 public:
  ConfigFields(const nlohmann::json& json, std::string origin);

  // InvalidArgument: a key was wrong; names origin, key, value and what is supported.
  const absl::Status& status() const { return status_; }

  // Returns true if the key is there, even with the value null.
  bool Has(const char* key) const { return json_.contains(key); }

  // Returns the key's value; null if the key is not there.
  const nlohmann::json& Get(const char* key);

  // Returns a whole number from 1 to `most`. Without a default the key must be there.
  uint32_t Count(const char* key, uint64_t most);
  uint32_t Count(const char* key, uint64_t most, uint32_t left_out);

  // Returns a whole number from 0 to `most`; 0 if the key is not there or null.
  uint32_t CountOrNone(const char* key, uint64_t most);

  // Returns a list of whole numbers from 0 to below `end`; an empty one if the key is not there or
  // null.
  std::vector<uint32_t> Indices(const char* key, uint64_t end);

  // Returns a finite number of at least 0.
  double NotNegative(const char* key, double left_out);

  // Returns a number above 0.
  float Positive(const char* key, float left_out);

  // Returns a number from 0 to below 1.
  float Probability(const char* key, float left_out);

  bool Flag(const char* key, bool left_out);

  // Refuses any value but the expected one, which is what Muster computes. A missing key or null
  // counts as expected. `instead` says what would work.
  void Expect(const char* key, const nlohmann::json& expected, absl::string_view instead = "");

  // Like Expect, if several values mean the same computation.
  void ExpectOneOf(const char* key, absl::Span<const char* const> expected,
                   absl::string_view instead = "");

  // Notes keys whose values change nothing that the model computes.
  void Ignore(absl::Span<const char* const> keys);

  // Refuses the key with its value.
  void Refuse(const char* key, absl::string_view expected);

  // Refuses every key that was not asked for, unless its value is null.
  void RefuseOthers();

 private:
  const nlohmann::json& json_;
  const std::string origin_;
  std::set<std::string> known_;
  absl::Status status_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_CONFIG_FIELDS_H_
