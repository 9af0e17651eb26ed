#include "common/tokenizer/bpe/bpe_json.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/bpe_trainer.h"
#include "common/tokenizer/decode_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

BpeVocabulary Trained() {
  BpeTrainer trainer;
  trainer.Add(
      "the cat and the hat, the bat \xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0 the\nend \xff\xfe");
  return *trainer.Train(280);
}

std::string ErrorOf(const Json& json) {
  return std::string(ParseBpeJson(json.dump(), "t.json").status().message());
}

void ExpectSame(const BpeVocabulary& a, const BpeVocabulary& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.merges, b.merges);
  ASSERT_EQ(a.added.size(), b.added.size());
  for (size_t i = 0; i < a.added.size(); ++i) {
    EXPECT_EQ(a.added[i].id, b.added[i].id);
    EXPECT_EQ(a.added[i].content, b.added[i].content);
  }
}

TEST(BpeJsonTest, WhatIsWrittenIsReadBack) {
  const BpeVocabulary vocabulary = Trained();
  const std::string text = WriteBpeJson(vocabulary);
  const auto read = ParseBpeJson(text, "t.json");
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, vocabulary);
  EXPECT_EQ(WriteBpeJson(*read), text);
}

TEST(BpeJsonTest, HasTheFieldsThatOthersRead) {
  const Json json = Json::parse(WriteBpeJson(Trained()));
  EXPECT_EQ(json["model"]["type"], "BPE");
  EXPECT_EQ(json["pre_tokenizer"]["type"], "ByteLevel");
  EXPECT_EQ(json["pre_tokenizer"]["add_prefix_space"], false);
  EXPECT_EQ(json["decoder"]["type"], "ByteLevel");
  EXPECT_EQ(json["model"]["vocab"]["!"], 0);
  EXPECT_EQ(json["model"]["vocab"]["\u0120"], 220);
  EXPECT_EQ(json["added_tokens"][0]["content"], "<|endoftext|>");
  EXPECT_EQ(json["added_tokens"][0]["id"], json["model"]["vocab"].size() - 1);
  EXPECT_TRUE(json["model"]["merges"][0].is_string());
}

// As Hugging Face's reader numbers them: by its content in the vocabulary, and after all others if
// it is not there.
TEST(BpeJsonTest, AddedTokensStandInTheVocabularyAsTheyAre) {
  BpeVocabulary vocabulary = BytesAsVocabulary();
  const std::vector<std::string> contents = {
      "<|end of text|>", "<|f\xc3\xa9lin|>", "  \n", "\xe4\xbd\xa0\xe5\xa5\xbd", "plain", " a"};
  for (const std::string& content : contents) {
    vocabulary.added.push_back({static_cast<int32_t>(vocabulary.tokens.size()), content});
    vocabulary.tokens.push_back(content);
  }
  // One that merges make as well, one that is a byte.
  vocabulary.merges = {{' ', 'a'}};
  vocabulary.added.push_back({'\n', "\n"});
  const std::string text = WriteBpeJson(vocabulary);
  const Json json = Json::parse(text);
  const Json& vocab = json["model"]["vocab"];
  ASSERT_EQ(json["added_tokens"].size(), contents.size() + 1);
  for (const Json& added : json["added_tokens"]) {
    const std::string content = added["content"];
    ASSERT_TRUE(vocab.contains(content)) << content;
    EXPECT_EQ(vocab[content], added["id"]) << content;
  }
  for (size_t i = 0; i < contents.size(); ++i) {
    EXPECT_EQ(json["added_tokens"][i]["content"], contents[i]);
    EXPECT_EQ(vocab[contents[i]], 256 + i);
  }
  // A reader looks for the bytes of words and for what merges join and make.
  EXPECT_EQ(vocab["\u010a"], '\n');
  EXPECT_EQ(vocab["\u0120a"], 261);
  EXPECT_EQ(vocab.size(), 256 + contents.size() + 2);
  const auto read = ParseBpeJson(text, "t.json");
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, vocabulary);
  EXPECT_EQ(WriteBpeJson(*read), text);
  const auto tokenizer = BpeTokenizer::Create(*read);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->json(), text);
  EXPECT_THAT(EncodeAll(**tokenizer, "x\xe4\xbd\xa0\xe5\xa5\xbd a<|f\xc3\xa9lin|>\n"),
              ElementsAre('x', 259, 261, 257, '\n'));
}

