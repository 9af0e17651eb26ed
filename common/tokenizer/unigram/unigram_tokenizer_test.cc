#include "common/tokenizer/unigram/unigram_tokenizer.h"

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/tokenizer/unigram/unigram_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json Small() {
  return {{"added_tokens", {{{"id", 1}, {"content", "<s>"}}, {{"id", 7}, {"content", "</s>"}}}},
          {"pre_tokenizer", nullptr},
          {"model",
           {{"type", "Unigram"},
            {"unk_id", 0},
            {"vocab", Json::array({Json::array({"<unk>", 0.0}), Json::array({"<s>", 0.0}),
                                   Json::array({"a", -2.0}), Json::array({"b", -2.5}),
                                   Json::array({"ab", -5.0}), Json::array({"ba", -1.5}),
                                   Json::array({"bab", -4.5})})}}}};
}

std::string Error(const Json& json) {
  auto read = ReadUnigramJson(json, "t.json");
  if (!read.ok()) return std::string(read.status().message());
  return std::string(UnigramTokenizer::Create(*std::move(read)).status().message());
}

std::unique_ptr<const UnigramTokenizer> Open(const Json& json) {
  auto read = ReadUnigramJson(json, "t.json");
  EXPECT_TRUE(read.ok()) << read.status();
  auto tokenizer = UnigramTokenizer::Create(*std::move(read));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

TEST(UnigramTokenizerTest, TakesTheLargestSum) {
  const auto tokenizer = Open(Small());
  EXPECT_EQ(tokenizer->vocabulary(), 8);
  EXPECT_EQ(tokenizer->end_of_text(), 7);
  EXPECT_THAT(EncodeAll(*tokenizer, "ab"), ElementsAre(2, 3));
  EXPECT_THAT(EncodeAll(*tokenizer, "aba"), ElementsAre(2, 5));
  EXPECT_THAT(EncodeAll(*tokenizer, "bab</s>a"), ElementsAre(5, 3, 7, 2));
  EXPECT_THAT(EncodeAll(*tokenizer, "zz\u00e9az"), ElementsAre(0, 2, 0));
  EXPECT_THAT(EncodeAll(*tokenizer, ""), ElementsAre());
}

// Of all ways to divide a text, tried one by one.
double BestSum(const std::vector<std::pair<std::string, double>>& tokens, absl::string_view text) {
  if (text.empty()) return 0;
  double best = -std::numeric_limits<double>::infinity();
  for (const auto& [token, score] : tokens) {
    if (text.substr(0, token.size()) != token) continue;
    best = std::max(best, score + BestSum(tokens, text.substr(token.size())));
  }
  return best;
}

TEST(UnigramTokenizerTest, FindsTheBestOfAllWays) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    Json json = Small();
    json["added_tokens"] = Json::array();
    std::vector<std::pair<std::string, double>> tokens;
    for (const char* token : {"a", "b", "c", "ab", "bc", "ca", "abc", "cab", "aa", "bcab"}) {
      tokens.emplace_back(token, -1 - static_cast<double>(random() % 1000) / 100);
    }
    json["model"]["vocab"] = Json::array({Json::array({"<unk>", 0.0})});
    for (const auto& [token, score] : tokens)
      json["model"]["vocab"].push_back(Json::array({token, score}));
    const auto tokenizer = Open(json);
    for (int i = 0; i < 20; ++i) {
      std::string text(1 + random() % 12, 'a');
      for (char& letter : text) letter = static_cast<char>('a' + random() % 3);
      double sum = 0;
      for (const int32_t token : EncodeAll(*tokenizer, text)) sum += tokens[token - 1].second;
      EXPECT_NEAR(sum, BestSum(tokens, text), 1e-9) << text;
    }
  }
}

TEST(UnigramTokenizerTest, GoesRound) {
  Json json = Small();
  json["normalizer"] = {{"type", "NFKC"}};
  const auto tokenizer = Open(json);
  const auto again = Open(Json::parse(tokenizer->json()));
  EXPECT_EQ(again->json(), tokenizer->json());
  EXPECT_EQ(again->fingerprint(), tokenizer->fingerprint());
  EXPECT_NE(Open(Small())->fingerprint(), tokenizer->fingerprint());
  json["model"]["vocab"][2][1] = -2.25;
  EXPECT_NE(Open(json)->fingerprint(), tokenizer->fingerprint());
}

TEST(UnigramTokenizerTest, DamageIsRefusedWithoutQuotes) {
  Json json = Small();
  json["model"]["vocab"][3] = Json::array({"secret"});
  EXPECT_THAT(Error(json), HasSubstr("t.json: token 3 of model.vocab is a list of 1; expected a"));
  json = Small();
  json["model"]["vocab"][3][0] = "a";
  EXPECT_THAT(Error(json), HasSubstr("tokens 2 and 3 are the same text"));
  json = Small();
  json["model"]["unk_id"] = 70'000u;
  EXPECT_THAT(Error(json), HasSubstr("model.unk_id is a number of 5 characters"));
  json["model"].erase("unk_id");
  EXPECT_THAT(Error(json), HasSubstr("nor a model.unk_id"));
  json = Small();
  json["added_tokens"][0]["content"] = "b";
  EXPECT_THAT(Error(json), HasSubstr("two tokens have the id 1"));
  json = Small();
  json["model"]["vocab"] = Json::object();
  EXPECT_THAT(Error(json), HasSubstr("model.vocab is an object of 0 members"));
  json = Small();
  json["pre_tokenizer"] = {{"type", "ByteLevel"}};
  EXPECT_THAT(Error(json), HasSubstr("the pre_tokenizer is ByteLevel"));
}

}  // namespace
}  // namespace muster
