#include "common/chat_template/ends_of_turns.h"

#include "common/files/temp_folder.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EndsOfTurnsTest : public ::testing::Test {
 protected:
  EndsOfTurnsTest() {
    BpeVocabulary vocabulary = BytesAsVocabulary();
    for (const char* text : {"<|end|>", "<|turn|>"}) {
      vocabulary.added.push_back({static_cast<int32_t>(vocabulary.tokens.size()), text});
      vocabulary.tokens.push_back(text);
    }
    auto created = BpeTokenizer::Create(std::move(vocabulary));
    EXPECT_TRUE(created.ok()) << created.status();
    tokenizer_ = *std::move(created);
    temp_.Write("chat_template.jinja", "x");
  }

  absl::StatusOr<std::vector<int32_t>> Ends() {
    const auto opened = ModelChatTemplate::Open(temp_.path());
    EXPECT_TRUE(opened.ok()) << opened.status();
    return EndsOfTurns(temp_.path(), *opened, *tokenizer_);
  }

  const TempFolder temp_;
  std::unique_ptr<const Tokenizer> tokenizer_;
};

TEST_F(EndsOfTurnsTest, AreThoseOfBothFiles) {
  EXPECT_THAT(*Ends(), IsEmpty());
  temp_.Write("tokenizer_config.json", R"({"eos_token": "<|turn|>"})");
  EXPECT_THAT(*Ends(), ElementsAre(257));
  temp_.Write("generation_config.json", R"({"eos_token_id": 256})");
  EXPECT_THAT(*Ends(), ElementsAre(256, 257));
  temp_.Write("generation_config.json", R"({"eos_token_id": [257, 10, 257]})");
  EXPECT_THAT(*Ends(), ElementsAre(10, 257));
  temp_.Write("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_THAT(*Ends(), ElementsAre(257));
}

TEST_F(EndsOfTurnsTest, ATextOfSeveralTokensEndsNothing) {
  temp_.Write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_THAT(*Ends(), IsEmpty());
}

TEST_F(EndsOfTurnsTest, IdsOfNoTokenAreRefused) {
  for (const char* id : {"258", "-1", "\"a\"", "[1, 1e3]", "[[1]]", "{}"}) {
    temp_.Write("generation_config.json", absl::StrCat("{\"eos_token_id\": ", id, "}"));
    const auto ends = Ends();
    EXPECT_EQ(ends.status().code(), absl::StatusCode::kInvalidArgument) << id;
    EXPECT_THAT(std::string(ends.status().message()),
                testing::AllOf(HasSubstr("generation_config.json: eos_token_id has "),
                               HasSubstr("from 0 to 257")));
  }
  for (const char* text : {"", "[]", "{"}) {
    temp_.Write("generation_config.json", text);
    EXPECT_FALSE(Ends().ok()) << text;
  }
}

}  // namespace
}  // namespace muster