// Such files were written before.
TEST(BpeJsonTest, ReadsAddedTokensInByteCharactersToo) {
  BpeVocabulary vocabulary = BytesAsVocabulary();
  vocabulary.tokens.push_back("<|the end|>");
  vocabulary.added = {{256, "<|the end|>"}};
  Json json = Json::parse(WriteBpeJson(vocabulary));
  json["model"]["vocab"].erase("<|the end|>");
  json["model"]["vocab"]["<|the\u0120end|>"] = 256;
  const auto read = ParseBpeJson(json.dump(), "t.json");
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, vocabulary);
}

TEST(BpeJsonTest, ReadsMergesAsPairsAndAddedTokensOutsideTheVocabulary) {
  const BpeVocabulary vocabulary = Trained();
  Json json = Json::parse(WriteBpeJson(vocabulary));
  for (Json& merge : json["model"]["merges"]) {
    const std::string text = merge;
    const size_t space = text.find(' ');
    merge = {text.substr(0, space), text.substr(space + 1)};
  }
  json["model"]["vocab"].erase("<|endoftext|>");
  json["model"]["unk_token"] = "<|endoftext|>";
  const auto read = ParseBpeJson(json.dump(), "t.json");
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, vocabulary);
}

// Or anybody who may submit jobs could read files in parts.
TEST(BpeJsonTest, NoErrorQuotesWhatTheFileHolds) {
  const Json good = Json::parse(WriteBpeJson(Trained()));
  const auto expect_silent = [](const Json& json) {
    EXPECT_THAT(ErrorOf(json),
                AllOf(Not(IsEmpty()), Not(HasSubstr("secret")), Not(HasSubstr("31337"))));
  };
  for (const Json& hidden : {Json("secret"), Json({{"type", "secret"}}), Json({"secret", "secret"}),
                             Json({{"secret", 31337}}), Json(31337), Json(31337.5)}) {
    expect_silent(hidden);
    for (const char* member :
         {"normalizer", "pre_tokenizer", "decoder", "post_processor", "model", "added_tokens"}) {
      Json json = good;
      json[member] = hidden;
      expect_silent(json);
    }
    for (const char* member : {"type", "dropout", "byte_fallback", "vocab", "merges"}) {
      Json json = good;
      json["model"][member] = hidden;
      expect_silent(json);
    }
    Json json = good;
    json["model"]["merges"].push_back(hidden);
    expect_silent(json);
    if (!hidden.is_number_integer()) {
      json = good;
      json["model"]["vocab"]["a"] = hidden;
      expect_silent(json);
      json = good;
      json["added_tokens"][0]["id"] = hidden;
      expect_silent(json);
    }
    for (const char* member : {"content", "lstrip"}) {
      json = good;
      json["added_tokens"][0][member] = hidden;
      expect_silent(json);
    }
  }
  Json json = good;
  json["model"]["merges"].push_back("a secret");
  expect_silent(json);
  json = good;
  json["model"]["vocab"]["secret\u2581"] = 1;
  expect_silent(json);
  json = good;
  json["added_tokens"][0] = {{"content", "secret"}, {"id", -31337}};
  expect_silent(json);
}

