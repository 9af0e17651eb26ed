#include "worker/data/datasets/text_dataset.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

#include "common/compression/packed_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/batch.h"
#include "worker/data/parsing/temp_files_for_testing.h"
#include "worker/data/shared_data_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TextDatasetTest : public testing::Test {
 protected:
  // All labels of the data at this path, as text.
  std::string TextAt(const std::string& path) {
    const auto dataset = TextDataset::Create(path, 0);
    if (!dataset.ok()) return std::string(dataset.status().message());
    Batch batch;
    std::string text;
    for (int64_t i = 0; i < (*dataset)->info().examples; ++i) {
      EXPECT_TRUE((*dataset)->Read({i}, batch).ok());
      text.push_back(static_cast<char>(batch.labels.at(0)));
    }
    return text;
  }

  const TempFolder folder_;
};

TEST_F(TextDatasetTest, ExamplesAreBytesAndThoseBeforeThem) {
  const auto dataset = TextDataset::Create(folder_.Write("text", "ab\xff\n"), 2);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo& info = (*dataset)->info();
  EXPECT_EQ(info.examples, 4);
  EXPECT_EQ(info.context, 2);
  EXPECT_EQ(info.vocabulary, 256);
  EXPECT_EQ(info.classes, 256);
  EXPECT_EQ(info.dense_features, 0);
  EXPECT_FALSE(info.sparse);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({0, 1, 3, 2}, batch).ok());
  EXPECT_EQ(batch.examples, 4);
  EXPECT_THAT(batch.labels, ElementsAre('a', 'b', '\n', 255));
  EXPECT_THAT(batch.tokens, ElementsAre(-1, -1, -1, 'a', 'b', 255, 'a', 'b'));
  ASSERT_TRUE((*dataset)->Read({}, batch).ok());
  EXPECT_EQ(batch.examples, 0);
  EXPECT_THAT(batch.labels, IsEmpty());
  EXPECT_THAT(batch.tokens, IsEmpty());
}

TEST_F(TextDatasetTest, AFolderIsItsFilesInNameOrderEachContentOnce) {
  folder_.Write("b", "second ");
  folder_.Write("a", "first ");
  folder_.Write("c", "first ");
  folder_.Write("d", "");
  folder_.Write("e", "third");
  std::filesystem::create_directory(folder_.path() + "/subfolder");
  folder_.Write("subfolder/f", "not searched");
  std::filesystem::create_symlink("b", folder_.path() + "/A-link-to-b");
  EXPECT_EQ(TextAt(folder_.path()), "second first third");
}

TEST_F(TextDatasetTest, ContextReachesOverTheFilesOfAFolder) {
  folder_.Write("a", "xy");
  folder_.Write("b", "z");
  folder_.Write("c", "uv");
  const auto dataset = TextDataset::Create(folder_.path(), 4);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({4, 2}, batch).ok());
  EXPECT_THAT(batch.labels, ElementsAre('v', 'z'));
  EXPECT_THAT(batch.tokens, ElementsAre('x', 'y', 'z', 'u', -1, -1, 'x', 'y'));
}

TEST_F(TextDatasetTest, FingerprintIsOfTheText) {
  const std::string one = folder_.Write("one", "abc");
  const std::string same = folder_.Write("same", "abc");
  const std::string other = folder_.Write("other", "abd");
  const uint64_t fingerprint = TextDataset::Create(one, 1).value()->fingerprint();
  EXPECT_EQ(TextDataset::Create(same, 5).value()->fingerprint(), fingerprint);
  EXPECT_NE(TextDataset::Create(other, 1).value()->fingerprint(), fingerprint);
}

TEST_F(TextDatasetTest, RefusesDataWithoutBytes) {
  const std::string empty = folder_.Write("empty", "");
  for (const std::string& path : {empty, folder_.path()}) {
    const auto dataset = TextDataset::Create(path, 1);
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << dataset.status();
    EXPECT_THAT(std::string(dataset.status().message()), HasSubstr(path));
  }
}

TEST_F(TextDatasetTest, RefusesWhatIsNoText) {
  const std::string path = folder_.Write("a.txt", Gzip("text"));
  const auto dataset = TextDataset::Create(path, 1);
  EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << dataset.status();
  EXPECT_THAT(std::string(dataset.status().message()),
              HasSubstr("'" + path + "' is compressed by gzip; unpack it first"));
}

TEST_F(TextDatasetTest, RefusesANegativeContext) {
  const auto dataset = TextDataset::Create(folder_.Write("text", "abc"), -1);
  EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(dataset.status().message()), HasSubstr("-1"));
}

TEST_F(TextDatasetTest, MissingPathsAndLinksToNowhereAreNotFoundByName) {
  const std::string absent = folder_.path() + "/absent";
  const auto missing = TextDataset::Create(absent, 1);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr(absent));
  folder_.Write("text", "abc");
  std::filesystem::create_symlink("absent", folder_.path() + "/link");
  const auto dangling = TextDataset::Create(folder_.path(), 1);
  EXPECT_EQ(dangling.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(dangling.status().message()), HasSubstr("/link"));
}

TEST_F(TextDatasetTest, ReadsShakespeare) {
  const auto path = SharedDataFile("tinyshakespeare.txt");
  if (!path.ok()) GTEST_SKIP() << path.status().message();
  const auto dataset = TextDataset::Create(*path, 5);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->info().examples, 1115394);
  const std::string text = TextAt(*path);
  EXPECT_EQ(text.substr(0, 14), "First Citizen:");
  std::array<bool, 256> seen = {};
  for (const char c : text) seen[static_cast<unsigned char>(c)] = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 65);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({6}, batch).ok());
  EXPECT_THAT(batch.tokens, ElementsAre('i', 'r', 's', 't', ' '));
  EXPECT_THAT(batch.labels, ElementsAre('C'));
}

}  // namespace
}  // namespace muster
