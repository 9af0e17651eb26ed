#include "common/tokenizer/files/open_tokenizer.h"

#include <string>

#include "common/files/temp_folder.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/bpe_trainer.h"
#include "common/tokenizer/files/parse_tokenizer.h"
#include "common/tokenizer/files/token_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string TrainedJson() {
  BpeTrainer trainer;
  trainer.Add("aaa bbb aaa bbb");
  return WriteBpeJson(*trainer.Train(260));
}

std::string Message(const std::string& name) {
  return std::string(OpenTokenizer(name).status().message());
}

TEST(OpenTokenizerTest, BytesByName) {
  for (const char* name : {"", "bytes"}) {
    const auto tokenizer = OpenTokenizer(name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ((*tokenizer)->vocabulary(), 256);
  }
}

TEST(OpenTokenizerTest, AFileOrItsFolder) {
  const TempFolder folder;
  const std::string json = TrainedJson();
  const std::string path = folder.Write("tokenizer.json", json);
  for (const std::string& name : {path, folder.path()}) {
    const auto tokenizer = OpenTokenizer(name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ((*tokenizer)->vocabulary(), 260);
    EXPECT_EQ((*tokenizer)->end_of_text(), 259);
    EXPECT_EQ((*tokenizer)->json(), json);
  }
}

TEST(OpenTokenizerTest, SaysWhatIsMissingOrWrong) {
  const TempFolder folder;
  EXPECT_THAT(Message(folder.path() + "/none"), HasSubstr("there is no tokenizer at"));
  EXPECT_EQ(OpenTokenizer(folder.path()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(folder.path()), HasSubstr("vocab.json"));
  EXPECT_THAT(Message(folder.Write("empty", "")), HasSubstr("empty is empty"));
  folder.Write("vocab.json", "{\"a\": 0}");
  EXPECT_THAT(Message(folder.path()), HasSubstr("merges.txt"));
  folder.Write("merges.txt", "#version: 0.2\n");
  EXPECT_THAT(Message(folder.path()), HasSubstr("no token for the byte"));
  EXPECT_THAT(Message(folder.path()), HasSubstr(folder.path()));
}

TEST(OpenTokenizerTest, ATokenFileHasItsOwn) {
  const TempFolder folder;
  const std::string json = TrainedJson();
  const auto tokenizer = ParseTokenizer(json, "x");
  ASSERT_TRUE(tokenizer.ok());
  const std::string path = folder.path() + "/t.tokens";
  auto writer = TokenFileWriter::Create(path, **tokenizer);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->AddDocument("aaa").ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto opened = OpenTokenizer(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->json(), json);
}

TEST(OpenTokenizerTest, ParsesWhatATokenizerGives) {
  const auto bytes = ParseTokenizer("", "x");
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ((*bytes)->json(), "");
  const auto learned = ParseTokenizer(TrainedJson(), "x");
  ASSERT_TRUE(learned.ok());
  EXPECT_EQ((*learned)->json(), TrainedJson());
}

}  // namespace
}  // namespace muster
