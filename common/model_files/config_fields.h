#ifndef MUSTER_COMMON_MODEL_FILES_CONFIG_FIELDS_H_
#define MUSTER_COMMON_MODEL_FILES_CONFIG_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// Reads the keys of a config.json one after another. The first that is wrong is remembered, and so
// is every key that was asked for, so that RefuseOthers finds those that nobody knows. `json` must
// outlive this object. Not thread-safe.
class ConfigFields {
 public:
  ConfigFields(const nlohmann::json& json, std::string origin);

  // InvalidArgument: a key was wrong; names origin, key, value and what is understood.
  const absl::Status& status() const { return status_; }

  // Whether the key is there, be it null.
  bool Has(const char* key) const { return json_.contains(key); }

  // The key's value; null if it is not there.
  const nlohmann::json& Get(const char* key);

  // A whole number from 1 to `most`; without a default the key must be there.
  uint32_t Count(const char* key, uint64_t most);
  uint32_t Count(const char* key, uint64_t most, uint32_t left_out);

  // A number above 0.
  float Positive(const char* key, float left_out);

  // A number from 0 to below 1.
  float Probability(const char* key, float left_out);

  bool Flag(const char* key, bool left_out);

  // Refuses another value than the expected one, which is what Muster computes anyway; what is not
  // there, or null, is that one. `instead` says what would work.
  void Expect(const char* key, const nlohmann::json& expected, absl::string_view instead = "");

  // The same where several names mean that computation.
  void ExpectOneOf(const char* key, absl::Span<const char* const> expected,
                   absl::string_view instead = "");

  // Notes keys whose values change nothing that the model computes.
  void Ignore(absl::Span<const char* const> keys);

  // Refuses the key with its value.
  void Refuse(const char* key, absl::string_view expected);

  // Refuses every key that nobody asked for; null is as if it were not there.
  void RefuseOthers();

 private:
  const nlohmann::json& json_;
  const std::string origin_;
  std::set<std::string> known_;
  absl::Status status_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_CONFIG_FIELDS_H_