TEST(BpeJsonTest, OtherKindsAreRefusedByName) {
  const Json good = Json::parse(WriteBpeJson(Trained()));
  Json json = good;
  json["model"]["type"] = "WordPiece";
  EXPECT_THAT(ErrorOf(json), HasSubstr("t.json: model.type is WordPiece;"));
  json = good;
  json["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_THAT(ErrorOf(json), HasSubstr("normalizer is an object of type Lowercase;"));
  json = good;
  json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  EXPECT_THAT(ErrorOf(json),
              HasSubstr("pre_tokenizer is an object of type BertPreTokenizer; only ByteLevel,"));
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {{{"type", "UnicodeScripts"}}}}};
  EXPECT_THAT(ErrorOf(json), HasSubstr("pre_tokenizer.pretokenizers[0] is an object of type"));
  json = good;
  json["pre_tokenizer"]["add_prefix_space"] = 3;
  EXPECT_THAT(ErrorOf(json), HasSubstr("pre_tokenizer.add_prefix_space is a number of 1 char"));
  json = good;
  json["post_processor"] = {{"type", "BertProcessing"}};
  EXPECT_THAT(ErrorOf(json), HasSubstr("post_processor is an object of type BertProcessing;"));
  json["post_processor"] = {{"type", "TemplateProcessing"}};
  EXPECT_THAT(ErrorOf(json), HasSubstr("post_processor.single is missing or null"));
  json = good;
  json["decoder"] = {{"type", "WordPiece"}};
  EXPECT_THAT(ErrorOf(json), HasSubstr("decoder is an object of type WordPiece"));
  json["decoder"] = {{"type", "Metaspace"}, {"replacement", "_"}};
  EXPECT_THAT(ErrorOf(json), HasSubstr("only ByteLevel is understood with the pre_tokenizer"));
  json = good;
  json["pre_tokenizer"] = nullptr;
  EXPECT_THAT(ErrorOf(json), HasSubstr("ByteLevel is understood only with the pre_tokenizer"));
  json = good;
  json["model"]["end_of_word_suffix"] = "</w>";
  EXPECT_THAT(ErrorOf(json), HasSubstr("model.end_of_word_suffix is a text of 4 characters;"));
  json = good;
  json["added_tokens"][0]["single_word"] = true;
  EXPECT_THAT(ErrorOf(json), HasSubstr("single_word of added token 263 is true"));
}

TEST(BpeJsonTest, DamageIsNamed) {
  const Json good = Json::parse(WriteBpeJson(Trained()));
  EXPECT_THAT(std::string(ParseBpeJson(absl::StrCat(R"({"model": {"type": "BPE"}, "normalizer": )",
                                                    std::string(2000000, '['),
                                                    std::string(2000000, ']'), "}"),
                                       "t.json")
                              .status()
                              .message()),
              AllOf(HasSubstr("t.json"), HasSubstr("levels deep")));
  EXPECT_THAT(std::string(ParseBpeJson("{\"model\"", "t.json").status().message()),
              HasSubstr("t.json is not JSON"));
  EXPECT_THAT(ErrorOf(Json::array()), HasSubstr("model is missing or null"));
  Json json = good;
  json["model"]["vocab"]["a"] = -3;
  EXPECT_THAT(ErrorOf(json), HasSubstr("the id of a token of 1 character is a negative number"));
  // One id must not make a table of half a gigabyte.
  json["model"]["vocab"]["a"] = 16777215;
  EXPECT_THAT(ErrorOf(json), HasSubstr("is a number of 8 characters; expected a whole"));
  json["model"]["vocab"]["a"] = 1.5;
  EXPECT_THAT(ErrorOf(json), HasSubstr("is a number with a fraction"));
  json = good;
  json["model"]["vocab"]["a"] = json["model"]["vocab"]["b"];
  EXPECT_THAT(ErrorOf(json), HasSubstr("two tokens have the id"));
  json = good;
  json["model"]["vocab"]["\u2581x"] = 279;
  EXPECT_THAT(ErrorOf(json), AllOf(HasSubstr("token 279, 2 characters,"), HasSubstr("byte-level")));
  json = good;
  json["model"]["merges"].push_back("a b c");
  EXPECT_THAT(ErrorOf(json), HasSubstr(absl::StrCat("merge ", good["model"]["merges"].size(),
                                                    " of model.merges is a text of 5 characters")));
  json["model"]["merges"].back() = "a qqq";
  EXPECT_THAT(ErrorOf(json),
              HasSubstr("joins two texts, of which the second, 3 characters, is no token"));
  json["model"]["merges"] = 3;
  EXPECT_THAT(ErrorOf(json), HasSubstr("model.merges is a number of 1 character;"));
}

