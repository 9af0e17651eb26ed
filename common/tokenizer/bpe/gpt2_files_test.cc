#include "common/tokenizer/bpe/gpt2_files.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/bpe_trainer.h"
#include "common/tokenizer/bpe/byte_level.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/words/added_token_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int32_t kEnd = 263;

// A vocabulary whose last token is "<|endoftext|>".
const BpeVocabulary& TrainedWithEnd() {
  static const BpeVocabulary trained = [] {
    BpeTrainer trainer;
    trainer.Add("the cat and the hat, the bat the\nend the cat");
    return *trainer.Train(kEnd + 1);
  }();
  return trained;
}

class Gpt2FilesTest : public testing::Test {
 protected:
  Gpt2FilesTest() {
    for (int32_t id = 0; id < kEnd; ++id) vocab_[ToByteLevel(TrainedWithEnd().tokens[id])] = id;
    vocab_["<|endoftext|>"] = kEnd;
    for (const auto& [left, right] : TrainedWithEnd().merges) {
      absl::StrAppend(&merges_, ToByteLevel(TrainedWithEnd().tokens[left]), " ",
                      ToByteLevel(TrainedWithEnd().tokens[right]), "\n");
    }
  }

  absl::StatusOr<BpeVocabulary> Read() {
    const std::string vocab = vocab_.dump();
    Gpt2Files files = {vocab, merges_};
    const auto text = [](const Json& json, std::string& dumped) {
      dumped = json.dump();
      return json.is_null() ? std::nullopt : std::make_optional<absl::string_view>(dumped);
    };
    std::string texts[5];
    files.added_tokens = text(added_tokens_, texts[0]);
    files.special_tokens_map = text(special_tokens_map_, texts[1]);
    files.tokenizer_config = text(tokenizer_config_, texts[2]);
    files.generation_config = text(generation_config_, texts[3]);
    files.config = text(config_, texts[4]);
    return ParseGpt2Files(files, "folder");
  }

  std::string Error() { return std::string(Read().status().message()); }

  // The text of the end of text, "" for none.
  std::string EndOfText() {
    const auto read = Read();
    EXPECT_TRUE(read.ok()) << read.status();
    if (!read.ok()) return "";
    const std::optional<int32_t> end = FindEndOfText(read->added);
    return end.has_value() ? read->tokens[*end] : "";
  }

  // Gives the last token another name.
  void RenameEnd(const std::string& name) {
    vocab_.erase(end_name_);
    end_name_ = name;
    vocab_[name] = kEnd;
  }

  Json vocab_;
  std::string end_name_ = "<|endoftext|>";
  std::string merges_ = "#version: 0.2\n";
  Json added_tokens_, special_tokens_map_, tokenizer_config_, generation_config_, config_;
};

TEST_F(Gpt2FilesTest, ThePairAloneIsTheVocabulary) {
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(TrainedWithEnd().tokens.size(), kEnd + 1u);
  EXPECT_EQ(read->tokens, TrainedWithEnd().tokens);
  // As editors of Windows save them.
  merges_ = "\xef\xbb\xbf" + merges_;
  const auto marked = Read();
  ASSERT_TRUE(marked.ok()) << marked.status();
  EXPECT_EQ(marked->merges, read->merges);
  EXPECT_EQ(read->merges, TrainedWithEnd().merges);
  ASSERT_EQ(read->added.size(), 1u);
  EXPECT_EQ(read->added[0].id, kEnd);
  merges_ = "#version: 0.2\na\n";
  EXPECT_THAT(Error(), HasSubstr("folder/merges.txt:2: a line of 1 character is no merge"));
  merges_ = "a qqq\n";
  EXPECT_THAT(Error(), HasSubstr("folder/merges.txt:1: joins two texts, of which the second, 3 "
                                 "characters, is no token"));
}

