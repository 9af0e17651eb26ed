#include "worker/data/sampling/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/sampling/permutation.h"
#include "worker/data/sampling/sampler.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sources of these sizes, one after another in a dataset.
std::vector<MixtureSource> Sources(const std::vector<int64_t>& sizes) {
  std::vector<MixtureSource> sources;
  int64_t first = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    sources.push_back(
        {.name = absl::StrCat("source", i), .first = first, .examples = sizes[i], .seed = 100 + i});
    first += sizes[i];
  }
  return sources;
}

std::shared_ptr<const Mixture> Make(std::vector<MixtureSource> sources,
                                    std::vector<MixtureWeights> changes) {
  return Mixture::Create(std::move(sources), std::move(changes)).value();
}

// Returns which source each of the first positions has.
std::vector<int> SourcesOf(const Mixture& mixture, const std::vector<MixtureSource>& sources,
                           int64_t positions) {
  std::vector<int64_t> examples;
  mixture.Append(0, positions, examples);
  std::vector<int> found;
  for (const int64_t example : examples) {
    int source = 0;
    while (example >= sources[source].first + sources[source].examples) ++source;
    found.push_back(source);
  }
  return found;
}

TEST(MixtureTest, SourcesComeEvenlyByTheirWeights) {
  const std::vector<MixtureSource> sources = Sources({10, 10, 10});
  const auto mixture = Make(sources, {{.begin = 0, .weights = {1, 2, 1}}});
  EXPECT_THAT(SourcesOf(*mixture, sources, 12), ElementsAre(2, 1, 1, 0, 2, 1, 1, 0, 2, 1, 1, 0));
  EXPECT_EQ(mixture->size(), Mixture::kEndless);
}

TEST(MixtureTest, ASourceIsUsedUpAfterItsEpochsAndOthersShareItsPlace) {
  std::vector<MixtureSource> sources = Sources({4, 100, 100});
  sources[0].epochs = 1.5;
  const auto mixture = Make(sources, {{.begin = 0, .weights = {2, 1, 1}}});
  // Six examples of source 0, every other one.
  EXPECT_EQ(mixture->CountBefore(12, 0), 6);
  EXPECT_EQ(mixture->CountBefore(1000, 0), 6);
  EXPECT_EQ(mixture->CountBefore(1012, 1), 3 + 500);
  EXPECT_EQ(mixture->size(), Mixture::kEndless);
}

TEST(MixtureTest, TheStreamEndsWhereAllSourcesAreUsedUp) {
  std::vector<MixtureSource> sources = Sources({7, 5});
  sources[0].epochs = 2;
  sources[1].epochs = 3;
  const auto mixture = Make(sources, {{.begin = 0, .weights = {0.9, 0.1}}});
  ASSERT_EQ(mixture->size(), 7 * 2 + 5 * 3);
  std::vector<int64_t> examples;
  mixture->Append(0, mixture->size(), examples);
  for (int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(std::count(examples.begin(), examples.end(), i), i < 7 ? 2 : 3) << i;
  }
}

TEST(MixtureTest, WeightsChangeAtTheirPosition) {
  const std::vector<MixtureSource> sources = Sources({10, 10});
  const auto mixture = Make(sources, {{.begin = 0, .weights = {1, 0}},
                                      {.begin = 5, .weights = {0, 1}},
                                      {.begin = 7, .weights = {1, 1}}});
  EXPECT_THAT(SourcesOf(*mixture, sources, 11), ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 0));
  // Later weights of nothing end the stream.
  EXPECT_EQ(
      Make(sources, {{.begin = 0, .weights = {1, 0}}, {.begin = 5, .weights = {0, 0}}})->size(), 5);
}

// A source's own examples are its epochs, one after another, whatever the others are.
void CheckOrders(const Mixture& mixture, const std::vector<MixtureSource>& sources,
                 int64_t positions) {
  std::vector<int64_t> examples;
  mixture.Append(0, positions, examples);
  ASSERT_EQ(examples.size(), positions);
  std::vector<int64_t> counts(sources.size(), 0);
  for (int64_t position = 0; position < positions; ++position) {
    for (size_t i = 0; i < sources.size(); ++i) {
      ASSERT_EQ(mixture.CountBefore(position, static_cast<int>(i)), counts[i])
          << "position " << position << " source " << i;
      const int64_t example = examples[position] - sources[i].first;
      if (example < 0 || example >= sources[i].examples) continue;
      const int64_t n = sources[i].examples;
      const Permutation order(sources[i].seed, static_cast<uint64_t>(counts[i] / n), n);
      ASSERT_EQ(example, order(counts[i] % n)) << "position " << position;
      ++counts[i];
    }
    ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), position + 1);
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].epochs <= 0) continue;
    EXPECT_LE(counts[i],
              std::max<int64_t>(1, std::llround(sources[i].epochs * sources[i].examples)));
  }
}

