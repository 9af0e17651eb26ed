#include "client/job_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/tokenizer/bpe_tokenizer.h"
#include "common/tokenizer/byte_tokenizer.h"
#include "common/tokenizer/token_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(JobFileTest, ReadsTextFormatAndJson) {
  v1::JobSpec text, json;
  ASSERT_TRUE(ParseJob("workers: 2 update { staleness_bound: 4 }", "a", text).ok());
  ASSERT_TRUE(ParseJob(" {\"workers\": 2, \"update\": {\"staleness_bound\": 4}}", "b", json).ok());
  EXPECT_EQ(text.SerializeAsString(), json.SerializeAsString());
}

TEST(JobFileTest, ErrorsNameOriginAndPlace) {
  v1::JobSpec spec;
  const absl::Status status = ParseJob("workers: 2\nwokers: 3\n", "job.textproto", spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("job.textproto:2:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("wokers"));
  EXPECT_THAT(std::string(ParseJob("{\"wokers\": 1}", "job.json", spec).message()),
              HasSubstr("wokers"));
  EXPECT_THAT(std::string(ParseJob("  \n", "job.json", spec).message()), HasSubstr("empty"));
}

TEST(JobFileTest, RelativePathsStartAtTheFile) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "jobs";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "job.textproto") << "data { text { path: \"../corpus\" } }";
  v1::JobSpec spec;
  ASSERT_TRUE(ReadJobFile((folder / "job.textproto").string(), spec).ok());
  EXPECT_EQ(spec.data().text().path(),
            (folder.parent_path() / "corpus").lexically_normal().string());
  EXPECT_EQ(ReadJobFile((folder / "none").string(), spec).code(), absl::StatusCode::kNotFound);
}

TEST(JobFileTest, ATokenizersPathStartsAtTheFileAsWell) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "jobs";
  std::filesystem::create_directories(folder);
  for (const auto& [name, expected] : std::vector<std::pair<std::string, std::string>>{
           {"tokenizer.json", (folder / "tokenizer.json").string()},
           {"bytes", "bytes"},
           {"", ""}}) {
    std::ofstream(folder / "job.textproto")
        << "data { sequences { path: \"t\" tokenizer: \"" << name << "\" } }";
    v1::JobSpec spec;
    ASSERT_TRUE(ReadJobFile((folder / "job.textproto").string(), spec).ok());
    EXPECT_EQ(spec.data().sequences().path(), (folder / "t").string());
    EXPECT_EQ(spec.data().sequences().tokenizer(), expected);
  }
}

TEST(JobFileTest, ReplacesDataPaths) {
  v1::JobSpec spec;
  spec.mutable_data()->mutable_idx()->set_images("/a");
  ASSERT_TRUE(ReplaceDataPath("/d/t10k-images-idx3-ubyte.gz", spec).ok());
  EXPECT_EQ(spec.data().idx().labels(), "/d/t10k-labels-idx1-ubyte.gz");
  EXPECT_FALSE(ReplaceDataPath("/d/digits", spec).ok());
  spec.mutable_data()->mutable_synthetic_clicks();
  EXPECT_FALSE(ReplaceDataPath("/d", spec).ok());
}

TEST(JobFileTest, TextInPlaceOfATokenFileHasItsTokenizer) {
  const std::string folder = ::testing::TempDir();
  std::ofstream(folder + "/a.tokens") << "MUSTERTK and the rest";
  std::ofstream(folder + "/a.txt") << "text";
  v1::JobSpec spec;
  v1::SequenceData& data = *spec.mutable_data()->mutable_sequences();
  data.set_path(folder + "/a.tokens");
  ASSERT_TRUE(ReplaceDataPath(folder + "/a.txt", spec).ok());
  EXPECT_EQ(data.tokenizer(), folder + "/a.tokens");
  ASSERT_TRUE(ReplaceDataPath(folder + "/b.txt", spec).ok());
  EXPECT_EQ(data.tokenizer(), folder + "/a.tokens");
  ASSERT_TRUE(ReplaceDataPath(folder + "/a.tokens", spec).ok());
  EXPECT_EQ(data.tokenizer(), "");
  data.set_path(folder + "/a.txt");
  ASSERT_TRUE(ReplaceDataPath(folder + "/b.txt", spec).ok());
  EXPECT_EQ(data.tokenizer(), "");
}

void WriteTokens(const std::string& path, const Tokenizer& tokenizer) {
  auto writer = TokenFileWriter::Create(path, tokenizer);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->AddDocument("text").ok());
  ASSERT_TRUE((*writer)->Finish().ok());
}

// Of the same size, so that nothing else would tell.
TEST(JobFileTest, TokensOfAnotherTokenizerAreRefused) {
  const std::string folder = ::testing::TempDir();
  BpeVocabulary turned = BytesAsVocabulary();
  std::swap(turned.tokens['t'], turned.tokens['x']);
  const auto other = BpeTokenizer::Create(turned);
  ASSERT_TRUE(other.ok());
  WriteTokens(folder + "/bytes.tokens", ByteTokenizer());
  WriteTokens(folder + "/same.tokens", **BpeTokenizer::Create(BytesAsVocabulary()));
  WriteTokens(folder + "/other.tokens", **other);
  std::ofstream(folder + "/other.json") << (*other)->json();
  v1::JobSpec spec;
  v1::SequenceData& data = *spec.mutable_data()->mutable_sequences();
  data.set_path(folder + "/bytes.tokens");
  const absl::Status refused = ReplaceDataPath(folder + "/other.tokens", spec);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/bytes.tokens"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/other.tokens"));
  EXPECT_TRUE(ReplaceDataPath(folder + "/same.tokens", spec).ok());
  data.set_path(folder + "/text");
  data.set_tokenizer(folder + "/other.json");
  EXPECT_FALSE(ReplaceDataPath(folder + "/bytes.tokens", spec).ok());
  EXPECT_TRUE(ReplaceDataPath(folder + "/other.tokens", spec).ok());
  EXPECT_EQ(data.tokenizer(), "");
  // A name that only workers know, and none at all.
  data.set_path(folder + "/text");
  data.set_tokenizer("/elsewhere/tokenizer.json");
  EXPECT_TRUE(ReplaceDataPath(folder + "/bytes.tokens", spec).ok());
  data.set_path(folder + "/text");
  EXPECT_TRUE(ReplaceDataPath(folder + "/other.tokens", spec).ok());
}

}  // namespace
}  // namespace muster
