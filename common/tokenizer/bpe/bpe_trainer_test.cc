#include "common/tokenizer/bpe/bpe_trainer.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/byte_level.h"
#include "common/tokenizer/words/text_divider.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// The method as it is described: all pairs are counted again for each token.
BpeVocabulary TrainSlowly(const std::vector<std::string>& texts, size_t vocabulary) {
  BpeVocabulary learned;
  for (const uint8_t byte : ByteLevelOrder()) {
    learned.tokens.emplace_back(1, static_cast<char>(byte));
  }
  const auto id = [&learned](const std::string& token) {
    const auto found = std::find(learned.tokens.begin(), learned.tokens.end(), token);
    return static_cast<int32_t>(found - learned.tokens.begin());
  };
  std::vector<std::vector<int32_t>> words;
  for (const std::string& text : texts) {
    Gpt2Words()->ForEachPiece(text, TextStart::kText, [&](const TextDivider::Piece& piece) {
      const absl::string_view word = piece.text;
      words.emplace_back();
      for (const char byte : word) words.back().push_back(id(std::string(1, byte)));
    });
  }
  while (learned.tokens.size() < vocabulary - 1) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const auto& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
    }
    auto best = counts.end();
    for (auto each = counts.begin(); each != counts.end(); ++each) {
      if (best == counts.end() || each->second > best->second) best = each;
    }
    if (best == counts.end() || best->second < 2) break;
    const std::pair<int32_t, int32_t> pair = best->first;
    learned.merges.push_back(pair);
    const std::string joined = learned.tokens[pair.first] + learned.tokens[pair.second];
    const int32_t token = id(joined);
    if (static_cast<size_t>(token) == learned.tokens.size()) learned.tokens.push_back(joined);
    for (auto& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] == pair.first && word[i + 1] == pair.second) {
          word[i] = token;
          word.erase(word.begin() + i + 1);
        }
      }
    }
  }
  learned.added.push_back({static_cast<int32_t>(learned.tokens.size()), "<|endoftext|>"});
  learned.tokens.push_back("<|endoftext|>");
  return learned;
}

BpeVocabulary Train(const std::vector<std::string>& texts, int64_t vocabulary) {
  BpeTrainer trainer;
  for (const std::string& text : texts) trainer.Add(text);
  auto learned = trainer.Train(vocabulary);
  EXPECT_TRUE(learned.ok()) << learned.status();
  return *std::move(learned);
}

TEST(BpeTrainerTest, LearnsTheMostFrequentPairsFirst) {
  const BpeVocabulary learned = Train({"low lower lowest low", " low slow"}, 260);
  ASSERT_EQ(learned.tokens.size(), 260u);
  // "lo" stands six times, as "ow" does, and begins with the smaller byte.
  EXPECT_EQ(learned.tokens[256], "lo");
  EXPECT_EQ(learned.tokens[257], "low");
  EXPECT_EQ(learned.tokens[258], " low");
  EXPECT_EQ(learned.tokens[259], "<|endoftext|>");
  EXPECT_EQ(learned.merges.size(), 3u);
}

TEST(BpeTrainerTest, LearnsAsTheMethodIsDescribed) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    const std::string alphabet = round % 3 == 0 ? "aab" : round % 3 == 1 ? "abc de'" : "aaaaab ";
    std::vector<std::string> texts(1 + random() % 8);
    for (std::string& text : texts) {
      text.resize(random() % 150);
      for (char& byte : text) byte = alphabet[random() % alphabet.size()];
    }
    const int64_t vocabulary = 257 + random() % 60;
    const BpeVocabulary expected = TrainSlowly(texts, vocabulary);
    const BpeVocabulary learned = Train(texts, vocabulary);
    EXPECT_EQ(learned.tokens, expected.tokens);
    EXPECT_EQ(learned.merges, expected.merges);
    std::shuffle(texts.begin(), texts.end(), random);
    EXPECT_EQ(Train(texts, vocabulary).tokens, expected.tokens) << "the order of texts counts";
    EXPECT_TRUE(BpeTokenizer::Create(learned).ok()) << BpeTokenizer::Create(learned).status();
  }
}

TEST(BpeTrainerTest, StopsWhereNoPairStandsTwice) {
  const BpeVocabulary learned = Train({"abab xyz"}, 1000);
  EXPECT_EQ(learned.tokens.size(), 258u);
  EXPECT_EQ(learned.tokens[256], "ab");
  EXPECT_EQ(Train({}, 300).tokens.size(), 257u);
}

TEST(BpeTrainerTest, LearnsNothingFromTheEndOfText) {
  const std::string end = "<|endoftext|>";
  const BpeVocabulary learned = Train({"ab" + end + "ab" + end + end + "ab" + end}, 300);
  EXPECT_EQ(learned.tokens.size(), 258u);
  EXPECT_EQ(learned.tokens[256], "ab");
}

TEST(BpeTrainerTest, RefusesImpossibleSizes) {
  for (const int64_t vocabulary : {int64_t{-1}, int64_t{256}, int64_t{1} << 21}) {
    EXPECT_THAT(std::string(BpeTrainer().Train(vocabulary).status().message()),
                HasSubstr("out of range"));
  }
}

}  // namespace
}  // namespace muster
