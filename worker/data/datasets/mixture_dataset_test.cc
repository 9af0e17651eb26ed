#include "worker/data/datasets/mixture_dataset.h"

#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/datasets/sequence_dataset.h"
#include "worker/data/parsing/temp_files_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MixtureDatasetTest : public testing::Test {
 protected:
  // Sequences of one byte each, since the last byte is only a label.
  MixtureDataset::Source Source(const std::string& name, const std::string& text) {
    folder_.Write(name, text);
    return {name,
            SequenceDataset::Create({.path = folder_.path() + "/" + name, .context = 1}).value()};
  }

  std::vector<MixtureDataset::Source> Three() {
    std::vector<MixtureDataset::Source> sources;
    sources.push_back(Source("a", "abcd."));
    sources.push_back(Source("b", "012."));
    sources.push_back(Source("c", "pqrstu."));
    return sources;
  }

  // Returns the examples at the indices, a byte each.
  static std::string Read(const Dataset& dataset, const std::vector<int64_t>& indices) {
    Batch batch;
    EXPECT_TRUE(dataset.Read(indices, batch).ok());
    EXPECT_EQ(batch.examples, indices.size());
    EXPECT_EQ(batch.labels.size(), indices.size());
    return {batch.tokens.begin(), batch.tokens.end()};
  }

  static std::string ReadAll(const Dataset& dataset) {
    std::vector<int64_t> indices(dataset.info().examples);
    std::iota(indices.begin(), indices.end(), 0);
    return Read(dataset, indices);
  }

  const TempFolder folder_;
};

TEST_F(MixtureDatasetTest, HasOneSourceAfterAnother) {
  const auto dataset = MixtureDataset::Create(Three(), 0).value();
  EXPECT_EQ(ReadAll(*dataset), "abcd012pqrstu");
  EXPECT_EQ(Read(*dataset, {12, 0, 5, 4}), "ua10");
  ASSERT_EQ(dataset->info().sources.size(), 3);
  EXPECT_EQ(dataset->info().sources[2].name, "c");
  EXPECT_EQ(dataset->info().sources[2].first, 7);
  EXPECT_EQ(dataset->info().sources[2].training, 6);
  Batch batch;
  ASSERT_TRUE(dataset->Read({{3, 7}}, batch).ok());
  EXPECT_THAT(batch.labels, ElementsAre('.', 'q'));
}

TEST_F(MixtureDatasetTest, HoldsOutTheEndOfEachSource) {
  // A third of 13 examples is 4.33: 4 in all.
  const auto dataset = MixtureDataset::Create(Three(), 1.0 / 3).value();
  EXPECT_EQ(ReadAll(*dataset),
            "abc01pqrs"
            "d2tu");
  EXPECT_EQ(dataset->info().sources[1].first, 3);
  EXPECT_EQ(dataset->info().sources[1].training, 2);
  EXPECT_EQ(ReadAll(*MixtureDataset::Create(Three(), 1).value()), "abcd012pqrstu");
}

TEST_F(MixtureDatasetTest, SourcesMayKeepTheirDocumentsApartOrNot) {
  std::filesystem::create_directory(folder_.path() + "/two");
  folder_.Write("two/1", "ab");
  folder_.Write("two/2", "cde");
  const auto open = [this](SequenceOptions::Packing packing) {
    return SequenceDataset::Create(
               {.path = folder_.path() + "/two", .context = 4, .packing = packing})
        .value();
  };
  std::vector<MixtureDataset::Source> sources;
  sources.push_back({"across", open(SequenceOptions::Packing::kAcrossDocuments)});
  sources.push_back({"within", open(SequenceOptions::Packing::kWithinDocuments)});
  sources.push_back({"whole", open(SequenceOptions::Packing::kWholeDocuments)});
  const auto dataset = MixtureDataset::Create(std::move(sources), 0).value();
  Batch batch;
  ASSERT_TRUE(dataset->Read({{0, 1, 2}}, batch).ok());
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3, 0, 1, 0, 1, 0, 0, 1, 0));
  EXPECT_THAT(batch.labels, ElementsAre('b', 'c', 'd', 'e', 'b', -1, 'd', 'e', 'b', 'd', 'e', -1));
  ASSERT_TRUE(dataset->Read({{0}}, batch).ok());
  EXPECT_TRUE(batch.positions.empty());
}

TEST_F(MixtureDatasetTest, FingerprintsTellSourcesApart) {
  const auto fingerprint = [this](const std::string& a, const std::string& b) {
    std::vector<MixtureDataset::Source> sources;
    sources.push_back(Source("a", a));
    sources.push_back(Source("b", b));
    return MixtureDataset::Create(std::move(sources), 0).value()->fingerprint();
  };
  EXPECT_EQ(fingerprint("one.", "two."), fingerprint("one.", "two."));
  EXPECT_NE(fingerprint("one.", "two."), fingerprint("two.", "one."));
  EXPECT_NE(fingerprint("one.", "two."), fingerprint("one.", "twi."));
}

TEST_F(MixtureDatasetTest, NamesASourceWithNothingToTrainOn) {
  std::vector<MixtureDataset::Source> sources;
  sources.push_back(Source("tiny", "x."));
  sources.push_back(Source("large", "abcdefgh."));
  const auto dataset = MixtureDataset::Create(std::move(sources), 0.5);
  EXPECT_THAT(std::string(dataset.status().message()),
              HasSubstr("nothing to train on of the mixture's source \"tiny\", which has 1 "
                        "example; hold out less"));
  EXPECT_THAT(std::string(MixtureDataset::Create({}, 0).status().message()),
              HasSubstr("without sources"));
}

}  // namespace
}  // namespace muster
