#ifndef MUSTER_WORKER_DATA_SAMPLING_MIXTURE_H_
#define MUSTER_WORKER_DATA_SAMPLING_MIXTURE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

// One of several sources whose examples are mixed.
struct MixtureSource {
  // Names the source in messages.
  std::string name;
  // Its training examples are [first, first + examples) of the dataset.
  int64_t first = 0;
  int64_t examples = 0;
  // Draws the source's order, epoch by epoch.
  uint64_t seed = 0;
  // The source's examples are used up after so many passes over them; 0: never.
  double epochs = 0;
};

// The sources' weights from a position on.
struct MixtureWeights {
  int64_t begin = 0;
  // One for each source, finite and at least 0. A source of weight 0 rests.
  std::vector<double> weights;
};

// An endless stream of examples of several sources. A pure function of a position, so whoever
// begins anywhere in it sees what all others see there.
//
// Sources come in proportion to their weights, evenly: before any position of a stream whose
// weights never change, the number of a source's examples differs from its share by less than the
// number of sources. The source of position p is found by asking one source after another. Source i
// has the share r of those positions that sources before it left, so it takes the q-th of them,
// from 0, if floor((q + 1) r) > floor(q r), and has taken floor(q r) by then. The last source takes
// what is left. So all counts follow from the position alone, in time of the number of sources.
//
// The k-th example of a source with n of them is permutation_{seed, k / n}(k mod n) of these
// (permutation.h). Adding a source, or changing weights, changes no source's own order. A source
// that is used up rests, and the others share what it leaves.
//
// Immutable, so thread-safe.
class Mixture {
 public:
  // The size of a stream that does not end.
  static constexpr int64_t kEndless = int64_t{1} << 62;
  static constexpr size_t kMostSources = 64;

  // `changes` are in order of their positions, of which the first is 0. InvalidArgument, naming the
  // source or the position: there is no source, or more than kMostSources; a source has no example;
  // weights are not as MixtureWeights says; or the first weights are all 0.
  static absl::StatusOr<std::unique_ptr<const Mixture>> Create(std::vector<MixtureSource> sources,
                                                               std::vector<MixtureWeights> changes);

  // Returns the number of positions that have an example, or kEndless. The stream ends where all
  // sources rest.
  int64_t size() const { return size_; }

  // Returns how many examples of a source lie before the position. REQUIRES: 0 <= position <=
  // size().
  int64_t CountBefore(int64_t position, int source) const;

  // Appends the dataset's indices of the examples at positions [begin, end). REQUIRES: 0 <= begin
  // <= end <= size().
  void Append(int64_t begin, int64_t end, std::vector<int64_t>& examples) const;

 private:
  // A part of the stream in which weights stay as they are.
  struct Part {
    int64_t begin = 0;
    // For each source, its share of what sources before it leave, in units of 2^-40.
    std::vector<uint64_t> shares;
    // For each source, the number of its examples before `begin`.
    std::vector<int64_t> counts;
  };

  explicit Mixture(std::vector<MixtureSource> sources) : sources_(std::move(sources)) {}

  void AddParts(const std::vector<MixtureWeights>& changes);
  // Returns the part of the position.
  const Part& PartOf(int64_t position) const;
  // Returns the number of a source's examples among the part's first `positions`.
  static int64_t CountIn(const Part& part, int64_t positions, size_t source);
  // Returns after how many positions of the part the source is used up, at most `most`.
  int64_t UsedUpAfter(const Part& part, size_t source, int64_t most) const;

  const std::vector<MixtureSource> sources_;
  // Const after Create.
  std::vector<Part> parts_;
  int64_t size_ = kEndless;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_MIXTURE_H_
