#include "common/job/validation/mixture_validator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/validation/invalid.h"
#include "common/text/did_you_mean.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr int kMostSources = 64;

bool IsName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

absl::Status CheckWeight(const std::string& field, double weight) {
  if (weight >= 0 && std::isfinite(weight)) return absl::OkStatus();
  return Invalid(field, weight, "it must be at least 0");
}

absl::Status CheckSource(const std::string& field, const v1::MixtureSource& source) {
  if (!IsName(source.name())) {
    return Invalid(absl::StrCat(field, ".name"), absl::StrCat("\"", source.name(), "\""),
                   "give a name of letters, digits, \"-\", \"_\" and \".\"");
  }
  MUSTER_RETURN_IF_ERROR(ValidateSequences(absl::StrCat(field, ".sequences"), source.sequences()));
  MUSTER_RETURN_IF_ERROR(CheckWeight(absl::StrCat(field, ".weight"), source.weight()));
  if (source.epochs() >= 0 && std::isfinite(source.epochs())) return absl::OkStatus();
  return Invalid(absl::StrCat(field, ".epochs"), source.epochs(),
                 "give a number above 0, or 0 for any number of passes");
}

// Sets the weights that the change names.
absl::Status Change(const std::string& field, const v1::MixtureChange& change,
                    std::map<std::string, double>& weights) {
  for (const auto& [name, weight] : change.weights()) {
    const std::string path = absl::StrCat(field, ".weights.", name);
    MUSTER_RETURN_IF_ERROR(CheckWeight(path, weight));
    const auto found = weights.find(name);
    if (found == weights.end()) {
      std::vector<std::string> names;
      for (const auto& [known, unused] : weights) names.push_back(known);
      return absl::InvalidArgumentError(
          absl::StrCat(path, " names no source of the mixture", DidYouMean(name, names)));
    }
    found->second = weight;
  }
  return absl::OkStatus();
}

absl::Status CheckSum(const std::string& when, const std::map<std::string, double>& weights) {
  double sum = 0;
  for (const auto& [name, weight] : weights) sum += weight;
  if (sum > 0 && std::isfinite(sum)) return absl::OkStatus();
  return Invalid(absl::StrCat("the sum of data.mixture's weights", when), sum,
                 "give at least one source a weight above 0");
}

}  // namespace

absl::Status ValidateSequences(const std::string& field, const v1::SequenceData& sequences) {
  if (!v1::SequenceData::Packing_IsValid(sequences.packing())) {
    return Invalid(absl::StrCat(field, ".packing"), absl::StrCat(sequences.packing()),
                   "this release does not know it; leave it out for the usual one");
  }
  if (!sequences.path().empty()) return absl::OkStatus();
  return Invalid(absl::StrCat(field, ".path"), "empty", "give a path that every worker can read");
}

absl::Status ValidateMixture(const v1::MixtureData& mixture) {
  if (mixture.sources().empty() || mixture.sources_size() > kMostSources) {
    return Invalid("data.mixture.sources", absl::StrCat(mixture.sources_size(), " sources"),
                   absl::StrCat("name 1 to ", kMostSources));
  }
  std::map<std::string, double> weights;
  for (int i = 0; i < mixture.sources_size(); ++i) {
    const v1::MixtureSource& source = mixture.sources(i);
    const std::string field = absl::StrCat("data.mixture.sources[", i, "]");
    MUSTER_RETURN_IF_ERROR(CheckSource(field, source));
    if (!weights.emplace(source.name(), source.weight()).second) {
      return Invalid(absl::StrCat(field, ".name"), absl::StrCat("\"", source.name(), "\""),
                     "another source has this name; give each its own");
    }
  }
  MUSTER_RETURN_IF_ERROR(CheckSum("", weights));
  uint64_t before = 0;
  for (int i = 0; i < mixture.changes_size(); ++i) {
    const v1::MixtureChange& change = mixture.changes(i);
    const std::string field = absl::StrCat("data.mixture.changes[", i, "]");
    if (change.step() <= before) {
      return Invalid(absl::StrCat(field, ".step"), change.step(),
                     absl::StrCat("changes come in order of steps; give a step after ", before));
    }
    before = change.step();
    MUSTER_RETURN_IF_ERROR(Change(field, change, weights));
    MUSTER_RETURN_IF_ERROR(CheckSum(absl::StrCat(" from step ", before, " on"), weights));
  }
  return absl::OkStatus();
}

}  // namespace muster