TEST(MixtureTest, RandomMixturesKeepTheirSharesAndOrders) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const int count = 1 + static_cast<int>(random() % 7);
    std::vector<int64_t> sizes;
    for (int i = 0; i < count; ++i) sizes.push_back(1 + static_cast<int64_t>(random() % 40));
    std::vector<MixtureSource> sources = Sources(sizes);
    for (MixtureSource& source : sources) {
      if (random() % 3 == 0) source.epochs = 0.25 * static_cast<double>(1 + random() % 12);
    }
    std::vector<MixtureWeights> changes;
    int64_t begin = 0;
    for (int i = 0; i < 1 + static_cast<int>(random() % 3); ++i) {
      MixtureWeights& change = changes.emplace_back();
      change.begin = begin;
      for (int j = 0; j < count; ++j) {
        change.weights.push_back(random() % 4 == 0 ? 0.0
                                                   : std::exp2(static_cast<int>(random() % 9)));
      }
      change.weights[random() % count] = 1;
      begin += static_cast<int64_t>(random() % 200);
    }
    const auto mixture = Make(sources, changes);
    CheckOrders(*mixture, sources, std::min<int64_t>(600, mixture->size()));
  }
}

TEST(MixtureTest, CountsStayNearTheirSharesForEver) {
  const std::vector<double> weights = {0.001, 3, 0.5, 17, 1.25};
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto mixture = Make(Sources({3, 5, 7, 11, 13}), {{.begin = 0, .weights = weights}});
  for (const int64_t position : {int64_t{10}, int64_t{1000}, int64_t{123456}, int64_t{10000000}}) {
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(mixture->CountBefore(position, static_cast<int>(i))),
                  static_cast<double>(position) * weights[i] / sum, weights.size());
    }
  }
}

// Whoever begins anywhere sees what all others see there: what any number of data ranks joined
// train on at a clock.
TEST(MixtureTest, AnyDataRanksGoOnWithTheVeryExamples) {
  std::vector<MixtureSource> sources = Sources({31, 17, 50});
  sources[1].epochs = 2;
  const std::shared_ptr<const Mixture> mixture =
      Make(sources, {{.begin = 0, .weights = {3, 2, 1}}, {.begin = 60, .weights = {1, 1, 4}}});
  std::vector<int64_t> alone;
  mixture->Append(0, 12 * 20, alone);
  std::vector<int64_t> seen;
  int64_t clock = 0;
  for (const int data_ranks : {1, 3, 2}) {
    const auto sampler = Sampler::Create({.data_ranks = data_ranks,
                                          .batches = StepBatches(12),
                                          .training_examples = 98,
                                          .job_data_ranks = 3,
                                          .mixture = mixture})
                             .value();
    for (const int64_t end = clock + 5; clock < end; ++clock) {
      std::vector<int64_t> part;
      for (int rank = 0; rank < data_ranks; ++rank) {
        for (int64_t i = 0; i < sampler->MicroBatches(clock); ++i) {
          sampler->MicroBatchExamples(clock, rank, i, part);
          seen.insert(seen.end(), part.begin(), part.end());
        }
      }
    }
  }
  alone.resize(seen.size());
  EXPECT_EQ(seen.size(), 12 * 15);
  EXPECT_EQ(seen, alone);
}

TEST(MixtureTest, NamesWhatIsWrong) {
  const auto error = [](std::vector<MixtureSource> sources, std::vector<MixtureWeights> changes) {
    return std::string(Mixture::Create(std::move(sources), std::move(changes)).status().message());
  };
  EXPECT_THAT(error({}, {{.begin = 0, .weights = {}}}), HasSubstr("a mixture of 0 sources"));
  EXPECT_THAT(error(Sources({3, 0}), {{.begin = 0, .weights = {1, 1}}}),
              HasSubstr("\"source1\" has no example"));
  EXPECT_THAT(error(Sources({3}), {{.begin = 0, .weights = {-1}}}), HasSubstr("source0\" is -1"));
  EXPECT_THAT(error(Sources({3}), {{.begin = 0, .weights = {NAN}}}), HasSubstr("source0\" is nan"));
  EXPECT_THAT(error(Sources({3, 3}), {{.begin = 0, .weights = {1e308, 1e308}}}),
              HasSubstr("no finite sum"));
  EXPECT_THAT(error(Sources({3}), {{.begin = 0, .weights = {0}}}), HasSubstr("weight 0"));
  EXPECT_THAT(error(Sources({3}), {{.begin = 0, .weights = {1, 1}}}),
              HasSubstr("2 weights for 1 sources"));
  EXPECT_THAT(error(Sources({3}), {{.begin = 0, .weights = {1}},
                                   {.begin = 9, .weights = {1}},
                                   {.begin = 4, .weights = {1}}}),
              HasSubstr("position 4 after those at 9"));
}

}  // namespace
}  // namespace muster