TEST_F(Gpt2FilesTest, OtherClassesAreRefusedByName) {
  for (const char* name : {"GPT2Tokenizer", "GPT2TokenizerFast"}) {
    tokenizer_config_ = {{"tokenizer_class", name}, {"model_max_length", 1024}};
    EXPECT_EQ(EndOfText(), "<|endoftext|>");
  }
  tokenizer_config_ = {{"tokenizer_class", "Qwen2Tokenizer"}};
  EXPECT_THAT(Error(), AllOf(HasSubstr("folder/tokenizer_config.json: tokenizer_class is "
                                       "Qwen2Tokenizer;"),
                             HasSubstr("tokenizer.json")));
  for (const char* option : {"add_prefix_space", "add_bos_token"}) {
    tokenizer_config_ = {{option, false}};
    EXPECT_EQ(EndOfText(), "<|endoftext|>");
    tokenizer_config_ = {{option, true}};
    EXPECT_THAT(Error(), HasSubstr(absl::StrCat(option, " is true")));
  }
  tokenizer_config_ = Json::array();
  EXPECT_THAT(Error(), HasSubstr("tokenizer_config.json: the file is a list of 0;"));
}

// CLIP's files: a token for each byte, and one for each at a word's end.
TEST_F(Gpt2FilesTest, MarkedEndsOfWordsAreRefused) {
  vocab_ = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    const std::string written = ToByteLevel(std::string(1, static_cast<char>(byte)));
    vocab_[written] = byte;
    vocab_[written + "</w>"] = 256 + byte;
  }
  vocab_["th"] = 512;
  vocab_["the</w>"] = 513;
  vocab_["<|endoftext|>"] = 514;
  merges_ = "#version: 0.2\nt h\nth e</w>\n";
  EXPECT_THAT(Error(), AllOf(HasSubstr("folder/vocab.json: token 256, 5 characters, ends with"),
                             HasSubstr("\"</w>\""), HasSubstr("CLIP")));
}

// Text about markup has such tokens, too, which merges make.
TEST_F(Gpt2FilesTest, TokensThatMergesMakeMayEndLikeThat) {
  vocab_["w>"] = 270;
  vocab_["/w>"] = 271;
  vocab_["</w>"] = 272;
  vocab_["a</w>"] = 273;
  absl::StrAppend(&merges_, "w >\n/ w>\n< /w>\na </w>\n");
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tokens[273], "a</w>");
}

TEST_F(Gpt2FilesTest, TheEndOfTextHasTheNameThatFilesSay) {
  RenameEnd("</s>");
  EXPECT_EQ(EndOfText(), "</s>") << "the only name there is";
  RenameEnd("<|end_of_text|>");
  EXPECT_EQ(EndOfText(), "<|end_of_text|>");
  // Of two the more usual one, unless a file says otherwise.
  vocab_["</s>"] = 270;
  EXPECT_EQ(EndOfText(), "<|end_of_text|>");
  special_tokens_map_ = {{"eos_token", {{"content", "</s>"}, {"lstrip", false}}}};
  EXPECT_EQ(EndOfText(), "</s>");
  special_tokens_map_ = {{"eos_token", "</s>"}};
  EXPECT_EQ(EndOfText(), "</s>");
  special_tokens_map_ = nullptr;
  tokenizer_config_ = {{"eos_token", "</s>"}};
  EXPECT_EQ(EndOfText(), "</s>");
  tokenizer_config_ = nullptr;
  generation_config_ = {{"eos_token_id", 270}};
  EXPECT_EQ(EndOfText(), "</s>");
  generation_config_ = {{"eos_token_id", {7, 270}}};
  EXPECT_EQ(EndOfText(), "</s>");
  generation_config_ = nullptr;
  config_ = {{"eos_token_id", 270}};
  EXPECT_EQ(EndOfText(), "</s>");
  // GPT-2's own number, left in a model of another vocabulary.
  config_ = {{"eos_token_id", 50256}};
  EXPECT_EQ(EndOfText(), "<|end_of_text|>");
  config_ = {{"eos_token_id", 65}};
  EXPECT_EQ(EndOfText(), "<|end_of_text|>");
}

TEST_F(Gpt2FilesTest, AnEndOfTextThatCannotBeKeptIsRefused) {
  RenameEnd("<EOS>");
  EXPECT_EQ(EndOfText(), "") << "nothing says that it is one";
  special_tokens_map_ = {{"eos_token", "<EOS>"}};
  EXPECT_THAT(
      Error(),
      AllOf(HasSubstr("folder/special_tokens_map.json: eos_token is a text of 5 characters;"),
            HasSubstr("<|endoftext|>, <|end_of_text|>, </s>")));
  special_tokens_map_ = {{"eos_token", "</s>"}};
  EXPECT_THAT(
      Error(),
      HasSubstr("eos_token is </s>; neither vocab.json nor added_tokens.json has that token"));
  added_tokens_ = {{"</s>", 270}};
  EXPECT_EQ(EndOfText(), "</s>");
  // A tokenizer.json has no place to say which of two it is.
  special_tokens_map_["bos_token"] = "<|endoftext|>";
  added_tokens_["<|endoftext|>"] = 271;
  EXPECT_THAT(Error(), HasSubstr("its end of text is </s>, but <|endoftext|>"));
}

