#include "worker/data/sampling/mixture.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/memory/memory.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/sampling/permutation.h"

namespace muster {
namespace {

constexpr int kShareBits = 40;
constexpr uint64_t kWhole = uint64_t{1} << kShareBits;

// Returns how many of the first `positions` a share takes. REQUIRES: 0 <= positions <= 2^62.
int64_t Taken(int64_t positions, uint64_t share) {
  return static_cast<int64_t>(
      absl::Uint128Low64((absl::uint128(static_cast<uint64_t>(positions)) * share) >> kShareBits));
}

// Returns for each weight its share of itself and those after it.
std::vector<uint64_t> SharesOf(const std::vector<double>& weights) {
  std::vector<uint64_t> shares(weights.size(), 0);
  double left = 0;
  for (size_t i = weights.size(); i-- > 0;) {
    // The last source with a weight takes all that is left.
    shares[i] = left == 0 ? (weights[i] > 0 ? kWhole : 0)
                          : static_cast<uint64_t>(std::llround(static_cast<double>(kWhole) *
                                                               (weights[i] / (weights[i] + left))));
    left += weights[i];
  }
  return shares;
}

bool AllZero(const std::vector<double>& weights) {
  return std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; });
}

absl::Status CheckSources(const std::vector<MixtureSource>& sources) {
  if (sources.empty() || sources.size() > Mixture::kMostSources) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a mixture of ", sources.size(), " sources; it may have 1 to ", Mixture::kMostSources));
  }
  for (const MixtureSource& source : sources) {
    if (source.examples < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the mixture's source \"", source.name,
                       "\" has no example to train on; give it more data, or leave it out"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWeights(const MixtureWeights& change, const std::vector<MixtureSource>& sources) {
  if (change.weights.size() != sources.size()) {
    return absl::InvalidArgumentError(absl::StrCat(change.weights.size(), " weights for ",
                                                   sources.size(), " sources of a mixture"));
  }
  double sum = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    // Written so that NaN fails too.
    if (!(change.weights[i] >= 0)) {
      return absl::InvalidArgumentError(absl::StrCat("the weight of the mixture's source \"",
                                                     sources[i].name, "\" is ", change.weights[i],
                                                     "; it must be at least 0"));
    }
    sum += change.weights[i];
  }
  if (std::isfinite(sum)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the weights of the mixture's sources have no finite sum; give smaller ones");
}

// Returns after how many examples the source is used up.
int64_t LimitOf(const MixtureSource& source) {
  const double limit = source.epochs * static_cast<double>(source.examples);
  if (source.epochs <= 0 || limit >= static_cast<double>(Mixture::kEndless)) {
    return Mixture::kEndless;
  }
  return std::max<int64_t>(1, std::llround(limit));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Mixture>> Mixture::Create(
    std::vector<MixtureSource> sources, std::vector<MixtureWeights> changes) {
  MUSTER_RETURN_IF_ERROR(CheckSources(sources));
  if (changes.empty() || changes[0].begin != 0) {
    return absl::InvalidArgumentError("the weights of a mixture must begin at position 0");
  }
  for (size_t i = 0; i < changes.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(CheckWeights(changes[i], sources));
    if (i > 0 && changes[i].begin < changes[i - 1].begin) {
      return absl::InvalidArgumentError(absl::StrCat("the weights of a mixture change at position ",
                                                     changes[i].begin, " after those at ",
                                                     changes[i - 1].begin, "; put them in order"));
    }
  }
  if (AllZero(changes[0].weights)) {
    return absl::InvalidArgumentError(
        "all sources of the mixture have weight 0; give one a weight above 0");
  }
  auto mixture = absl::WrapUnique(new Mixture(std::move(sources)));
  mixture->AddParts(changes);
  return std::unique_ptr<const Mixture>(std::move(mixture));
}

void Mixture::AddParts(const std::vector<MixtureWeights>& changes) {
  const size_t sources = sources_.size();
  Part part{.begin = 0, .shares = {}, .counts = std::vector<int64_t>(sources, 0)};
  // Each turn reaches the next change, or uses a source up for good.
  for (size_t change = 0;;) {
    while (change + 1 < changes.size() && changes[change + 1].begin <= part.begin) ++change;
    std::vector<double> weights = changes[change].weights;
    for (size_t i = 0; i < sources; ++i) {
      if (part.counts[i] >= LimitOf(sources_[i])) weights[i] = 0;
    }
    if (AllZero(weights)) {
      size_ = part.begin;
      return;
    }
    part.shares = SharesOf(weights);
    parts_.push_back(part);
    int64_t positions =
        (change + 1 < changes.size() ? changes[change + 1].begin : kEndless) - part.begin;
    for (size_t i = 0; i < sources; ++i) {
      positions = std::min(positions, UsedUpAfter(part, i, positions));
    }
    if (positions >= kEndless - part.begin) return;
    for (size_t i = 0; i < sources; ++i) part.counts[i] += CountIn(parts_.back(), positions, i);
    part.begin += positions;
  }
}

const Mixture::Part& Mixture::PartOf(int64_t position) const {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), position,
                       [](int64_t wanted, const Part& part) { return wanted < part.begin; });
  return *(after - 1);
}

int64_t Mixture::CountIn(const Part& part, int64_t positions, size_t source) {
  for (size_t i = 0; i < source; ++i) positions -= Taken(positions, part.shares[i]);
  return Taken(positions, part.shares[source]);
}

int64_t Mixture::UsedUpAfter(const Part& part, size_t source, int64_t most) const {
  const int64_t left = LimitOf(sources_[source]) - part.counts[source];
  if (part.shares[source] == 0 || left <= 0 || CountIn(part, most, source) < left) return most;
  // The count never falls from one position to the next.
  int64_t fewer = 0;
  int64_t enough = most;
  while (fewer + 1 < enough) {
    const int64_t middle = fewer + (enough - fewer) / 2;
    (CountIn(part, middle, source) < left ? fewer : enough) = middle;
  }
  return enough;
}

int64_t Mixture::CountBefore(int64_t position, int source) const {
  const Part& part = PartOf(position);
  return part.counts[source] + CountIn(part, position - part.begin, source);
}

void Mixture::Append(int64_t begin, int64_t end, std::vector<int64_t>& examples) const {
  struct Order {
    int64_t epoch;
    Permutation permutation;
  };
  std::vector<std::optional<Order>> orders(sources_.size());
  for (int64_t position = begin; position < end; ++position) {
    const Part& part = PartOf(position);
    // Positions that sources before this one leave, before this position.
    int64_t left = position - part.begin;
    size_t i = 0;
    int64_t taken = Taken(left, part.shares[i]);
    while (Taken(left + 1, part.shares[i]) == taken) {
      left -= taken;
      taken = Taken(left, part.shares[++i]);
    }
    const MixtureSource& source = sources_[i];
    const int64_t example = part.counts[i] + taken;
    const int64_t epoch = example / source.examples;
    if (!orders[i].has_value() || orders[i]->epoch != epoch) {
      orders[i].emplace(
          Order{epoch, Permutation(source.seed, static_cast<uint64_t>(epoch), source.examples)});
    }
    examples.push_back(source.first + orders[i]->permutation(example % source.examples));
  }
}

}  // namespace muster