// Other readers leave special tokens out when they decode: indentation that is a token of its own
// would go.
TEST(BpeJsonTest, AddedTokensKeepWhatOthersDoWithThem) {
  Json json = Json::parse(WriteBpeJson(BytesAsVocabulary()));
  json["added_tokens"] = {
      {{"id", 256}, {"content", "<|endoftext|>"}, {"normalized", false}, {"special", true}},
      {{"id", 257}, {"content", "    "}, {"normalized", true}, {"special", false}},
      {{"id", 258}, {"content", "<|more|>"}}};
  const auto read = ParseBpeJson(json.dump(), "t.json");
  ASSERT_TRUE(read.ok()) << read.status();
  const Json written = Json::parse(WriteBpeJson(*read))["added_tokens"];
  ASSERT_EQ(written.size(), 3u);
  EXPECT_EQ(written[0]["special"], true);
  EXPECT_EQ(written[0]["normalized"], false);
  EXPECT_EQ(written[1]["special"], false);
  EXPECT_EQ(written[1]["normalized"], true);
  EXPECT_EQ(written[2]["special"], true) << "where the file does not say";
  const auto tokenizer = BpeTokenizer::Create(*read);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(EncodeAll(**tokenizer, ":\n    r"), ElementsAre(':', '\n', 257, 'r'));
  BpeVocabulary special = *read;
  special.added[1].special = true;
  EXPECT_EQ((*tokenizer)->fingerprint(), VocabularyFingerprint(special)) << "it encodes alike";
}

// A token of words with the same bytes is written in other characters.
TEST(BpeJsonTest, AnAddedTokenMayHaveTheBytesOfAnotherAndWins) {
  BpeVocabulary vocabulary = BytesAsVocabulary();
  vocabulary.tokens.push_back(" a");
  vocabulary.merges = {{' ', 'a'}};
  Json json = Json::parse(WriteBpeJson(vocabulary));
  json["added_tokens"] = {{{"id", 257}, {"content", "\n"}}, {{"id", 258}, {"content", " a"}}};
  const auto read = ParseBpeJson(json.dump(), "t.json");
  ASSERT_TRUE(read.ok()) << read.status();
  const auto tokenizer = BpeTokenizer::Create(*read);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(EncodeAll(**tokenizer, "b\n a\r"), ElementsAre('b', 257, 258, '\r'));
  EXPECT_EQ(Decode(**tokenizer, {'\n', 256, 257, 258}), "\n a\n a");
  const Json vocab = Json::parse((*tokenizer)->json())["model"]["vocab"];
  EXPECT_EQ(vocab["\u010a"], '\n');
  EXPECT_EQ(vocab["\u0120a"], 256);
  EXPECT_EQ(vocab["\n"], 257);
  EXPECT_EQ(vocab[" a"], 258);
  const auto again = ParseBpeJson((*tokenizer)->json(), "t.json");
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectSame(*again, *read);
  EXPECT_EQ(WriteBpeJson(*again), (*tokenizer)->json());
  // Of two that are both looked for, none could win.
  json["added_tokens"].push_back({{"id", 259}, {"content", "\n"}});
  const auto both = BpeTokenizer::Create(*ParseBpeJson(json.dump(), "t.json"));
  EXPECT_THAT(std::string(both.status().message()),
              HasSubstr("tokens 257 and 259 are the same text"));
}

// A vocabulary of characters, in which "_" stands for a space.
Json Characters() {
  Json vocab = Json::object();
  for (const char* token : {"<unk>", "<s>", "_", "a", "b", "ab", "_ab", "x y"}) {
    vocab[token] = vocab.size();
  }
  const Json spaces = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "_"}};
  const Json back = {{"type", "Replace"}, {"pattern", {{"String", "_"}}}, {"content", " "}};
  return {
      {"added_tokens", {{{"id", 0}, {"content", "<unk>"}}, {{"id", 1}, {"content", "<s>"}}}},
      {"normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "_"}}, spaces}}}},
      {"pre_tokenizer", nullptr},
      {"decoder", {{"type", "Sequence"}, {"decoders", {back, {{"type", "ByteFallback"}}}}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocab},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"merges", Json::array({Json::array({"a", "b"}), Json::array({"_", "ab"})})}}}};
}