TEST_F(Gpt2FilesTest, SpecialAndFurtherTokensAreAddedOnes) {
  vocab_["<pad>"] = 270;
  special_tokens_map_ = {{"eos_token", "<|endoftext|>"},
                         {"pad_token", "<pad>"},
                         {"additional_special_tokens", {"<a>"}},
                         {"mask_token", "<nowhere>"}};
  added_tokens_ = {{"<a>", 271}, {"  ", 272}};
  tokenizer_config_ = {
      {"added_tokens_decoder",
       {{"273", {{"content", "\t\t"}, {"special", false}, {"normalized", true}}}}}};
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->added.size(), 5u);
  const BpeVocabulary::AddedToken expected[] = {{kEnd, "<|endoftext|>", true, false},
                                                {270, "<pad>", true, false},
                                                {271, "<a>", true, false},
                                                {272, "  ", false, false},
                                                {273, "\t\t", false, true}};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(read->added[i].id, expected[i].id);
    EXPECT_EQ(read->added[i].content, expected[i].content);
    EXPECT_EQ(read->added[i].special, expected[i].special) << expected[i].content;
    EXPECT_EQ(read->added[i].normalized, expected[i].normalized) << expected[i].content;
  }
  const auto tokenizer = BpeTokenizer::Create(*read);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(EncodeAll(**tokenizer, "<pad><a>  \t\t<|endoftext|>"),
              ElementsAre(270, 271, 272, 273, kEnd));
  tokenizer_config_["added_tokens_decoder"]["x"] = {{"content", "y"}};
  EXPECT_THAT(Error(),
              HasSubstr("added_tokens_decoder with a key of 1 character is an object of 1 member"));
}

// Or anybody who may submit jobs could read files in parts.
TEST_F(Gpt2FilesTest, NoErrorQuotesWhatTheFilesHold) {
  const auto expect_silent = [this] {
    EXPECT_THAT(Error(),
                AllOf(HasSubstr("folder"), Not(HasSubstr("secret")), Not(HasSubstr("31337"))));
  };
  const std::string merges = merges_;
  for (const char* line : {"root:secret:31337", "root:secret a", "a secret", "a b secret"}) {
    merges_ = absl::StrCat(merges, line, "\n");
    expect_silent();
  }
  merges_ = merges;
  const Json vocab = vocab_;
  for (const Json& hidden : {Json("secret"), Json({"secret", "secret"}), Json({{"secret", "x"}}),
                             Json({{"content", 31337}}), Json(-31337), Json(31337.5)}) {
    vocab_ = hidden;
    expect_silent();
    vocab_ = vocab;
    vocab_["secret"] = hidden;
    expect_silent();
    vocab_ = vocab;
    if (!hidden.is_object()) {
      for (Json* file : {&added_tokens_, &special_tokens_map_, &tokenizer_config_,
                         &generation_config_, &config_}) {
        *file = hidden;
        expect_silent();
        *file = nullptr;
      }
    }
    added_tokens_ = {{"secret", hidden}};
    expect_silent();
    added_tokens_ = nullptr;
    for (const char* field : {"tokenizer_class", "add_prefix_space", "eos_token"}) {
      tokenizer_config_ = {{field, hidden}};
      expect_silent();
    }
    tokenizer_config_ = {{"added_tokens_decoder", {{"secret", hidden}}}};
    expect_silent();
    tokenizer_config_ = {{"added_tokens_decoder", {{"31337", hidden}}}};
    expect_silent();
    tokenizer_config_ = nullptr;
  }
  vocab_["secret\u2581"] = 270;
  expect_silent();
  vocab_ = vocab;
  vocab_["secret</w>"] = 270;
  expect_silent();
}

}  // namespace
}  // namespace muster