std::unique_ptr<const BpeTokenizer> Open(const Json& json) {
  auto read = ParseBpeJson(json.dump(), "t.json");
  EXPECT_TRUE(read.ok()) << read.status();
  auto tokenizer = BpeTokenizer::Create(*std::move(read));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

TEST(BpeJsonTest, TokensMayBeCharacters) {
  Json json = Characters();
  const auto tokenizer = Open(json);
  EXPECT_THAT(EncodeAll(*tokenizer, "ab ab<s>a"), ElementsAre(6, 6, 1, 2, 3));
  // Unknown characters are one token, as far as they stand beside each other.
  EXPECT_THAT(EncodeAll(*tokenizer, "zz\u00e9 z"), ElementsAre(2, 0, 2, 0));
  EXPECT_EQ(Decode(*tokenizer, {6, 3}), " aba");
  EXPECT_EQ(Open(Json::parse(tokenizer->json()))->json(), tokenizer->json());
  EXPECT_EQ(Open(Json::parse(tokenizer->json()))->fingerprint(), tokenizer->fingerprint());
  json["model"]["fuse_unk"] = false;
  EXPECT_THAT(EncodeAll(*Open(json), "zz"), ElementsAre(2, 0, 0));
  EXPECT_NE(Open(json)->fingerprint(), tokenizer->fingerprint());
  json["model"]["byte_fallback"] = true;
  for (int byte = 0; byte < 256; ++byte) {
    json["model"]["vocab"][absl::StrFormat("<0x%02X>", byte)] = 8 + byte;
  }
  EXPECT_THAT(EncodeAll(*Open(json), "\u00e9z"), ElementsAre(2, 8 + 0xc3, 8 + 0xa9, 8 + 'z'));
  EXPECT_EQ(Open(json)->BytesOf(8 + 0xc3), "\xc3");
  json = Characters();
  json["added_tokens"][0]["id"] = 8;
  EXPECT_THAT(
      std::string(BpeTokenizer::Create(*ParseBpeJson(json.dump(), "t.json")).status().message()),
      HasSubstr("tokens 0 and 8 are the same text"));
  json = Characters();
  json["model"].erase("unk_token");
  EXPECT_THAT(
      std::string(BpeTokenizer::Create(*ParseBpeJson(json.dump(), "t.json")).status().message()),
      HasSubstr("neither a token for each byte"));
  json["model"]["unk_token"] = "secret";
  EXPECT_THAT(ErrorOf(json), HasSubstr("model.unk_token is a text of 6 characters; expected a"));
}

TEST(BpeJsonTest, WordsThatAreTokensMayIgnoreMerges) {
  Json json = Json::parse(WriteBpeJson(BytesAsVocabulary()));
  json["model"]["vocab"]["abc"] = 256;
  EXPECT_THAT(EncodeAll(*Open(json), "abc"), ElementsAre('a', 'b', 'c'));
  const uint64_t fingerprint = Open(json)->fingerprint();
  json["model"]["ignore_merges"] = true;
  const auto tokenizer = Open(json);
  EXPECT_THAT(EncodeAll(*tokenizer, "abc abcd"), ElementsAre(256, ' ', 'a', 'b', 'c', 'd'));
  EXPECT_NE(tokenizer->fingerprint(), fingerprint);
  EXPECT_EQ(Open(Json::parse(tokenizer->json()))->fingerprint(), tokenizer->fingerprint());
}

TEST(BpeJsonTest, TokensBeforeDocumentsAreThoseOfTheVocabulary) {
  Json json = Characters();
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
      {"special_tokens", {{"<s>", {{"ids", {1}}}}}}};
  const auto tokenizer = Open(json);
  EXPECT_THAT(tokenizer->before_document(), ElementsAre(1));
  EXPECT_TRUE(IsBetweenDocuments(*tokenizer, 1));
  EXPECT_FALSE(IsBetweenDocuments(*tokenizer, 3));
  EXPECT_THAT(EncodeAll(*tokenizer, "ab"), ElementsAre(1, 6));
  EXPECT_THAT(EncodeAll(*tokenizer, "ab", TextStart::kText), ElementsAre(6));
  EXPECT_THAT(EncodeAll(*tokenizer, "ab", TextStart::kWithin), ElementsAre(5));
  EXPECT_EQ(tokenizer->fingerprint(), Open(Characters())->fingerprint());
  json["post_processor"]["special_tokens"]["<s>"]["ids"] = {9};
  EXPECT_THAT(
      std::string(BpeTokenizer::Create(*ParseBpeJson(json.dump(), "t.json")).status().message()),
      HasSubstr("post_processor puts token 9 before documents"));
}

// Whatever a file holds, it is read or refused.
TEST(BpeJsonTest, RandomDamageNeverGoesUnanswered) {
  const std::string good = WriteBpeJson(Trained());
  std::mt19937 random(23);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (unsigned i = 0; i <= random() % 4; ++i) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
      }
    }
    auto vocabulary = ParseBpeJson(text, "t.json");
    if (vocabulary.ok() && BpeTokenizer::Create(*std::move(vocabulary)).ok()) continue;
    ++refused;
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace muster
